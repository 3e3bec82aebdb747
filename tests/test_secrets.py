"""One canary, looked for in every place where a secret could show."""

from __future__ import annotations

import json
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kern_tools import ConfigError, Sandbox, SandboxConfig
from kern_tools.engine import engine
from kern_tools.host import host_report
from kern_tools.sandbox_contract import box_processes, processes_with
from kern_tools.tools import tools_of

CANARY = "c4n4ry-5ecret-value"
ENV = {"TOKEN": CANARY, "PYTHONWARNINGS": f"ignore:{CANARY}"}


@pytest.mark.parametrize("mode", ["fresh", "resident", "kernel"])
def test_a_secret_shows_nowhere_but_in_the_box(mode: str) -> None:
    """Command lines, files, words for people and words for models."""
    began, seen = threading.Event(), threading.Event()
    code = (
        "import os, time\n"
        f"assert os.environ['TOKEN'].startswith({CANARY[:6]!r})\n"
        "print('on', flush=True)\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n1/0"
    )
    with Sandbox(mode=mode, env=ENV) as sandbox, ThreadPoolExecutor(1) as pool:
        call = pool.submit(sandbox.run_code, code, on_stdout=lambda _: began.set())
        began.wait()
        assert processes_with(CANARY) == []
        assert box_processes(sandbox)
        said = [repr(vars(child)) for child in list(engine().children)]
        sandbox.write_file("go", "")
        result = call.result()
        seen.set()
        tools = tools_of(sandbox)
        said += [
            repr(sandbox),
            repr(sandbox.config),
            str(sandbox.config),
            json.dumps(sandbox.config.public()),
            repr(sandbox.describe()),
            sandbox.system_prompt(),
            *(tool.description for tool in tools),
            result.model_dump_json(),
            tools[0].call({"code": "1/0"}).text,
            json.dumps(host_report().to_dict()),
        ]
    assert result.exit_code == 1
    assert [text for text in said if CANARY in text] == []


def test_the_file_that_carries_it_is_private_and_gone() -> None:
    """Only what an interpreter must read at its start goes by a file."""
    from kern_tools.launch import private_folder

    with Sandbox(env=ENV) as sandbox:
        sandbox.run_code("1")
        assert private_folder().stat().st_mode & 0o077 == 0
        assert sandbox.run_code("import warnings").success
    left = [p for p in private_folder().rglob("*") if p.is_file()]
    assert [p for p in left if CANARY in p.read_text()] == []


def test_errors_about_it_do_not_quote_it() -> None:
    """Also where it stands in the wrong place."""
    for env in ({"A": CANARY + "\n"}, {f"A={CANARY}": "x"}, CANARY, [CANARY]):
        with pytest.raises(ConfigError) as refused:
            SandboxConfig(env=env)  # type: ignore[arg-type]
        assert CANARY not in str(refused.value)


def test_a_copy_of_the_options_keeps_it_a_secret() -> None:
    """Replaced and pickled options still hide it."""
    config = SandboxConfig(env=ENV)
    for copy in (config.replace(timeout_s=5), pickle.loads(pickle.dumps(config))):
        assert CANARY not in repr(copy)
        assert copy.environment()["TOKEN"] == CANARY


def test_an_output_of_the_code_is_not_censored(tmp_path: Path) -> None:
    """What code prints is its own affair: a secret in a box can be printed."""
    with Sandbox(env=ENV, workspace=tmp_path) as sandbox:
        code = "import os\nprint(os.environ['TOKEN'])"
        assert sandbox.run_code(code).stdout == f"{CANARY}\n"
