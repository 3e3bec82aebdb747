"""The README's sharp edges: each is shown by a test, here or elsewhere."""

from __future__ import annotations

import ast
import re
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from kern_tools import FaultType, Sandbox, run_code
from kern_tools.host import host_report
from kern_tools.image import ensure_image
from kern_tools.sandbox_contract import box_processes

TESTS = Path(__file__).parent
README = TESTS.parent / "README.md"
EDGES: Mapping[str, tuple[str, ...]] = {
    "A box shares the host's kernel.": (
        "test_box_view.py::test_the_kernel_is_the_hosts",
    ),
    "Caps bind only where the host delegates a cgroup (v2).": (
        "test_host_states.py::test_prompt_and_results_say_whether_limits_bind",
        "test_host_states.py::"
        "test_required_limits_are_looked_at_when_the_sandbox_opens",
        "test_cli.py::test_caps_that_do_not_bind_are_said_plainly",
    ),
    "Reaching the pids cap is no fault": (
        "vm/test_oom.py::test_the_process_cap_is_an_error_in_the_code",
        "vm/test_edges.py::test_an_unhandled_fork_over_the_cap_names_the_reason",
    ),
    "Scratch does not survive a call": (
        "test_modes.py::test_a_warm_box_serves_one_call",
    ),
    "`memory_mb` includes `/tmp` and `/dev/shm`": (
        "test_box_view.py::test_memory_that_looks_like_disk_is_sized_by_the_cap",
        "vm/test_oom.py::test_outgrowing_the_cap_is_oom",
        "vm/test_edges.py::test_scratch_as_large_as_the_cap_ends_the_box",
        "vm/test_edges.py::test_a_workspace_counts_where_the_host_keeps_it_in_memory",
    ),
    "The box sees the host's numbers": (
        "test_option_effects.py::test_a_cpu_cap_is_a_share_of_time_and_no_count",
        "test_box_view.py::test_the_workspace_shows_the_disk_of_the_host",
        "test_box_view.py::test_a_file_may_be_larger_than_the_memory_cap",
        "test_sharp_edges.py::test_a_fast_writer_passes_the_limit",
    ),
    "`network=True` reaches services on the host's loopback.": (
        "test_egress.py::test_full_network_reaches_the_loopback_of_the_host",
    ),
    "`egress_allow` is for programs that speak to an HTTP proxy": (
        "test_egress.py::test_there_is_no_route_around_the_proxy",
    ),
    "Without scratch, temporary files land in the workspace": (
        "test_box_mounts.py::test_without_scratch_temporary_files_land_in_the_workspace",
        "test_option_effects.py::test_the_untrusted_profile_leaves_no_scratch",
    ),
    "Code that is not root (`user`, or an image's `USER`) needs `newuidmap` and a range"
    " in `/etc/subuid`.": (
        "vm/test_accounts.py::test_code_of_another_account_shares_the_workspace",
        "vm/test_accounts.py::test_it_works_without_privileges",
    ),
    "In `fresh` and `kernel` mode a cell is the first process of its box": (
        "test_sharp_edges.py::test_a_first_process_does_not_hear_itself",
        "test_sharp_edges.py::test_an_abort_of_a_first_process_reads_as_another_crash",
        "test_box_view.py::test_a_blocked_call_in_a_child_is_no_fault",
    ),
    "`limits_enforced` is known once a box has ended": (
        "test_sharp_edges.py::test_whether_caps_bind_may_be_unknown_at_first",
    ),
    "A deadline ends a call, not what it left behind": (
        "test_sharp_edges.py::test_what_a_call_left_behind_outlives_its_deadline",
    ),
    "Workers that begin anew do not find a cell's functions": (
        "test_sharp_edges.py::test_only_forked_workers_know_the_functions_of_a_cell",
    ),
    "In `kernel` mode a cell can fake the results of later ones": (
        "test_sharp_edges.py::test_a_cell_of_a_kernel_can_fake_a_later_one",
    ),
    "An image without `/bin/sh` and Python": (
        "images/test_images.py::test_an_error_arrives_without_any_shell",
    ),
    "Pin an image by digest": (
        "images/test_pinning.py::test_a_tag_moves_and_a_digest_does_not",
    ),
}
"""What a bullet begins with, in bold, to the tests that show it."""


def bullets() -> list[str]:
    """Give the bold words that each bullet of the section begins with."""
    section = README.read_text(encoding="utf-8").partition("\n## Sharp edges\n")[2]
    text = re.sub(r"\s+", " ", section.partition("\n## ")[0])
    items = re.split(r" - (?=\*\*)", text)[1:]
    return [item.split("**")[1] for item in items]


def test_each_edge_of_the_readme_has_its_tests() -> None:
    """No bullet without a test, and no test for a bullet that is gone."""
    assert sorted(bullets()) == sorted(EDGES)


@pytest.mark.parametrize("name", sorted({name for n in EDGES.values() for name in n}))
def test_the_test_of_an_edge_exists(name: str) -> None:
    """A test that was renamed or removed is missed here."""
    file, _, function = name.partition("::")
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    assert function in {n.name for n in ast.walk(tree) if isinstance(n, kinds)}


def test_every_bullet_is_one_edge() -> None:
    """The section is a list whose items all begin with what they are about."""
    section = README.read_text(encoding="utf-8").partition("\n## Sharp edges\n")[2]
    lines = section.partition("\n## ")[0].splitlines()
    assert len(bullets()) == sum(line.startswith("- ") for line in lines) >= 10


# The edges that no other test is about


def test_a_fast_writer_passes_the_limit() -> None:
    """A workspace is looked at from time to time, so that it is over before it ends."""
    with Sandbox(workspace_max_bytes=1 << 20, prewarm=0) as sandbox:
        code = "f = open('big', 'wb')\nwhile True: f.write(bytes(1 << 20)); f.flush()"
        assert sandbox.run_code(code).fault_type == FaultType.WORKSPACE_FULL
        assert sandbox.workspace.usage_bytes() > 1 << 20


@pytest.mark.parametrize("mode", ["fresh", "kernel"])
def test_a_first_process_does_not_hear_itself(mode: str) -> None:
    """Not even the signal that no other process can refuse."""
    code = (
        "import os, signal\n"
        "for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP):\n"
        "    os.kill(os.getpid(), number)\n"
        "print('on')"
    )
    with Sandbox(mode=mode, prewarm=0) as sandbox:
        assert sandbox.run_code(code).stdout == "on\n"
    with Sandbox(mode="resident") as sandbox:
        assert sandbox.run_code(code).fault_type == FaultType.KILLED


@pytest.mark.parametrize(
    ("mode", "number"),
    [
        ("fresh", signal.SIGSEGV),
        ("kernel", signal.SIGSEGV),
        ("resident", signal.SIGABRT),
    ],
)
def test_an_abort_of_a_first_process_reads_as_another_crash(
    mode: str, number: signal.Signals
) -> None:
    """Its SIGABRT is ignored, and the C library then ends it by what it can."""
    with Sandbox(mode=mode, prewarm=0) as sandbox:
        result = sandbox.run_code("import os\nos.abort()")
    assert (result.signal, result.fault) == (number, None)
    assert result.exit_code == 128 + number


def test_whether_caps_bind_may_be_unknown_at_first() -> None:
    """No box of a new kernel has ended; asking for the prompt asks kern."""
    with Sandbox(mode="kernel") as sandbox:
        assert sandbox.run_code("1").limits_enforced is None
        assert sandbox.system_prompt()
        known = host_report(reference=ensure_image().reference).limits_enforced
        assert sandbox.run_code("1").limits_enforced is known
    assert known is not None


@pytest.mark.parametrize("mode", ["resident", "kernel"])
def test_what_a_call_left_behind_outlives_its_deadline(mode: str) -> None:
    """It lives in a session of its own, and ends with the box."""
    leave = (
        "import subprocess\n"
        "subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "while True: pass"
    )
    count = (
        "import glob\nprint(sum(open(path).read() == 'sleep\\n'\n"
        "          for path in glob.glob('/proc/[0-9]*/comm')))"
    )
    with Sandbox(mode=mode) as sandbox:
        assert sandbox.run_code(leave, timeout_s=1).fault_type == FaultType.TIMEOUT
        assert sandbox.run_code(count).stdout == "1\n"
        assert len(box_processes(sandbox)) >= 2
        sandbox.reset()
        assert sandbox.run_code(count).stdout == "0\n"


def test_a_cell_of_a_kernel_can_fake_a_later_one() -> None:
    """Both are one process; a new box is none the worse for it."""
    fake = "import builtins\nbuiltins.sum = lambda _: 42"
    with Sandbox(mode="kernel") as sandbox:
        sandbox.run_code(fake)
        assert sandbox.run_code("sum([1, 1])").results[0].text == "42"
        sandbox.reset()
        assert sandbox.run_code("sum([1, 1])").results[0].text == "2"
    with Sandbox(mode="resident") as sandbox:
        sandbox.run_code(fake)
        assert sandbox.run_code("sum([1, 1])").results[0].text == "2"


@pytest.mark.parametrize(("method", "found"), [("fork", True), ("forkserver", False)])
def test_only_forked_workers_know_the_functions_of_a_cell(
    method: str, found: bool
) -> None:
    """The others look for them in the file of a script, and a cell has none."""
    code = (
        "from concurrent.futures import ProcessPoolExecutor\n"
        "from multiprocessing import get_context\n"
        "def square(n): return n * n\n"
        "if __name__ == '__main__':\n"
        f"    with ProcessPoolExecutor(1, get_context({method!r})) as pool:\n"
        "        print(pool.submit(square, 3).result())\n"
    )
    result = run_code(code)
    assert (result.stdout == "9\n") is found
    assert ("BrokenProcessPool" in result.code_stderr) is not found
