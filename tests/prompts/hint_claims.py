"""Claims of what is advised after code failed by itself."""

from __future__ import annotations

from .bounds import unreachable
from .box_claims import can_write
from .box_claims import no_stdin as probe_no_stdin
from .claim import Claim, Live, Said, claim
from .place import END, numbers, size_of, speaks_python

_MORE = r"(?: and (?P<more>[\d,]+) more)?"
_NOTHING = r"(?P<nothing>, and nothing can be installed)?"


def _no_module(live: Live, said: Said) -> None:
    missing = live.run(f"import {said['module']}", "python")
    assert f"No module named {said['module']!r}" in missing.code_stderr
    installed = dict(live.facts.packages)
    if said["names"] is not None:
        names = said["names"].split(", ")
        assert set(names) <= set(installed)
        assert len(names) + numbers(said["more"] or "0") == len(installed)
    if said["rest"] == "Use the standard library.":
        assert not installed
    _nothing(live, said)


def _nothing(live: Live, said: Said) -> None:
    if said["nothing"] is not None:
        assert live.facts.network == "off"


def _part_missing(live: Live, said: Said) -> None:
    code = f"import importlib.metadata as m; print(m.version({said['top']!r}))"
    assert live.says(code, "python") == said["version"]


def _no_program(live: Live, said: Said) -> None:
    reply = live.call("run_command", command=said["program"])
    assert reply.result is not None
    assert reply.result.exit_code == 127
    _nothing(live, said)


def _forgotten(live: Live, said: Said) -> None:
    name = said["variable"]
    assert live.run(f"{name} = 1", "python").success
    assert not live.run(name, "python").success
    assert live.run(f"{name} = 1; {name}", "python").success


def _went(live: Live, said: Said) -> None:
    name = said["variable"]
    assert live.run(f"{name} = 1", "python").success
    live.sandbox.reset()
    assert not live.run(name, "python").success


def _strings(live: Live, said: Said) -> None:
    broken = live.run("'a\nb'", "python")
    assert "unterminated string literal" in broken.code_stderr
    assert live.says("print('a\\nb' == '''a\nb''')", "python") == "True"


def _listed(live: Live, said: Said) -> None:
    live.sandbox.write_file("seen.txt", "x")
    seen = f"'seen.txt' in os.listdir({said['where']!r})"
    code = f"import os; print({seen}, open('seen.txt').read())"
    assert live.says(code, "python") == "True x"


def _scratch(live: Live, said: Said) -> None:
    for entry in said["where"].split(", "):
        path, size = entry.split(" has ")
        code = f"import os; v = os.statvfs({path!r}); print(v.f_blocks * v.f_frsize)"
        assert int(live.says(code, "python")) == size_of(size)


def _elsewhere(live: Live, said: Said) -> None:
    for path in said["where"].split(", "):
        assert can_write(live, path) == "written"


def _no_network(live: Live, said: Said) -> None:
    if said["names"] is not None:
        assert set(said["names"].split(", ")) <= set(dict(live.facts.packages))
    unreachable(live)


def _only_domains(live: Live, said: Said) -> None:
    allowed = live.facts.network
    assert isinstance(allowed, tuple)
    assert tuple(said["names"].split(", ")) == allowed[:8]


HINTS: tuple[Claim, ...] = (
    claim(
        "there is no stdin, so (?P<python>`input\\(\\)` fails) at once: put the values"
        " in the code, or read them from a file" + END,
        "hint: no_stdin",
        probe=probe_no_stdin,
        where=speaks_python,
    ),
    claim(
        rf"there is no module `(?P<module>[\w.]+)` here{_NOTHING}\. (?P<rest>There are"
        rf" (?P<names>[\w.-]+(?:, [\w.-]+)*){_MORE}\.|Use the standard library\."
        r"|`importlib\.metadata\.distributions\(\)` lists what there is\.)(?= |\Z)",
        "hint: no_module",
        probe=_no_module,
        where=speaks_python,
    ),
    claim(
        r"`(?P<top>\w+)` (?P<version>\S+) has no `(?P<module>[\w.]+)`: look at what"
        r" is in"
        " it" + END,
        "hint: no_module",
        when=lambda f: "pandas" in dict(f.packages),
        probe=_part_missing,
    ),
    claim(
        rf"there is no Node module `(?P<module>\w+)` here{_NOTHING}\. (?:There are"
        rf" (?P<names>[\w.-]+(?:, [\w.-]+)*){_MORE}|Use what Node brings)" + END,
        "hint: no_node_module",
        probe=_nothing,
        where=lambda f: "node" in f.languages,
        shown_by="images",
    ),
    claim(
        r"define or import `(?P<variable>\w+)` in the same call: names of earlier calls"
        " are not kept" + END,
        "hint: no_name",
        when=lambda f: f.mode != "kernel",
        probe=_forgotten,
        where=speaks_python,
    ),
    claim(
        r"`(?P<variable>\w+)` went with the box of before: run again what made it"
        + END,
        "hint: no_name",
        when=lambda f: f.mode == "kernel",
        probe=_went,
    ),
    claim(
        r"the line ended inside a string: write `\\n` there for a line break, or use"
        " triple quotes" + END,
        "hint: cut_string",
        probe=_strings,
        where=speaks_python,
    ),
    claim(
        r"use less memory(?: than (?P<most>[\d.,]+ \w+))?: read in chunks, keep fewer"
        " copies, choose smaller types" + END,
        "hint: no_memory",
    ),
    claim(
        r"write elsewhere: (?P<where>/\S+(?:, /\S+)*?)(?: and (?P<more>[\d,]+) more)?"
        " can be written" + END,
        "hint: read_only",
        probe=_elsewhere,
        where=speaks_python,
    ),
    claim(
        r"scratch is small \((?P<where>/\S+ has [\d.,]+ \w+(?:, /\S+ has [\d.,]+"
        r" \w+)*)\)"
        ": keep large files in /workspace, and delete what is not needed" + END,
        "hint: no_space",
        when=lambda f: bool(f.tmpfs),
        probe=_scratch,
        where=speaks_python,
    ),
    claim(
        "delete what is not needed, then write less" + END,
        "hint: no_space",
        when=lambda f: not f.tmpfs,
    ),
    claim(
        r"start fewer processes and threads at a time(?:: there may be"
        r" (?P<most>[\d,]+))?" + END,
        "hint: no_processes",
    ),
    claim(
        rf"there is no `(?P<program>[\w.+-]+)` here{_NOTHING}\."
        rf"(?: There are (?P<names>[\w.+-]+(?:, [\w.+-]+)*){_MORE}\.)?(?= |\Z)",
        "hint: no_program",
        probe=_no_program,
        where=lambda f: "run_command" in f.tools and f.looked_into,
    ),
    claim(
        r"name files relative to (?P<where>\S+), and list it first to see what is there"
        + END,
        "hint: no_file",
        probe=_listed,
        where=speaks_python,
    ),
    claim(
        "there is no network, so do not try again: work with the files in /workspace"
        " and"
        rf" with what is installed(?:: (?P<names>[\w.-]+(?:, [\w.-]+)*){_MORE})?" + END,
        "hint: no_network",
        when=lambda f: f.network == "off",
        probe=_no_network,
        where=speaks_python,
    ),
    claim(
        rf"do not try again: only (?P<names>[\w.-]+(?:, [\w.-]+)*){_MORE} can be"
        rf" reached,"
        " over HTTP and HTTPS" + END,
        "hint: no_network",
        when=lambda f: not isinstance(f.network, str),
        probe=_only_domains,
    ),
)
