"""Claims of what is advised after a fault."""

from __future__ import annotations

from kern_tools import FaultType

from .claim import Claim, Live, Said, claim
from .place import END, speaks_python

_LANGUAGES = r"(?P<languages>(?:python|bash|sh|node)(?:, (?:bash|sh|node))*)"
_HEDGE = "(?:, as far as the image has them)?"


CALLS = {
    "mount": "mount(b'n', b'/tmp', b'tmpfs', 0, None)",
    "unshare": "unshare(0x10000000)",
    "ptrace": "ptrace(16, 1, 0, 0)",
    "init_module": "syscall(175, 0, 0, 0)",
}


def _raised(live: Live, said: Said) -> None:
    most_s, limit_s = live.facts.timeout_max_s, live.facts.timeout_s
    assert said["most"] == f"{most_s:g} s"
    code = f"import time; time.sleep({(limit_s + most_s) / 2})"
    for timeout_s, fault in ((None, "timeout"), (None, "timeout"), (most_s, None)):
        assert live.sandbox.wait_ready(60)
        reply = live.call("run_code", code=code, timeout_s=timeout_s)
        assert reply.fault_type == fault


def _blocked(live: Live, said: Said) -> None:
    for call in CALLS.values():
        code = f"import ctypes; ctypes.CDLL(None).{call}"
        for _ in range(2):
            reply = live.call("run_code", code=code)
            assert reply.fault_type == FaultType.ESCAPE_BLOCKED


def _languages(live: Live, said: Said) -> None:
    assert said["languages"] == ", ".join(live.facts.languages)
    assert live.says({"python": "print(1)"}.get(live.language, "echo 1")) == "1"


def _full(live: Live, said: Said) -> None:
    for file in live.sandbox.list_files():
        if file.size > 1 << 20:
            assert live.run("1").success
            adding = (
                "import time\nopen('more', 'wb').write(bytes(1 << 20))\ntime.sleep(60)"
            )
            assert live.run(adding).fault_type == FaultType.WORKSPACE_FULL
            assert live.run(f"import os\nos.remove({file.path!r})").success
    assert live.run("open('more', 'w').write('more')").success


def _killed(live: Live, said: Said) -> None:
    reply = live.call("run_code", code="import os; os.kill(os.getpid(), 9)")
    assert reply.fault_type == FaultType.KILLED


def _cannot_kill(live: Live, said: Said) -> None:
    reply = live.call("run_code", code="import os; os.kill(os.getpid(), 9)")
    assert reply.fault_type is None


FAULTS: tuple[Claim, ...] = (
    claim(
        "do less in one call: smaller input, a better algorithm, or steps that keep"
        r" what they have in files(?:; or raise `timeout_s`, up to (?P<most>[\d.,]+"
        r" s))?"
        r"\. The same code will time out again" + END,
        "fault: timeout",
        probe=_raised,
        where=lambda f: f.timeout_s <= 1.5,
    ),
    claim(
        "use less memory: read in chunks, keep fewer copies, choose smaller types\\."
        " The"
        " same code will end the same way" + END,
        "fault: oom",
    ),
    claim(
        "do it without that system call: mounts, namespaces, tracing other processes"
        r" and loading kernel code are forbidden here\. Trying again changes nothing"
        + END,
        "fault: escape_blocked",
        probe=_blocked,
        where=lambda f: f.mode == "fresh" and speaks_python(f),
    ),
    claim(
        "(?:make the file executable, or give it to an interpreter|use what this"
        " sandbox"
        f" has): {_LANGUAGES}{_HEDGE}{END}",
        "fault: exec_failed",
        when=lambda f: bool(f.languages),
        probe=_languages,
        where=lambda f: f.looked_into,
    ),
    claim(
        "the image has no language that can be run: tell the user" + END,
        "fault: exec_failed",
        when=lambda f: not f.languages,
    ),
    claim(
        "it was killed, by code of the box or from outside" + END,
        "fault: killed",
        when=lambda f: f.mode == "resident",
        probe=_killed,
    ),
    claim(
        "something outside the code ended it, perhaps a machine short of memory" + END,
        "fault: killed",
        when=lambda f: f.mode != "resident",
        probe=_cannot_kill,
        where=speaks_python,
    ),
    claim(
        "If the code needs much memory, make it need less; if this happens again, tell"
        " the user instead of rewriting the code" + END,
        "fault: killed",
    ),
    claim(
        "make the same call once more; if it fails again, tell the user that the"
        " sandbox"
        " does not start" + END,
        "fault: startup_failed",
    ),
    claim(
        "the code is not to blame, so do not change it: tell the user that the sandbox"
        " does not start and that whoever runs it has to act" + END,
        "fault: startup_failed",
    ),
    claim(
        "this version has no advice for that. Change what the code does before another"
        " try; if it happens again, tell the user" + END,
        "fault: unknown",
    ),
    claim(
        "remove files or make large ones smaller before anything else: until there is"
        " room, a call is stopped as soon as it adds to them\\. After that write less"
        + END,
        "fault: workspace_full",
        probe=_full,
        where=lambda f: f.workspace_max_bytes is not None,
    ),
)
