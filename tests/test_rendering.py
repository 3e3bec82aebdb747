"""What a model reads of a result, down to the last character."""

from __future__ import annotations

import base64
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kern_tools.config import Budget
from kern_tools.escaping import escape
from kern_tools.facts import SandboxFacts
from kern_tools.faults import FaultType, SandboxFault
from kern_tools.rendering import render
from kern_tools.reply import ImagePart, Part, TextPart
from kern_tools.result import ExecutionResult, FileInfo, RichResult

from .depth import examples

GOLDEN = Path(__file__).parent / "golden"
FACTS = SandboxFacts(
    image="host",
    host_python=True,
    python_version="3.12.4",
    timeout_s=5,
    timeout_max_s=30,
    limits_enforced=True,
    workspace_max_bytes=20 << 20,
)
TRACEBACK = """Traceback (most recent call last):
  File "<cell>", line 3, in <module>
    1/0
ZeroDivisionError: division by zero
"""
NUMBERS = "".join(f"{number}\n" for number in range(20_000))


def figure() -> RichResult:
    """Make the rich value of a matplotlib figure, as far as a header shows it."""
    start = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 640, 480)
    encoded = base64.b64encode(start + b"\0\0\0\0IEND\xaeB`\x82").decode("ascii")
    data = {"text/plain": "<Figure size 640x480 with 1 Axes>", "image/png": encoded}
    return RichResult(data=data)


def plain(text: str) -> RichResult:
    """Make the rich value of an ordinary object."""
    return RichResult(data={"text/plain": text})


def fault(kind: str, message: str, **more: object) -> ExecutionResult:
    """Make the result of a call that the sandbox ended."""
    given = SandboxFault.model_validate({"type": kind, "message": message} | more)
    return ExecutionResult(fault=given, exit_code=137, duration_ms=5012)


def text_of(result: ExecutionResult, budget: Budget | None = None) -> str:
    """Render a result and give its text."""
    return words(render(result, facts=FACTS, budget=budget or Budget()))


def words(parts: tuple[Part, ...]) -> str:
    """Give the text among the parts of a reply."""
    (text,) = (part.text for part in parts if isinstance(part, TextPart))
    return text


# -- an independent reader of what was rendered


@dataclass
class Read:
    """A reply, taken apart again."""

    verdict: str
    fenced: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    lines: list[str] = field(default_factory=list[str])


HEADING = re.compile(r"(stderr|stdout|value(?: \d+)?)(?: \([^()]*\))?:")


def read_back(text: str) -> Read:
    """Take a reply apart, knowing only that what is fenced ends at the same fence."""
    verdict, *rest = text.split("\n")
    read = Read(verdict)
    name = ""
    lines = iter(rest)
    for line in lines:
        if re.fullmatch("`{3,}|~{3,}", line):
            read.fenced[name].append(
                "".join(f"{x}\n" for x in iter(lines.__next__, line))
            )
        elif heading := HEADING.fullmatch(line):
            name = heading[1]
            read.fenced[name] = []
        else:
            read.lines.append(line)
    return read


def with_newline(text: str) -> str:
    """Give a text as a fence shows it."""
    return text if text.endswith("\n") or not text else f"{text}\n"


PIECES = st.sampled_from(
    [
        *("```", "````", "~~~", "`" * 12, "~" * 12, "```python"),
        *("\n", "\r", "\r\n", " ", "a", "b", "\t", "漢", "👨\u200d👩"),
        *("ok\n", "fault: oom.\n", "stderr:\n", "stdout:\n", "value:\n"),
        *("no output\n", "[3 characters left out]\n", "next: stop\n", "files: x\n"),
        *("\x1b[31m", "\x1b]", "\x00", "\u202e", "\ud800", "image 1: image/png 1x1\n"),
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=4), max_size=12).map("".join)
BULKY = st.tuples(TEXTS, st.integers(0, 400)).map(lambda pair: pair[0] * pair[1])


@examples(50, 1000)
@given(stdout=TEXTS, stderr=TEXTS, value=TEXTS, code=st.integers(0, 255))
def test_what_was_written_reads_back_exactly(
    stdout: str, stderr: str, value: str, code: int
) -> None:
    """No text of the code is taken for the verdict, a heading or the end of a fence."""
    result = ExecutionResult(
        stdout=stdout, code_stderr=stderr, results=[plain(value)], exit_code=code
    )
    read = read_back(text_of(result))
    assert read.verdict == ("ok" if code == 0 else f"exit {code}")
    expected = {"stderr": stderr, "stdout": stdout, "value": value}
    shown = {name: with_newline(escape(text)) for name, text in expected.items()}
    assert read.fenced == {name: [text] for name, text in shown.items() if text}


@examples(50, 1000)
@given(stdout=BULKY, stderr=BULKY, value=BULKY, most=st.integers(256, 9000))
def test_the_budget_holds_and_what_is_cut_is_head_and_tail(
    stdout: str, stderr: str, value: str, most: int
) -> None:
    """However the room is shared, it is never exceeded and each end is genuine."""
    result = ExecutionResult(stdout=stdout, code_stderr=stderr, results=[plain(value)])
    text = text_of(result, Budget(text_chars=most))
    assert 1 <= len(text) <= most
    read = read_back(text)
    assert read.verdict == "ok"
    written = {"stderr": stderr, "stdout": stdout, "value": value}
    for name, pieces in read.fenced.items():
        whole = with_newline(escape(written[name]))
        head = pieces[0] if pieces else ""
        assert whole.startswith(head.removesuffix("\n"))
        assert whole.endswith(pieces[-1] if pieces[1:] else "")


FAULTS = [*FaultType, "a_new_kind"]
OURS = re.compile(
    r"(?:note|value left out|image \d+|files|next): |no output|\[?[\d,]+ "
)


@examples(50, 1000)
@given(
    kind=st.sampled_from(FAULTS) | st.text(max_size=80),
    message=TEXTS,
    stdout=BULKY,
    path=st.text(max_size=300),
    most=st.integers(256, 2000),
)
def test_no_result_is_empty_or_over_the_budget(
    kind: str, message: str, stdout: str, path: str, most: int
) -> None:
    """Faults, files and values of any wording stay on lines of their own."""
    result = fault(kind, message).model_copy(
        update={
            "stdout": stdout,
            "files": [FileInfo(path=path, size=1)] * 30,
            "results": [RichResult(data={path: "x"}), plain(path), figure()] * 9,
            "results_omitted": 3,
            "state_new": True,
        }
    )
    text = text_of(result, Budget(text_chars=most))
    assert 1 <= len(text) <= most
    assert text.startswith("fault: ")
    assert all(OURS.match(line) for line in read_back(text).lines)


# -- the exact words


def ended_by_itself() -> Iterator[tuple[str, ExecutionResult]]:
    """Give golden texts of calls that came to their own end."""
    yield "ok", ExecutionResult(stdout="hello\n", duration_ms=12)
    yield "ok_silent", ExecutionResult(duration_ms=12)
    yield "ok_with_warning", ExecutionResult(code_stderr="old\n", stdout="ok\n")
    yield "exit", ExecutionResult(exit_code=1, code_stderr=TRACEBACK, duration_ms=1234)
    yield "exit_silent", ExecutionResult(exit_code=3)
    yield "crash", ExecutionResult(exit_code=139, signal=11, stdout="before\n")
    kernel = {"exit_code": 168, "signal": 40, "state_lost": True, "truncated": True}
    yield "crash_kernel", ExecutionResult.model_validate(kernel)
    no_stdin = TRACEBACK.rsplit("Zero")[0] + "EOFError: EOF when reading a line\n"
    yield "no_stdin", ExecutionResult(exit_code=1, code_stderr=no_stdin)
    no_module = TRACEBACK.rsplit("Zero")[0] + "ModuleNotFoundError: No module named 'x'"
    yield "no_module", ExecutionResult(exit_code=1, code_stderr=no_module)
    yield "value", ExecutionResult(results=[plain("[1, 2]")])
    yield "values", ExecutionResult(results=[plain("1"), figure(), plain("2")])
    yield "fences", ExecutionResult(stdout="```\nok\n```\n")
    yield "lossy", ExecutionResult(stdout="ok\ufffd\n", lossy=True, state_new=True)
    files = [
        FileInfo(path="plots/a.png", size=12345),
        FileInfo(path="my data.csv", size=1, change="modified"),
        FileInfo(path="x (1 byte), next: y\n", size=0),
    ]
    yield "files", ExecutionResult(stdout="done\n", files=files)
    cut = {"stdout": NUMBERS, "truncated": True, "stdout_bytes": 64 << 20}
    yield "cut", ExecutionResult.model_validate(cut)


def ended_by_the_sandbox() -> Iterator[tuple[str, ExecutionResult]]:
    """Give golden texts of calls that did not."""
    stopped = fault("timeout", "stopped at the 5 s limit")
    yield "fault_timeout", stopped.model_copy(update={"stdout": "step 1\n"})
    yield "fault_oom", fault("oom", "the box went over its 512 MiB of memory")
    blocked = "the code made a system call that is not allowed"
    yield "fault_escape_blocked", fault("escape_blocked", blocked)
    yield "fault_killed", fault("killed", "the box was killed", actor="operator")
    missing = "'node' is not in the image 'host'"
    yield "fault_exec_failed", fault("exec_failed", missing, reason="not_found")
    slow = "the box was not ready within the 5 s limit; none of the code ran"
    yield (
        "fault_startup_slow",
        fault("startup_failed", slow, reason="slow_build", retryable=True),
    )
    broken = "the box did not start; none of the code ran"
    yield "fault_startup", fault("startup_failed", broken, actor="operator")
    full = "the workspace went over its 20,971,520-byte limit"
    yield "fault_workspace_full", fault("workspace_full", full)
    yield "fault_unknown", fault("gpu_lost", "the device is gone")


CASES = dict([*ended_by_itself(), *ended_by_the_sandbox()])


@pytest.mark.parametrize("name", CASES)
def test_the_words_are_the_golden_ones(name: str) -> None:
    """A change of wording is a change of this file."""
    parts = render(
        CASES[name],
        facts=FACTS,
        budget=Budget(text_chars=1000),
        spill=lambda text: ".kern/out-c7.txt",
    )
    golden = (GOLDEN / f"reply_{name}.md").read_text(encoding="utf-8")
    assert f"{words(parts)}\n" == golden


def test_every_fault_has_a_golden_text() -> None:
    """A new fault cannot be added without its words."""
    shown = {str(r.fault_type) for r in CASES.values() if r.fault is not None}
    assert set(FaultType) <= shown


def test_every_golden_reply_has_a_case() -> None:
    """No golden text is left behind."""
    assert {path.stem for path in GOLDEN.glob("reply_*.md")} == {
        f"reply_{name}" for name in CASES
    }


# -- streams and what is cut


def test_kerns_own_words_are_never_shown() -> None:
    """Notes about the box are for people; they name paths of the host."""
    text = text_of(ExecutionResult(runtime_notes=["kern: warning: /home/me"]))
    assert "kern" not in text


def test_stderr_comes_first_and_leaves_half_to_stdout() -> None:
    """A flood on one stream does not push out the other."""
    result = ExecutionResult(stdout=NUMBERS, code_stderr=NUMBERS)
    read = read_back(text_of(result))
    sizes = {name: sum(map(len, pieces)) for name, pieces in read.fenced.items()}
    assert list(sizes) == ["stderr", "stdout"]
    assert min(sizes.values()) > 3500


def test_a_short_stream_leaves_its_room_to_the_other() -> None:
    """Half is a bound for two floods, not a quota."""
    text = text_of(ExecutionResult(stdout=NUMBERS, code_stderr="warn\n"))
    assert len(text) > 7900


def test_the_numbers_of_a_cut_add_up() -> None:
    """Shown and left out are counted in characters of what is shown."""
    text = text_of(ExecutionResult(stdout=NUMBERS))
    shown = sum(map(len, read_back(text).fenced["stdout"]))
    assert f"stdout ({shown:,} of {len(NUMBERS):,} characters):" in text
    assert f"[{len(NUMBERS) - shown:,} characters left out]" in text


def test_what_was_cut_is_kept_whole_and_once() -> None:
    """The spilled text is what the model would have read, both streams of it."""
    kept: list[str] = []

    def spill(text: str) -> str:
        kept.append(text)
        return "out.txt"

    result = ExecutionResult(stdout=f"\x1b[1m{NUMBERS}", code_stderr="warn\n")
    parts = render(result, facts=FACTS, budget=Budget(), spill=spill)
    read = read_back(f"verdict\n{kept[0]}")
    assert len(kept) == 1
    assert read.fenced == {"stderr": ["warn\n"], "stdout": [NUMBERS]}
    assert "all of it in out.txt" in words(parts)


def test_nothing_is_spilled_when_all_is_shown() -> None:
    """A file is made only where it is needed."""
    kept: list[str] = []

    def spill(text: str) -> None:
        kept.append(text)

    render(CASES["exit"], facts=FACTS, budget=Budget(), spill=spill)
    assert kept == []


def test_what_could_not_be_kept_is_not_promised() -> None:
    """A full disk leaves the cut text without a place to read it."""
    result = ExecutionResult(stdout=NUMBERS)
    parts = render(result, facts=FACTS, budget=Budget(), spill=lambda text: None)
    assert "all of it" not in words(parts)


def test_the_capture_cap_is_told_for_the_stream_it_hit() -> None:
    """What was kept of a flood is not taken for all of it."""
    facts = replace(FACTS, max_output_bytes=1024)
    result = ExecutionResult(
        stdout="x" * 1024, code_stderr="e\n", truncated=True, stdout_bytes=4096
    )
    text = words(render(result, facts=facts, budget=Budget()))
    assert "stdout (first 1 KiB of 4 KiB):\n" in text
    assert "stderr:\n" in text
    just = result.model_copy(update={"stdout_bytes": 1024, "stderr_bytes": 1025})
    text = words(render(just, facts=facts, budget=Budget()))
    assert "stdout:\n" in text
    assert "stderr (first 1 KiB of " in text


# -- values, images, files, state


def test_a_value_that_cannot_be_shown_is_named() -> None:
    """Nothing disappears without a word."""
    value = RichResult(data={"application/pdf\n": "JVBERi0="})
    text = text_of(ExecutionResult(results=[value]))
    assert text.endswith('\nvalue left out: "application/pdf\\n"')
    value = RichResult(data={"application/pdf": "JVBERi0="})
    assert text_of(ExecutionResult(results=[value])).endswith(": application/pdf")
    value = RichResult(data={"application/pdf": "JVBERi0=", "a/b": "x"})
    text = text_of(ExecutionResult(results=[value]))
    assert text.endswith("\nvalue left out: application/pdf, a/b")


def test_the_forms_of_a_value_are_a_hundred_characters_at_most() -> None:
    """The bound is the longest list of them that is not cut."""
    for form, shown in (
        ("x/" + "y" * 98, "x/" + "y" * 98),
        ("x/" + "y" * 99, "x/" + "y" * 94 + " ..."),
    ):
        text = text_of(ExecutionResult(results=[RichResult(data={form: "z"})]))
        assert text.endswith(f"\nvalue left out: {shown}")


def test_values_beyond_the_bounds_are_counted() -> None:
    """A loop of `display` calls costs a line, not the reply."""
    result = ExecutionResult(results=[plain("1")] * 25, results_omitted=9975)
    assert "\n9,980 more values left out" in text_of(result)


def test_no_image_is_ever_text() -> None:
    """Base64 is blind for a model and costs about a token for each byte."""
    value = figure()
    parts = render(
        ExecutionResult(results=[value, value]), facts=FACTS, budget=Budget()
    )
    assert len(parts) == 3
    assert value.data["image/png"][:16] not in words(parts)


def test_without_image_parts_the_text_is_the_same() -> None:
    """The words make no claim about who sees the image."""
    result = ExecutionResult(results=[figure()])
    shown = render(result, facts=FACTS, budget=Budget())
    assert render(result, facts=FACTS, budget=Budget(), images="none") == shown[:1]
    assert len(shown) == 2


def test_many_files_are_bounded() -> None:
    """The first names are given and all are counted."""
    files = [FileInfo(path=f"part-{n}.csv", size=n) for n in range(20_000)]
    line = text_of(ExecutionResult(files=files)).splitlines()[-1]
    assert line.startswith("files: part-0.csv (0 bytes, created), part-1.csv (1 byte, ")
    assert line.endswith(", 19,980 more")
    assert len(line) < 1000


@pytest.mark.parametrize(
    ("names", "listed"),
    [
        (["a" * 12], 1),
        (["a" * 13], 0),
        (["a" * 12, "b" * 12], 1),
        (["a", "b"], 1),
    ],
)
def test_names_of_files_have_an_eighth_of_the_room(
    names: list[str], listed: int
) -> None:
    """Each counts with what stands behind it, and the others are counted."""
    files = [FileInfo(path=name, size=1) for name in names]
    rows = [f"{name} (1 byte, created)" for name in names[:listed]]
    more = len(names) - listed
    rows += [f"{more} more" if rows else "1 file"] if more else []
    text = text_of(ExecutionResult(files=files), Budget(text_chars=256))
    assert text.split("\n")[-1] == f"files: {', '.join(rows)}"


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("a b.txt", "a b.txt"),
        ("a  b", '"a  b"'),
        ('say "é"', "'say \"é\"'"),
        ('"it\'s"', '`"it\'s"`'),
        ("é\"'`", '"é\\"\'`"'),
    ],
)
def test_a_name_is_quoted_by_a_mark_that_it_lacks(path: str, shown: str) -> None:
    """Only one that holds every mark is spelled as JSON spells it."""
    text = text_of(ExecutionResult(files=[FileInfo(path=path, size=1)]))
    assert text.endswith(f"\nfiles: {shown} (1 byte, created)")


@pytest.mark.parametrize(
    "message", ["the GPU is XX", " the GPU is XX. ", "The GPU is XX."]
)
def test_the_message_of_a_fault_is_one_sentence(message: str) -> None:
    """It begins with a capital and ends with one full stop, whoever wrote it."""
    first = text_of(fault("gpu_lost", message)).split("\n")[0]
    assert first == "fault: gpu_lost. The GPU is XX. Files are kept."


def test_an_image_is_named_by_where_it_was_kept() -> None:
    """What keeps images is asked once for each, by its number."""
    asked: list[int] = []

    def keep(number: int, image: ImagePart) -> str:
        asked.append(number)
        return f"kept-{number}.png"

    result = ExecutionResult(results=[figure(), figure()])
    parts = render(result, facts=FACTS, budget=Budget(), save_image=keep)
    assert "image 2: image/png 640x480, saved as kept-2.png" in words(parts)
    assert asked == [1, 2]


def test_a_call_is_near_the_limit_of_its_own() -> None:
    """Half of the usual limit is little of a longer one."""
    result = ExecutionResult(duration_ms=2_500)
    parts = render(result, facts=FACTS, budget=Budget(), timeout_s=30)
    assert words(parts).split("\n")[0] == "ok"


def test_lost_files_are_told_in_these_words() -> None:
    """Nothing of earlier calls is there, neither names nor files."""
    text = text_of(ExecutionResult(stdout="x", state_new=True, files_lost=True))
    told = "note: started anew: files and names of earlier calls are gone."
    assert text.split("\n")[1] == told


def test_a_reply_may_be_exactly_as_long_as_the_budget() -> None:
    """Nothing is cut that fits, and one character less is cut."""
    result = ExecutionResult(stdout="0123456789\n" * 60)
    whole = text_of(result)
    assert text_of(result, Budget(text_chars=len(whole))) == whole
    shorter = text_of(result, Budget(text_chars=len(whole) - 1))
    assert "left out]" in shorter
    assert len(shorter) < len(whole)


def test_a_long_verdict_takes_the_budget_and_no_more() -> None:
    """Its notes are left out before it goes over."""
    result = fault("gpu_lost", "x" * 999).model_copy(update={"state_new": True})
    text = text_of(result, Budget(text_chars=256))
    assert text.endswith(" ...")
    assert len(text) == 256
    assert len(text_of(result, Budget(text_chars=9000)).split("\n")[0]) == 400


@pytest.mark.parametrize("over", [0, 1])
def test_a_verdict_of_four_hundred_characters_is_whole(over: int) -> None:
    """The bound is the longest line that is not cut."""
    around = len("fault: gpu_lost. . Files are kept.")
    result = fault("gpu_lost", "x" * (400 - around + over))
    first = text_of(result).split("\n")[0]
    assert len(first) == 400
    assert first.endswith(" ..." if over else ". Files are kept.")


def test_lines_of_ours_may_take_all_the_room_there_is() -> None:
    """The last one that fits is kept, and goes where a character is missing."""
    values = [RichResult(data={f"x{n}/{'y' * 90}": "z"}) for n in range(3)]
    result = ExecutionResult(results=values)
    whole = text_of(result)
    assert text_of(result, Budget(text_chars=len(whole))) == whole
    assert text_of(result, Budget(text_chars=len(whole) - 1)).count("left out") == 2


def test_what_the_code_wrote_has_half_of_the_room() -> None:
    """Lines of ours below it take the other half, or all where there is nothing."""
    left_out = [RichResult(data={f"x{n}/{'y' * 90}": "z"}) for n in range(20)]
    silent = ExecutionResult(results=left_out)
    loud = silent.model_copy(update={"stdout": NUMBERS})
    rows = [
        text_of(result, Budget(text_chars=1000)).count("value left out")
        for result in (silent, loud)
    ]
    assert rows == [8, 4]
    shown = read_back(text_of(loud, Budget(text_chars=1000))).fenced["stdout"]
    assert sum(map(len, shown)) > 350


def test_files_that_a_result_lacks_are_counted_too() -> None:
    """What the bounds of a result left out is not taken for unchanged."""
    result = ExecutionResult(files=[FileInfo(path="a", size=1)], files_omitted=41)
    assert text_of(result).endswith("\nfiles: a (1 byte, created), 41 more")
    result = ExecutionResult(files_omitted=41)
    assert text_of(result).endswith("\nfiles: 41 files")


def test_names_that_are_lost_are_told_in_a_kernel() -> None:
    """The model learns at once what it has to make again."""
    kernel = replace(FACTS, mode="kernel")
    stopped = fault("timeout", "stopped at the 5 s limit")
    lost = stopped.model_copy(update={"state_lost": True})
    first = [
        words(render(r, facts=kernel, budget=Budget())).splitlines()[0]
        for r in (stopped, lost)
    ]
    assert first[0].endswith("Names and files of earlier calls are kept.")
    assert first[1].endswith("Names of earlier calls are lost, files are kept.")


def test_a_call_with_a_limit_of_its_own_is_advised_by_it() -> None:
    """A limit that cannot be raised is not said to be."""
    stopped = fault("timeout", "stopped")
    at_most, lower = (
        words(render(stopped, facts=FACTS, budget=Budget(), timeout_s=limit_s))
        for limit_s in (30, 5)
    )
    assert "raise `timeout_s`" not in at_most
    assert "raise `timeout_s`, up to 30 s" in lower


@pytest.mark.parametrize(
    ("duration_ms", "first"),
    [
        (2_499, "ok"),
        (2_500, "ok, took 2.5 s of 5 s"),
        (4_949, "ok, took 4.9 s of 5 s"),
        (4_951, "ok, took 5 s of 5 s"),
    ],
)
def test_a_call_that_came_near_its_limit_says_so(duration_ms: int, first: str) -> None:
    """The next one may be larger; a quick one has no time to tell of."""
    assert text_of(ExecutionResult(duration_ms=duration_ms)).split("\n")[0] == first


def test_a_call_that_went_well_needs_no_template() -> None:
    """Jinja is not loaded before there is something to advise."""
    code = """
import sys
from kern_tools.config import Budget
from kern_tools.facts import SandboxFacts
from kern_tools.rendering import render
from kern_tools.result import ExecutionResult
facts = SandboxFacts(image="x", host_python=False, python_version=None)
render(ExecutionResult(stdout="x"), facts=facts, budget=Budget())
print("jinja2" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert run.stdout == b"False\n"
