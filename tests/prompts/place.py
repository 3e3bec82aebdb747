"""Claims on the place that code runs in."""

from __future__ import annotations

from kern_tools.facts import SandboxFacts

from .claim import Claim, Live, Probe, Said, claim

END = r"\.(?= |\n|\Z)"
FILES = "import os, sys; "


def runs(facts: SandboxFacts) -> bool:
    """Code can be run with the tools offered."""
    return bool({"run_code", "run_command"} & set(facts.tools))


def speaks_python(facts: SandboxFacts) -> bool:
    """Python is there, as far as is known."""
    return "python" in facts.languages


def fails(facts: SandboxFacts) -> bool:
    """There is a shell or Python to fail in."""
    return "python" in facts.languages or "sh" in facts.languages


def numbers(text: str) -> int:
    """Read a number as it is written for a model."""
    return int(text.replace(",", ""))


def size_of(text: str) -> int:
    """Read `64 MiB`, exact as far as it is written."""
    amount, unit = text.split(" ")
    power = {"byte": 0, "bytes": 0, "KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4}[unit]
    return round(float(amount.replace(",", "")) * (1 << 10 * power))


# -- what survives

LEAVE = """\
import colorsys, os, subprocess
variable = 1
open('kept.txt', 'w').write('kept')
open('/dev/shm/scratch', 'w').close()
subprocess.Popen(['sleep', '50'], start_new_session=True)
"""
LOOK = """\
import glob, os
PROCESSES = glob.glob('/proc/*/cmdline')
def command(path):
    try: return open(path).read()
    except OSError: return ''
print(*[word for word, there in {
    'files': os.path.exists('kept.txt'),
    'variables': 'variable' in globals(),
    'imports': 'colorsys' in globals(),
    'scratch': os.path.exists('/dev/shm/scratch'),
    'processes': any('sleep\\x0050' in command(p) for p in PROCESSES),
}.items() if there])
"""


def survives(*what: str) -> Probe:
    """Make the probe: one call leaves things, the next one looks for them."""

    def probe(live: Live, said: Said) -> None:
        live.says(LEAVE, "python")
        assert set(live.says(LOOK, "python").split()) == set(what)
        if live.facts.mode != "fresh":
            live.sandbox.reset()
            again = live.call("run_code", code=LOOK)
            assert "\nnote: started anew: files are kept, " in again.text
            assert again.result is not None
            assert again.result.stdout == "files\n"

    return probe


def keeps_files(live: Live, said: Said) -> None:
    """What code writes is there for the next call, and for the tools."""
    live.sandbox.write_file("kept.txt", "kept")
    assert live.sandbox.read_file("kept.txt") == b"kept"


SURVIVAL = (
    claim(
        r"Each call starts anew: files in (?P<where>\S+) are kept; variables, imports,"
        r" processes and other files are not" + END,
        "survives",
        when=lambda f: f.mode == "fresh",
        probe=survives("files"),
        where=speaks_python,
    ),
    claim(
        r"Each call is a new process: variables and imports are gone after it\."
        r" Scratch files and background processes are kept while the box lives,"
        r" files in"
        r" (?P<where>\S+) always\. A reply says when the box is a new one" + END,
        "survives",
        when=lambda f: f.mode == "resident",
        probe=survives("files", "scratch", "processes"),
    ),
    claim(
        r"Python's variables and imports, scratch files and background processes are"
        r" kept from call to call while the box lives, files in (?P<where>\S+) always\."
        r" A reply says when the box is a new one" + END,
        "survives",
        when=lambda f: f.mode == "kernel",
        probe=survives("files", "scratch", "processes", "variables", "imports"),
    ),
    claim(
        r"Files are kept(?:, at most (?P<size>[\d.,]+ \w+) of them)?" + END,
        "keeps",
        probe=keeps_files,
    ),
)


# -- languages, packages, programs

HELLO = {
    "python": "print('hello')",
    "bash": "[[ a == a ]] && echo hello",
    "sh": "echo hello",
    "node": "console.log('hello')",
}


def languages(live: Live, said: Said) -> None:
    """Each that is listed runs, and no other; Python's version is the one it has."""
    listed = [name.split()[0] for name in said["names"].split(", ")]
    assert listed == list(live.facts.languages)
    for name, code in HELLO.items():
        result = live.run(code, name)
        if said["hedge"] is None:
            assert (result.stdout == "hello\n") == (name in listed), (name, result)
        assert result.success or result.fault_type == "exec_failed"
    if said["version"] is not None:
        version = "import platform; print(platform.python_version())"
        assert live.says(version, "python") == said["version"]


def no_language(live: Live, said: Said) -> None:
    """All of them fail, for want of the program."""
    assert {live.run(code, name).fault_type for name, code in HELLO.items()} == {
        "exec_failed"
    }


DISTRIBUTIONS = """\
import importlib.metadata as m
for each in m.distributions(): print(each.metadata['Name'], each.version)
"""


def distributions(live: Live) -> set[str]:
    """Ask Python for its packages."""
    lines = live.says(DISTRIBUTIONS, "python").lower().replace("_", "-")
    return set(lines.split("\n")) - {""}


def packages(live: Live, said: Said) -> None:
    """They are there in these versions, and there are no others."""
    listed = {name.lower().replace("_", "-") for name in said["names"].split(", ")}
    there = distributions(live)
    assert listed <= there
    if said["unlisted"] is None:
        assert len(there - listed) == numbers(said["more"] or "0")
    else:
        assert there > listed


def can_list(live: Live, said: Said) -> None:
    """The call that is named gives a list."""
    distributions(live)


def only_standard(live: Live, said: Said) -> None:
    """There is no distribution at all, and the library works."""
    assert distributions(live) == set()
    assert live.says("import json, sqlite3; print(json.dumps([1]))", "python") == "[1]"


def which(live: Live, *programs: str) -> set[str]:
    """Give those that a shell finds."""
    loop = (
        f"for p in {' '.join(programs)}; do command -v $p >/dev/null && echo $p; done"
    )
    return set(live.says(f"{loop}; true", "sh").split())


def programs(live: Live, said: Said) -> None:
    """A shell finds each of them."""
    listed = said["names"].split(", ")
    assert which(live, *listed) == set(listed)


def no_programs(live: Live, said: Said) -> None:
    """A shell finds none of them."""
    assert (
        which(live, "git", "curl", "gcc", "cc", "clang", "g++", "go", "rustc") == set()
    )


def node_packages(live: Live, said: Said) -> None:
    """Node can load each of them."""
    for name in said["names"].split(", "):
        assert live.says(f"require('{name}'); console.log('had')", "node") == "had"


def _more(name: str) -> str:
    return rf"(?P<names>{name}.*?)(?:, and (?P<more>[\d,]+) more)?"


CONTENT = (
    claim(
        r"Languages: (?P<names>(?:python(?: (?P<version>[\d.]+))?|bash|sh|node)"
        r"(?:, (?:bash|sh|node))*)(?P<hedge>, as far as the image has them)?" + END,
        "spoken",
        when=lambda f: bool(f.languages),
        probe=languages,
    ),
    claim(
        "The image has no language that can be run" + END,
        "spoken",
        when=lambda f: not f.languages,
        probe=no_language,
        shown_by="images",
    ),
    claim(
        rf"Python packages: {_more('')}(?P<unlisted>, and what was set up)?" + END,
        "installed",
        when=lambda f: speaks_python(f) and bool(f.packages),
        probe=packages,
    ),
    claim(
        r"`importlib\.metadata\.distributions\(\)` lists the Python packages" + END,
        "installed",
        when=lambda f: (
            speaks_python(f) and bool(f.packages or f.unlisted or not f.looked_into)
        ),
        probe=can_list,
    ),
    claim(
        "Python has its standard library only" + END,
        "installed",
        when=lambda f: (
            speaks_python(f) and not f.packages and not f.unlisted and f.looked_into
        ),
        probe=only_standard,
    ),
    claim(
        rf"Programs: {_more('')}" + END,
        "programs_there",
        when=lambda f: "run_command" in f.tools and f.looked_into and bool(f.programs),
        probe=programs,
    ),
    claim(
        "No git, curl or compiler" + END,
        "programs_there",
        when=lambda f: (
            "run_command" in f.tools
            and f.looked_into
            and not f.programs
            and not f.unlisted
        ),
        probe=no_programs,
        where=lambda f: "sh" in f.languages,
    ),
    claim(
        rf"Node packages: {_more('')}" + END,
        "node_there",
        when=lambda f: "node" in f.languages and bool(f.node_packages),
        probe=node_packages,
        shown_by="images",
    ),
)

PLACE: tuple[Claim, ...] = SURVIVAL + CONTENT
