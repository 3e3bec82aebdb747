"""What users asked others for, where no other test is about it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kern_tools import Sandbox
from kern_tools.testing import Adapter
from kern_tools.tools import tools_of

from .reading import ran, verdict

README = Path(__file__).parents[2] / "README.md"
NO_NETWORK = ("unshare", "--user", "--map-root-user", "--net")


def test_neither_account_nor_network_is_needed(tmp_path: Path) -> None:
    """Cut off from all networks, the first sandbox builds its image and runs code.

    Source: https://github.com/danny-avila/LibreChat/issues/9443
    """
    script = (
        "import socket\nassert [n for _, n in socket.if_nameindex()] == ['lo']\n"
        "from kern_tools import run_code\nprint(run_code('print(6 * 7)').stdout)"
    )
    done = subprocess.run(
        [*NO_NETWORK, sys.executable, "-c", script],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.returncode) == ("42\n\n", 0), done.stderr


def test_it_is_said_where_code_runs(sandbox: Sandbox) -> None:
    """To people in the first sentence, to the model in every prompt.

    Source: https://github.com/e2b-dev/code-interpreter/issues/60
    Source: https://github.com/e2b-dev/code-interpreter/issues/24
    """
    first = README.read_text(encoding="utf-8").split("\n\n")[1]
    assert "runs on your own Linux machine" in " ".join(first.split())
    run_code, run_command = tools_of(sandbox, ["run_code", "run_command"])
    for words in (sandbox.system_prompt(), run_code.description):
        assert "on this machine" in words
    assert "on this machine" in run_command.description


@pytest.mark.parametrize("asked_s", [None, 0.5])
def test_a_limit_is_named_with_its_value(asked_s: float | None) -> None:
    """Which one ended the call: the call's own, or the sandbox's.

    Source: https://github.com/vndee/llm-sandbox/issues/43
    Source: https://github.com/vndee/llm-sandbox/issues/100
    """
    with Sandbox(mode="resident", timeout_s=1) as sandbox:
        (run_code,) = tools_of(sandbox, "run_code")
        code = "import time; time.sleep(60)"
        reply = run_code.call({"code": code, "timeout_s": asked_s})
    assert reply.result is not None
    assert reply.result.fault is not None
    limit = f"{1 if asked_s is None else asked_s:g} s"
    assert limit in reply.result.fault.message
    assert limit in reply.text.partition("\n")[0]


def test_a_file_that_code_made_can_be_reached(
    adapter: Adapter, sandbox: Sandbox
) -> None:
    """The reply and the result name it as the tools and the host's code can use it.

    Source: https://github.com/QwenLM/Qwen3/issues/1614
    Source: https://github.com/danny-avila/LibreChat/issues/5054
    Source: https://github.com/EtiennePerot/safe-code-execution/issues/4
    """
    sandbox.run_code("import os\nif os.path.exists('made.csv'): os.remove('made.csv')")
    code = "open('made.csv', 'w').write('a,b');"
    outcome = adapter.call("run_code", {"code": code})
    (file,) = ran(outcome).files
    assert (file.path, file.size, file.change) == ("made.csv", 3, "created")
    assert "made.csv" in outcome.text
    assert "a,b" in adapter.call("read_file", {"path": file.path}).text
    assert sandbox.read_file(file.path) == b"a,b"
    assert verdict(outcome).startswith("ok")
    assert "in your answer" in sandbox.system_prompt()
