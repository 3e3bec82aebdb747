"""`kern-tools conformance`, and the promises that its clauses hold."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kern_tools import ConfigError, SandboxConfig
from kern_tools.binary import find_kern
from kern_tools.cli import app
from kern_tools.conformance_plugin import QUICK_CASES
from kern_tools.conformance_record import MODES, Check, Conformance
from kern_tools.conformance_subjects import ADAPTERS, PARTS, adapter
from kern_tools.conformance_table import show_conformance
from kern_tools.faults import FaultType
from kern_tools.host import host_report
from kern_tools.image import ensure_image
from kern_tools.promises import promises, sources_of
from kern_tools.testing import ADAPTER_CASES, AdapterContract, BackendContract

from .depth import partly

TESTS = Path(__file__).parent
ROOT = TESTS.parent
PROGRAM = Path(sysconfig.get_path("scripts")) / "kern-tools"
CONTRACTS = (*PARTS.values(), AdapterContract, BackendContract)
SILENT = {
    "Not met",  # says what is not promised
    "Figures",  # measured by tests/bench, on each machine
    "Develop",
    "Try it on your machine",  # the command that this file tests
    "What is trusted, and what is not",
    "Reporting",
}
"""Sections that promise users nothing."""
ROOMS = {
    "deepagents": "deepagents backends",
    "langchain": "LangChain",
    "llama_index": "LlamaIndex",
    "mcp": "MCP specification, tools",
    "openai": "OpenAI function calling",
    "openai_agents": "OpenAI Agents SDK",
}
"""Each adapter, and where the rules of its framework stand in the manifest."""

PLANTED = '''\
"""Callers of adapters that keep the contract, and that do not."""

from dataclasses import dataclass, replace

from kern_tools.adapters.openai.caller import ResponsesCaller
from kern_tools.adapters.openai import as_tools


def good(sandbox):
    return ResponsesCaller(as_tools(sandbox, "coding"))


@dataclass
class Forgetful(ResponsesCaller):
    async def acall(self, tool, arguments):
        return replace(await super().acall(tool, arguments), fault_type=None)


def forgetful(sandbox):
    return Forgetful(as_tools(sandbox, "coding"))


text = "no function"
'''


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder with adapters of somebody else's."""
    (tmp_path / "planted.py").write_text(PLANTED)
    return tmp_path


def conformance(*words: str, cwd: Path | str = "/") -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    return subprocess.run(
        [PROGRAM, "conformance", *words], capture_output=True, text=True, cwd=cwd
    )


# the manifest


def clauses() -> set[str]:
    """Name every clause of every contract, without `test_`."""
    names = {name for contract in CONTRACTS for name in dir(contract)}
    return {n.removeprefix("test_") for n in names if n.startswith("test_")}


def functions(file: Path) -> set[str]:
    """Name the functions of a Python file."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


@cache
def sections(file: str) -> dict[str, str]:
    """Give the text of each section of a document of ours."""
    text = (ROOT / file).read_text(encoding="utf-8")
    parts = re.split(r"^## (.+)$", text, flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def promised(source: str) -> str:
    """Give all that is promised in a place, as one text."""
    return " ".join(p.says for p in promises() if p.source == source)


def test_each_promise_is_held_and_each_clause_promised() -> None:
    """No promise without a clause or a test, and no clause that nothing asks for."""
    assert [p.says for p in promises() if not p.clauses and not p.tests] == []
    assert {name for p in promises() for name in p.clauses} == clauses()


def test_each_test_of_a_promise_exists() -> None:
    """One that was renamed or removed is missed here."""
    named = {tuple(name.split("::")) for p in promises() for name in p.tests}
    found = {file: functions(TESTS / file) for file, _ in named}
    assert {(file, name) for file, name in named if name not in found[file]} == set()


@pytest.mark.parametrize(
    ("prefix", "file"), [("README", "README.md"), ("SECURITY", "SECURITY.md")]
)
def test_each_section_has_its_promises(prefix: str, file: str) -> None:
    """A new section is entered in the manifest, and one that went is taken out."""
    sources = {p.source for p in promises() if p.source.startswith(prefix)}
    named = {source.removeprefix(f"{prefix}, ") for source in sources}
    assert named == sections(file).keys() - SILENT


@pytest.mark.parametrize("section", ["The result", "Modes", "Options"])
def test_each_row_of_a_table_is_a_promise(section: str) -> None:
    """Every field, fault, reason, mode and option of the README is in the manifest."""
    rows = [r for r in sections("README.md")[section].splitlines() if r[:2] == "| "]
    cells = [cell for row in rows for cell in row.split("|")[1:2]]
    names = {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}
    assert len(names) >= len(MODES)
    missing = {
        name for name in names if f"`{name}`" not in promised(f"README, {section}")
    }
    assert missing <= {"mode", "fault_type"}  # the headings of tables


def test_each_option_and_fault_is_a_promise() -> None:
    """Also one that the README forgot."""
    options = {
        f.name for f in vars(SandboxConfig)["__dataclass_fields__"].values() if f.init
    }
    assert {n for n in options if f"`{n}`" not in promised("README, Options")} == set()
    faults = {f"`{fault}`" for fault in FaultType}
    assert {n for n in faults if n not in promised("README, The result")} == set()


def test_each_adapter_keeps_rules_of_its_framework() -> None:
    """The manifest names what each framework asks for."""
    rooms = {path.parent.name for path in ROOT.glob("adapters/*/__init__.py")}
    assert rooms == ROOMS.keys()
    assert {promise.source for promise in promises()} >= set(ROOMS.values())


def test_a_clause_says_in_one_sentence_what_it_claims() -> None:
    """The first line of its docstring, which users are shown."""
    for contract in CONTRACTS:
        for name in dir(contract):
            if name.startswith("test_"):
                first = (getattr(contract, name).__doc__ or "").splitlines()[0]
                assert re.fullmatch(r"[A-Z`].{20,}\.", first), name


def test_a_clause_cannot_be_changed_by_mixing_in() -> None:
    """Whatever class it comes from, a changed clause is refused."""
    name = "test_words_images_and_data_arrive"
    mixin = type("Mixin", (), {name: None, "__module__": "theirs"})
    with pytest.raises(TypeError, match=name):
        type("Weaker", (mixin, AdapterContract), {})


# the command


@pytest.mark.verify
def test_a_part_of_the_sandbox_is_tried_in_a_mode(tmp_path: Path) -> None:
    """From any folder, also one that cannot be written, and nothing is left there."""
    tmp_path.chmod(0o555)
    words = ("--adapter", "none", "--mode", "kernel", "-k", "sys_exit or claimed")
    done = conformance(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    heading, *rows, summary = done.stdout.splitlines()
    assert heading.split() == ["of", "what", "is", "promised", "kernel"]
    assert [row.split("  ")[0].strip() for row in rows] == ["calls", "limits"]
    assert [row.rsplit("  ")[-1].strip() for row in rows] == ["holds (4)", "holds"]
    assert summary.startswith("5 of 5 checks hold")
    assert list(tmp_path.iterdir()) == []


def test_an_adapter_that_breaks_its_contract_does_not_hold(planted: Path) -> None:
    """Its row says so, with the claim, the source and what differed; the rest holds."""
    words = ("--adapter", "planted:good", "--adapter", "planted:forgetful")
    done = conformance(*words, "--mode", "fresh", "-k", "blocked", cwd=planted)
    assert done.returncode == 1, done.stderr
    rows = [re.split(r"  +", line) for line in done.stdout.splitlines()]
    table = {(row[0], row[1]): row[2] for row in rows if row[0].startswith("planted")}
    sync, native = "words images and data arrive", "the async way brings the same"
    assert table == {
        ("planted:good", sync): "holds",
        ("planted:good", native): "holds",
        ("planted:forgetful", sync): "holds",
        ("planted:forgetful", native): "does not hold",
    }
    assert "does not hold: planted:forgetful, fresh: the async way" in done.stdout
    assert "promised by: README, LangChain and LangGraph" in done.stdout
    assert "assert None == <FaultType.ESCAPE_BLOCKED" in done.stdout


def test_what_this_host_cannot_show_has_its_reason() -> None:
    """Where caps do not bind, an oom cannot be shown; where they do, it holds."""
    words = ("--adapter", "none", "--mode", "fresh", "-k", "within_the_cap", "--json")
    done = conformance(*words)
    assert done.returncode == 0, done.stderr
    ran = json.loads(done.stdout)
    (row,) = ran["clauses"]
    (check,) = row["modes"]["fresh"]
    enforced = host_report(reference=ensure_image().reference).limits_enforced
    assert ran["host"]["limits_enforced"] is enforced
    assert check["state"] == ("holds" if enforced else "cannot")
    assert bool(check["reason"]) is not enforced
    assert "README, The result" in row["sources"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "adapter 'nothing' is none of langchain, "),
        (":caller", "adapter ':caller' is none of langchain, "),
        ("kern_tools.extras:text", "kern_tools.extras has no function 'text'"),
    ],
)
def test_an_adapter_that_cannot_be_called_is_named(name: str, said: str) -> None:
    """With those there are, and how one's own is named."""
    with pytest.raises(ConfigError) as refused:
        adapter(name, MODES)
    assert said in str(refused.value)


NOTHING = partly(["no such clause", "and and"], "no such clause".__eq__)


@pytest.mark.parametrize("expression", NOTHING)
def test_an_expression_that_chooses_nothing_is_an_error(expression: str) -> None:
    """Nothing that was tried is not all that holds."""
    done = conformance("--adapter", "none", "-k", expression)
    assert (done.returncode, done.stdout) == (121, "")
    assert f"error: no clause is chosen by -k {expression!r}" in done.stderr


@pytest.mark.verify
def test_a_module_of_ones_own_that_is_absent_is_named() -> None:
    """As Python does, in one line."""
    done = conformance("--adapter", "absent:caller")
    assert (done.returncode, done.stdout) == (121, "")
    assert done.stderr == "error: No module named 'absent'\n"


def test_a_mode_that_is_none_is_a_wrong_command_line() -> None:
    """It is answered before anything is opened."""
    done = CliRunner().invoke(app, ["conformance", "--mode", "warm"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "warm" in done.stderr


def without(modules: Sequence[str], *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command where modules are not installed."""
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({modules!r}))\n"
        f"sys.argv[1:] = {['conformance', *words]!r}\n"
        "from kern_tools.cli import main; main()"
    )
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd="/"
    )


def test_without_pytest_the_extra_is_named() -> None:
    """The error ends with the command that brings it."""
    done = without(["pytest"])
    assert done.returncode == 121
    assert done.stderr.strip().endswith("pip install 'kern-tools[testing]'")


@pytest.mark.verify
def test_a_named_adapter_without_its_framework_names_the_extra() -> None:
    """What was asked for cannot be left out in silence."""
    done = without(["mcp"], "--adapter", "mcp")
    assert done.returncode == 121
    assert done.stderr.strip().endswith("pip install 'kern-tools[mcp]'")


def test_adapters_without_their_framework_are_left_out_and_named() -> None:
    """Nobody asked for them; `--quick` takes one case of each clause of the others."""
    frameworks = ("langchain_core", "llama_index", "openai", "agents", "mcp")
    words = ("--mode", "fresh", "--quick", "-k", "sys_exit or claimed")
    done = without(("deepagents", *frameworks), *words)
    assert done.returncode == 0, done.stderr
    left_out = re.findall(r"^left out: (\S+)\. .+ pip install \S+$", done.stdout, re.M)
    needs_none = ("openai-responses", "openai-chat")  # what models send is plain JSON
    assert left_out == [name for name in ADAPTERS if name not in needs_none]
    assert "2 of 2 checks hold, one case of each clause" in done.stdout


HANGS = """
import sys, time
from kern_tools import conformance_plugin
conformance_plugin._HANGS_AFTER_S = 0.5
import planted
planted.Forgetful.call = lambda *_: time.sleep(60)
sys.argv[1:] = ["conformance", "--adapter", "planted:forgetful", "--mode", "fresh"]
sys.argv += ["-k", "words_images and blocked"]
from kern_tools.cli import main
main()
"""


def test_a_clause_that_hangs_does_not_hold(planted: Path) -> None:
    """It is ended from outside, and the others are tried after it."""
    done = subprocess.run(
        [sys.executable, "-c", HANGS], capture_output=True, text=True, cwd=planted
    )
    assert done.returncode == 1, done.stderr
    assert "does not hold: planted:forgetful, fresh: words images" in done.stdout
    assert "TimeoutError: it did not end within 0.5 s" in done.stdout


def kern_that(does: str, folder: Path) -> dict[str, str]:
    """Give the environment of a kern that does something else than start a box."""
    program = folder / "kern"
    program.write_text(
        f'#!/bin/sh\nif [ "$1" = box ]; then {does}; fi\nexec {find_kern()} "$@"\n'
    )
    program.chmod(0o755)
    return {**os.environ, "KERN_BIN": str(program)}


@pytest.mark.parametrize(
    ("does", "exit_code", "said"),
    [
        ("echo 'error: no namespaces' >&2; exit 1", 121, "a box does not start here: "),
        ("kill -INT $PPID; exec sleep 60", 130, ""),
    ],
    ids=["no box starts", "interrupted"],
)
def test_nothing_is_tried_before_a_box_has_started(
    does: str, exit_code: int, said: str, tmp_path: Path
) -> None:
    """A host without boxes is told in one line; an interrupt ends it in silence."""
    done = subprocess.run(
        [PROGRAM, "conformance", "--adapter", "none", "--mode", "fresh"],
        env=kern_that(does, tmp_path),
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert (done.returncode, done.stdout) == (exit_code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interrupt_ends_it_with_what_was_found(tmp_path: Path) -> None:
    """Exit code 130, the table so far, no traceback, and nothing left behind."""
    words = ("conformance", "--adapter", "none", "--mode", "fresh", "-k")
    with subprocess.Popen(
        [PROGRAM, *words, "sys_exit or outlives"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while process.stderr.readline() != "ending, fresh\n":
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in out + err
    table = {
        row[1]: row[2]
        for row in (re.split(r"  +", r) for r in out.splitlines())
        if row[2:]
    }
    assert table["sys exit means what it means in a script"] == "holds (4)"
    assert "not run" in table["no trick outlives the deadline"]
    assert " were not run" in out
    assert list(tmp_path.iterdir()) == []


# what is shown


@dataclass
class Shown:
    """Prints a record and gives its lines."""

    capsys: pytest.CaptureFixture[str]

    def __call__(self, *checks: Check, **more: Any) -> list[str]:
        """Show checks, and give the lines."""
        show_conformance(Conformance(checks=checks, **more))
        return self.capsys.readouterr().out.splitlines()


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Shown:
    """A way to see what is printed."""
    return Shown(capsys)


def check(
    state: Any, *, mode: str = "fresh", reason: str = "", case: str = ""
) -> Check:
    """Write down what came of a clause."""
    return Check(
        subject="limits",
        mode=mode,
        clause="a_b",
        says="It holds.",
        case=case,
        state=state,
        reason=reason,
    )


def test_a_gap_is_always_explained(shown: Shown) -> None:
    """Each reason stands once, under a number that its cells have."""
    lines = shown(
        check("cannot", reason="no caps", case="x"),
        check("holds", case="y"),
        check("cannot", mode="kernel", reason="no caps"),
        left_out={"mcp": "install what it needs: pip install 'kern-tools[mcp]'"},
    )
    assert re.split(r"  +", lines[1]) == [
        "limits",
        "a b",
        "1 cannot, 1 holds [1]",
        "cannot [1]",
    ]
    assert "[1] this host cannot: no caps" in lines
    assert any(line.startswith("left out: mcp. ") for line in lines)
    assert lines[-1].startswith("1 of 3 checks hold, 2 this host cannot show")


def test_what_was_not_tried_is_told_apart(shown: Shown) -> None:
    """A clause that a mode does not have, one not run, and cases left out."""
    lines = shown(
        check("holds"),
        replace(check("not run", mode="kernel"), clause="c_d"),
        quick=True,
    )
    rows = [re.split(r"  +", line.strip()) for line in lines[1:3]]
    assert rows == [
        ["limits", "a b", "holds", "-"],
        ["limits", "c d", "-", "not run"],
    ]
    said = lines[-1]
    assert said.startswith("1 of 2 checks hold, 1 were not run, one case of each")


def test_what_does_not_hold_cannot_steer_the_terminal(shown: Shown) -> None:
    """A reason quotes what code printed, and is shown as text."""
    lines = shown(check("does not hold", reason="\x1b[2J\u202e"))
    assert not any("\x1b" in line or "\u202e" in line for line in lines)


def test_all_is_well_only_if_all_ran(shown: Shown) -> None:
    """What cannot be shown here is no failure; what was not run is no success."""
    for state, ok in [("holds", True), ("cannot", True), ("not run", False)]:
        assert Conformance(checks=[check(state)]).ok is ok
    assert not Conformance(checks=[check("does not hold")]).ok
    assert not Conformance(checks=[check("holds")], interrupted=True).ok


def test_the_quick_cases_are_cases() -> None:
    """One that is renamed is missed here."""
    assert {case.name for case in ADAPTER_CASES} > set(QUICK_CASES)


def test_every_adapter_is_tried() -> None:
    """A new one is entered in the table of subjects."""
    rooms = {target.split(".")[2].partition(":")[0] for target in ADAPTERS.values()}
    assert rooms == ROOMS.keys()


def test_a_clause_of_somebody_else_has_no_source_of_ours() -> None:
    """The manifest speaks of our own."""
    assert sources_of("no_clause_of_ours") == ()
