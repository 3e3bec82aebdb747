"""Whatever code wrote, the reply says who ended it, and what it wrote, to the letter.

An independent reader takes each rendered text apart again. In `make test` each property
is shown on a few examples, in `make verify-attack` on ten thousand.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kern_tools.arguments import read_arguments
from kern_tools.code_tools import RunCode
from kern_tools.config import Budget
from kern_tools.escaping import escape
from kern_tools.facts import SandboxFacts
from kern_tools.faults import FaultType, SandboxFault
from kern_tools.names import shown_name
from kern_tools.rendering import render
from kern_tools.reply import Reply, TextPart
from kern_tools.reply_text import with_notes
from kern_tools.result import ExecutionResult, FileInfo, RichResult

from .depth import in_depth
from .few_fields import few_fields
from .hostile_text import ANY_TEXT, BULK, NAMES
from .reader import Reading, Shown, read_reply
from .safe_form import safe_form

FACTS = SandboxFacts(
    image="host",
    host_python=True,
    python_version="3.12.4",
    timeout_s=5,
    timeout_max_s=30,
    max_output_bytes=4096,
)
ROOM = Budget(text_chars=1 << 20)

CODES = st.integers(0, 255)
FAULTS = st.builds(
    SandboxFault,
    type=st.sampled_from(FaultType),
    message=ANY_TEXT,
    reason=st.none() | st.sampled_from(["not_found", "slow_build", "host"]),
    retryable=st.booleans(),
)
FILES = st.builds(
    FileInfo,
    path=NAMES,
    size=st.integers(0, 1 << 40),
    change=st.sampled_from(["created", "modified"]),
)
VALUES = st.builds(
    RichResult,
    data=st.dictionaries(
        st.sampled_from(["text/plain", "text/html", "image/png", "application/json"])
        | ANY_TEXT,
        ANY_TEXT,
        max_size=2,
    ),
)


def _as_ended(result: ExecutionResult) -> ExecutionResult:
    """Give what ends by a signal the exit code that goes with it."""
    if result.signal is None:
        return result
    return result.model_copy(update={"exit_code": 128 + result.signal})


RESULTS = few_fields(
    ExecutionResult,
    {"stdout": ANY_TEXT, "code_stderr": ANY_TEXT},
    {
        "exit_code": CODES,
        "signal": st.sampled_from([4, 6, 8, 11, 40, 64]),
        "fault": FAULTS,
        "duration_ms": st.integers(0, 9000),
        "files": st.lists(FILES, max_size=3),
        "results": st.lists(VALUES, max_size=2),
        "results_omitted": st.integers(0, 3),
        "lossy": st.booleans(),
        "state_new": st.booleans(),
        "state_lost": st.booleans(),
        "files_lost": st.booleans(),
    },
).map(_as_ended)


def text_of(result: ExecutionResult, budget: Budget = ROOM) -> str:
    """Render a result and give the text of it."""
    part, *_ = render(result, facts=FACTS, budget=budget, spill=_no_room)
    assert isinstance(part, TextPart)
    return part.text


def _no_room(text: str) -> None:
    """Keep nothing."""


def lines_of(text: str) -> str:
    """Give a text as it stands in a fence, whose last line always ends."""
    return text if text.endswith("\n") or not text else f"{text}\n"


def assert_verdict(reading: Reading, result: ExecutionResult) -> None:
    """Check that what was read is how the call ended."""
    if result.fault is not None:
        assert (reading.verdict.kind, reading.verdict.fault) == (
            "fault",
            result.fault.type,
        )
        return
    assert reading.verdict.fault is None
    assert reading.verdict.exit_code == result.exit_code
    if result.exit_code:
        assert (reading.verdict.signal is None) == (result.signal is None)


@in_depth
@given(RESULTS)
def test_verdict_and_streams_are_read_back(result: ExecutionResult) -> None:
    """Nothing the code wrote, named or showed is taken for a line of ours."""
    reading = read_reply(text_of(result))
    assert_verdict(reading, result)
    assert reading.stream("stdout") == lines_of(safe_form(result.stdout))
    assert reading.stream("stderr") == lines_of(safe_form(result.code_stderr))


@in_depth
@given(RESULTS, st.integers(256, 2000), BULK, BULK)
def test_what_is_cut_is_counted_and_each_end_is_genuine(
    result: ExecutionResult, room: int, stdout: str, stderr: str
) -> None:
    """Within any budget the verdict stands, and the numbers say what is missing."""
    result = result.model_copy(update={"stdout": stdout, "code_stderr": stderr})
    text = text_of(result, Budget(text_chars=room))
    assert len(text) <= room
    reading = read_reply(text)
    assert_verdict(reading, result)
    for name, written in (("stdout", stdout), ("stderr", stderr)):
        if name in reading.shown:
            _assert_ends(reading.shown[name], safe_form(written))


def _assert_ends(shown: Shown, written: str) -> None:
    if shown.is_whole:
        assert shown.pieces == (lines_of(written),)
        return
    assert shown.characters == len(written)
    head, tail = (*shown.pieces, "", "")[:2]
    kept = len(written) - shown.left_out
    for at in range(kept + 1):  # where head ends and tail begins is not said
        if (lines_of(written[:at]), lines_of(written[len(written) - kept + at :])) == (
            head,
            tail,
        ):
            return
    raise AssertionError(f"{kept} of {written!r} are not {shown.pieces!r}")


@in_depth
@given(RESULTS, ANY_TEXT, ANY_TEXT)
def test_what_is_printed_changes_no_line_of_ours(
    result: ExecutionResult, stdout: str, other: str
) -> None:
    """Two calls that differ in their output differ inside its fence alone."""
    first, second = (
        read_reply(text_of(result.model_copy(update={"stdout": f"x{text}"})))
        for text in (stdout, other)
    )
    assert first.verdict == second.verdict
    assert (first.notes, first.lines) == (second.notes, second.lines)
    assert first.shown.keys() == second.shown.keys()


@in_depth
@given(st.lists(FILES, max_size=9), ANY_TEXT)
def test_names_of_files_are_read_back_in_one_way(
    files: list[FileInfo], stdout: str
) -> None:
    """No name reads as two, as another's size, or as the end of the list."""
    reading = read_reply(text_of(ExecutionResult(files=files, stdout=stdout)))
    named = [(shown_name(file.path), file.size, file.change) for file in files]
    assert reading.files() == named


@in_depth
@given(ANY_TEXT, st.sampled_from([0, 1, 127]))
def test_a_hint_names_no_more_than_a_name(last_line: str, code: int) -> None:
    """What stderr says of a missing module cannot say more in a line of ours."""
    for said in (
        f"ModuleNotFoundError: No module named '{last_line}'",
        f"Error: Cannot find module '{last_line}'",
        f"FileNotFoundError: [Errno 2] x: '{last_line}'",
        f"sh: 1: {last_line}: not found",
        f"NameError: name '{last_line}' is not defined",
    ):
        result = ExecutionResult(exit_code=code, code_stderr=said)
        advice = read_reply(text_of(result)).line("next: ")
        blank = result.model_copy(update={"code_stderr": said.replace(last_line, "q")})
        plain = read_reply(text_of(blank)).line("next: ")
        if advice is not None and plain is not None and advice != plain:
            assert advice.count(" ") == plain.count(" ")
            assert advice.count("`") == plain.count("`")


@in_depth
@given(st.lists(ANY_TEXT, min_size=1, max_size=3, unique=True))
def test_the_form_of_a_value_is_quoted_where_it_could_be_words(
    mimes: list[str],
) -> None:
    """A MIME type is any text the code likes, and stands in a line of ours."""
    value = RichResult(data=dict.fromkeys((f"x {mime}" for mime in mimes), "x"))
    said = read_reply(text_of(ExecutionResult(results=[value]))).line(
        "value left out: "
    )
    assert said is not None
    assert said[0] in "\"'`"


@in_depth
@given(
    st.one_of(
        st.dictionaries(ANY_TEXT | st.sampled_from(["code", "lang"]), ANY_TEXT),
        ANY_TEXT.map(lambda code: {"code": f"```python\n{code}\n```"}),
        ANY_TEXT,
    ),
    RESULTS,
)
def test_a_repair_of_arguments_adds_notes_and_nothing_else(
    raw: object, result: ExecutionResult
) -> None:
    """A key or a language of any spelling stays on the line that speaks of it."""
    repairs = read_arguments(raw, RunCode, code_field="code").repairs
    without = Reply(name="run_code", parts=(TextPart(text_of(result)),), result=result)
    reading = read_reply(with_notes(without, repairs).text)
    before = read_reply(without.text)
    assert reading.notes[: len(repairs)] == [
        f"{safe_form(_on_one_line(repair))}." for repair in repairs
    ]
    assert replace(reading, notes=reading.notes[len(repairs) :]) == before


def _on_one_line(text: str) -> str:
    for char, spelled in (("\r", r"\r"), ("\n", r"\n"), ("\t", r"\t")):
        text = text.replace(char, spelled)
    return text


@in_depth
@given(BULK | ANY_TEXT | st.text(max_size=40))
def test_what_is_seen_of_a_text_is_what_the_rules_say(text: str) -> None:
    """One character after the other, or in one expression: the same is left."""
    assert escape(text) == safe_form(text)


@in_depth
@given(NAMES | ANY_TEXT)
def test_a_name_stays_on_its_line(name: str) -> None:
    """No reader of lines, of terminals or of UTF-8 makes two of it."""
    shown = shown_name(name)
    assert shown.encode() or not name
    assert len(shown.splitlines()) <= 1
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in shown)
