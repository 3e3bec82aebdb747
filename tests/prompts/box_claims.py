"""Claims on what a box gives to code: places to write, variables, an empty stdin."""

from __future__ import annotations

from kern_tools import FaultType

from .claim import Claim, Live, Said, claim
from .place import END, size_of, speaks_python


def can_write(live: Live, path: str) -> str:
    """Say what comes of writing a file below a path, or to it."""
    code = (
        f"import os; p = {path!r}; p += '/written' * os.path.isdir(p)\n"
        "try: open(p, 'w').write('x'); os.remove(p); print('written')\n"
        "except OSError as error: print(error.strerror)"
    )
    return live.says(code, "python")


def writable(live: Live, said: Said) -> None:
    """Each can be written up to its size, and the image cannot."""
    where = [entry.partition(" (") for entry in said["where"].split(", ")]
    for path, _, words in where:
        assert can_write(live, path) == "written"
        if "of scratch" in words:
            scratch(live, path, size_of(words.removesuffix(" of scratch)")))
    for path in ("/usr", "/root", "/etc", "/usr/local/bin"):
        assert can_write(live, path) == "Read-only file system"
    if said["cap"] is not None:
        full(live, size_of(said["cap"]))


def scratch(live: Live, path: str, size: int) -> None:
    """One byte more than its size is an error."""
    code = (
        f"f = open('{path}/filled', 'wb')\n"
        f"try: f.write(bytes({size + 4096})); f.flush(); print('all of it')\n"
        "except OSError as error: print(error.strerror)\n"
        f"import os; print(os.path.getsize('{path}/filled'));"
        f" os.remove('{path}/filled')"
    )
    why, kept = live.says(code, "python").split("\n")
    assert why == "No space left on device"
    assert size * 0.98 <= int(kept) <= size


def full(live: Live, size: int) -> None:
    """Going well over the workspace's cap ends the call."""
    assert size == live.facts.workspace_max_bytes
    code = (
        "import time; f = open('filled', 'wb')\n"
        f"while True: f.write(bytes({size})); f.flush(); time.sleep(0.05)"
    )
    assert live.run(code, "python").fault_type == FaultType.WORKSPACE_FULL
    live.sandbox.write_file("filled", "")


def read_only(live: Live, said: Said) -> None:
    """They are there, and cannot be written."""
    for path in said["where"].split(", "):
        assert live.says(f"import os; print(os.path.exists({path!r}))", "python")
        assert can_write(live, path) == "Read-only file system"


def home(live: Live, said: Said) -> None:
    """A setting that one call makes is there for the next, and shows in no listing."""
    path = "os.path.expanduser('~/.setting')"
    live.says(f"import os; open({path}, 'w').write('kept')", "python")
    assert live.says(f"import os; print(open({path}).read())", "python") == "kept"
    assert ".setting" not in live.call("list_files").text


def environment(live: Live, said: Said) -> None:
    """Code finds each, and its value is in no text."""
    names = said["names"].split(", ")
    code = f"import os; print(all(name in os.environ for name in {names}))"
    assert live.says(code, "python") == "True"


def no_stdin(live: Live, said: Said) -> None:
    """Reading is at the end at once, in every language."""
    if said["python"] is not None:
        assert live.run("input()", "python").code_stderr.endswith(
            "EOFError: EOF when reading a line\n"
        )
    if {"bash", "sh"} & set(live.facts.languages):
        shell = "bash" if "bash" in live.facts.languages else "sh"
        assert live.says("read x || echo none", shell) == "none"


_PATH = r"/[^\s,]+(?: \([\d.,]+ \w+ of scratch\))?"

BOX: tuple[Claim, ...] = (
    claim(
        r"Writable: (?P<where>/workspace(?: \(at most (?P<cap>[\d.,]+ \w+)\))?"
        rf"(?:, {_PATH})*)" + END,
        "writable",
        probe=writable,
        where=speaks_python,
    ),
    claim(
        rf"Read-only: (?P<where>{_PATH}(?:, {_PATH})*)" + END,
        "read_only",
        when=lambda f: any(not writes for _, writes in f.mounts),
        probe=read_only,
    ),
    claim(
        "HOME is kept from call to call, for settings and caches" + END,
        "surroundings",
        when=lambda f: f.home,
        probe=home,
    ),
    claim(
        r"Environment variables: (?P<names>\w+(?:, \w+)*)" + END,
        "surroundings",
        when=lambda f: bool(f.env),
        probe=environment,
    ),
    claim(
        r"No stdin(?:: (?:(?P<python>`input\(\)` fails)\. Put|put) values in the code)?"
        + END,
        *("stdin", "run_code", "run_command"),
        probe=no_stdin,
    ),
)
