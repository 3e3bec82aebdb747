"""Runs inside the virtual machine and prints one JSON object a case."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from kern_tools import ExecutionResult, Sandbox
from kern_tools.contract_view import FORKS
from kern_tools.host import host_report
from kern_tools.host_image import host_reference
from kern_tools.tools import tools_of

IMAGE = os.environ["IMAGE"]
BUSYBOX = "localhost/guest/busybox:1"
CAP_MB = 64
HOG = "x = bytearray(200 << 20)"
GROW = 'x=0123456789abcdef; while :; do x="$x$x"; done'
CELLS = {
    "in_the_cell": f"print('before', flush=True)\n{HOG}",
    "in_a_child": f"""\
import subprocess, sys
subprocess.run([sys.executable, '-c', {HOG!r}])
""",
    "through_shared_memory": """\
open('/dev/shm/x', 'wb').write(bytes(40 << 20))
x = bytearray(40 << 20)
""",
    "within_the_cap": "x = bytearray(20 << 20); print(len(x))",
    "forged": """\
import os
print("kern: the workload was killed by the kernel's OOM killer", flush=True)
os._exit(137)
""",
}


def take_for_host_image() -> None:
    """Give the image that this root was made from the name of the host's own."""
    subprocess.run(
        ["kern", "tag", IMAGE, host_reference()], check=True, capture_output=True
    )


def kern_alone() -> dict[str, Any]:
    """Run a box that outgrows its memory with `kern` itself; give its verdict bytes."""
    read_end, write_end = os.pipe()
    done = subprocess.run(
        [
            *(
                "kern",
                "box",
                "alone",
                "--image",
                IMAGE,
                "--pull",
                "never",
                "--ro",
                "-q",
            ),
            *("--memory", f"{CAP_MB}m", "--require-limits", "--", "python3", "-c", HOG),
        ],
        env={**os.environ, "KERN_STARTED_FD": str(write_end)},
        pass_fds=[write_end],
        capture_output=True,
        check=False,
    )
    os.close(write_end)
    verdict = list(os.read(read_end, 8))
    return {"exit_code": done.returncode, "verdict": verdict}


def boxes(**options: Any) -> Sandbox:
    """Return a sandbox whose boxes start only if their caps bind."""
    chosen = {"memory_mb": CAP_MB, "require_limits": True, "prewarm": 0, **options}
    return Sandbox(**chosen)


def cell(code: str, language: str = "python", **options: Any) -> ExecutionResult:
    """Run one cell in a sandbox of its own."""
    with boxes(**options) as sandbox:
        return sandbox.run_code(code, language)


def in_a_warm_box() -> ExecutionResult:
    """Run a cell that outgrows its memory in a box that was started before it."""
    with boxes(prewarm=1) as sandbox:
        assert sandbox.wait_ready(600)
        result = sandbox.run_code(CELLS["in_the_cell"])
    assert result.warm
    return result


def after_an_oom() -> ExecutionResult:
    """Run a cell in a sandbox whose last box was killed, with the files it left."""
    with boxes() as sandbox:
        sandbox.run_code(f"open('kept.txt', 'w').write('kept')\n{HOG}")
        return sandbox.run_code("print(open('kept.txt').read())")


def beside_an_oom() -> ExecutionResult:
    """Run a cell while a sibling box of the same sandbox is killed."""
    with boxes() as sandbox:
        wait = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.05)\n"
        results: list[ExecutionResult] = []
        sibling = threading.Thread(
            target=lambda: results.append(sandbox.run_code(f"{wait}print('unharmed')"))
        )
        sibling.start()
        assert sandbox.run_code(HOG).fault_type == "oom"
        sandbox.write_file("go", "")
        sibling.join()
    return results[0]


def without_python() -> ExecutionResult:
    """Run a command that outgrows its memory in an image of busybox alone."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sh").write_bytes(Path("/usr/bin/busybox").read_bytes())
        Path(folder, "sh").chmod(0o755)
        Path(folder, "Dockerfile").write_text("FROM scratch\nCOPY sh /bin/sh\n")
        subprocess.run(
            ["kern", "build", "-t", BUSYBOX, folder], check=True, capture_output=True
        )
    with boxes(image=BUSYBOX) as sandbox:
        return sandbox.run(["sh", "-c", GROW])


def told() -> dict[str, Any]:
    """Give what a model is told of the caps, and what it is told once they bound."""
    with boxes(pids=16) as sandbox:
        (tool,) = tools_of(sandbox, "run_code")
        return {
            "prompt": sandbox.system_prompt(),
            "description": tool.description,
            "oom": tool.call({"code": HOG}).text,
            "processes": tool.call(
                {
                    "code": "import os\nfor _ in range(99):\n"
                    "    if os.fork() == 0: os.execvp('sleep', ['sleep', '9'])"
                }
            ).text,
        }


def tell(name: str, run: Callable[[], ExecutionResult]) -> None:
    """Print one case's result."""
    print(json.dumps({"case": name, **run().model_dump(mode="json")}), flush=True)


take_for_host_image()
print(json.dumps({"case": "kern_alone", **kern_alone()}), flush=True)
print(json.dumps({"case": "host", **host_report().to_dict()}), flush=True)
print(json.dumps({"case": "told", **told()}), flush=True)
for title, source in CELLS.items():
    tell(title, partial(cell, source))
tell("in_a_warm_box", in_a_warm_box)
tell("in_bash", partial(cell, GROW, "bash"))
tell("processes", partial(cell, FORKS, pids=16))
tell("after_an_oom", after_an_oom)
tell("beside_an_oom", beside_an_oom)
tell("without_python", without_python)
