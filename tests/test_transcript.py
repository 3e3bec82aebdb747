"""A run to look at: from a loop's events to a page, a notebook's output, a terminal."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from kern_tools import ExecutionResult, OutputEvent, RichResult, Sandbox, Transcript
from kern_tools.loop_events import (
    CallFinished,
    CallStarted,
    LoopEvent,
    LoopFinished,
    TextPiece,
    TurnStarted,
)
from kern_tools.reply import ImagePart, Reply, TextPart
from kern_tools.run_record import HELD_MAX_CHARS, Entry
from kern_tools.run_view import SHOWN_MAX_CHARS
from kern_tools.terminal import TerminalDisplay
from kern_tools.tools import tools_of

from .test_markup import HOSTILE, PIXEL

VOID = {"meta", "img"}
SAFE_TAGS = {
    *("html", "head", "meta", "title", "style", "body", "h3", "div", "span", "b"),
    *("pre", "em", "img", "details", "summary"),
}
SAFE_ATTRIBUTES = {
    *("lang", "charset", "http-equiv", "content", "name", "class", "style"),
    *("alt", "src"),
}


class Page(HTMLParser):
    """Reads a page: its tags, attributes and text, and that all are closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.sources: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag that opens."""
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.sources += [str(value) for name, value in attrs if name == "src"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Check that what closes was open."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Collect text."""
        self.text += data


def saved(transcript: Transcript, folder: Path) -> Page:
    """Save a transcript and read the page."""
    page = transcript.to_html(folder / "run.html").read_text(encoding="utf-8")
    return Page(page)


def started(written: str = '{"code": "print(1)"}', call_id: str = "a") -> CallStarted:
    """Make the start of a call."""
    return CallStarted(turn=1, call_id=call_id, tool="run_code", arguments=written)


def finished(
    result: ExecutionResult | None = None, call_id: str = "a", **reply: Any
) -> CallFinished:
    """Make the end of a call."""
    given: dict[str, Any] = {"parts": (), **reply}
    made = Reply(name="run_code", result=result, **given)
    return CallFinished(
        turn=1, call_id=call_id, tool="run_code", reply=made, duration_ms=12.4
    )


def told(*events: LoopEvent) -> Transcript:
    """Make a transcript of events."""
    transcript = Transcript(live=False)
    for event in events:
        transcript(event)
    return transcript


# -- from a real run


@pytest.fixture(scope="module")
def ran() -> Transcript:
    """What a loop tells of two turns, on a real box."""
    transcript = Transcript("What is 6 * 7?", live=False)
    codes = {
        "good": {"code": "print(6 * 7)\nopen('n.txt', 'w').write('x')"},
        "bad": {"code": "1/0"},
        "slow": {
            "code": "print('half', flush=True)\nimport time; time.sleep(60)",
            "timeout_s": 1,
        },
        "odd": {"cod": 1},
    }
    with Sandbox() as sandbox:
        (tool,) = tools_of(sandbox, "run_code")
        transcript(TurnStarted(turn=1))
        transcript(TextPiece(turn=1, text="I will "))
        transcript(TextPiece(turn=1, text="compute it."))
        for call_id, code in codes.items():
            transcript(started(json.dumps(code), call_id))
            reply = tool.call(code, call_id=call_id, on_output=transcript)
            event = finished(call_id=call_id)
            made = {"turn": 1, "call_id": call_id, "tool": "run_code"}
            transcript(CallFinished(**made, reply=reply, duration_ms=event.duration_ms))  # type: ignore[arg-type]
    transcript(TurnStarted(turn=2))
    transcript(TextPiece(turn=2, text="It is 42."))
    transcript(
        LoopFinished(
            turns=2, reason="done", text="It is 42.", input_tokens=10, output_tokens=5
        )
    )
    return transcript


@pytest.mark.parametrize(
    "words",
    [
        *("What is 6 * 7?", "I will compute it.", "It is 42.", "turn 2"),
        *("print(6 * 7)", "42", "ZeroDivisionError", "half", "n.txt (1 byte, created)"),
        *("exit 0", "exit 1", "timeout", "bad arguments", "timeout_s=1", "12 ms"),
        *("Stopped at the 1 s limit.", "ended: done, 2 turns", "10 tokens in, 5 out"),
        *("what the model reads", "stdout:\n```\n42\n```"),
    ],
)
def test_a_page_shows_the_run(ran: Transcript, tmp_path: Path, words: str) -> None:
    """Calls, verdicts, streams, times, and what the model said and read."""
    assert words in saved(ran, tmp_path).text


@pytest.mark.parametrize(
    "line",
    [
        *("What is 6 * 7?", "turn 1", "  I will compute it.", "> run_code timeout_s=1"),
        *("  print(6 * 7)", "| 42", "err| ZeroDivisionError: division by zero"),
        *("= exit 1  12 ms", "= timeout  12 ms", "= bad arguments  12 ms"),
        *("files: n.txt (1 byte, created)", "  It is 42."),
    ],
)
def test_it_prints_as_plain_text(ran: Transcript, line: str) -> None:
    """`print(transcript)` shows the same in a script."""
    assert line in str(ran).splitlines()


def test_a_notebook_is_given_the_same_without_a_page_around_it(
    ran: Transcript, tmp_path: Path
) -> None:
    """The last line of a cell is drawn by `_repr_html_`."""
    fragment = Page(ran._repr_html_())  # pyright: ignore[reportPrivateUsage]
    assert not {"html", "body", "meta"} & fragment.tags
    assert fragment.text.strip() in saved(ran, tmp_path).text


def test_the_replies_can_be_had(ran: Transcript) -> None:
    """Code looks at the same calls."""
    faults = [(reply.fault_type, reply.error) for reply in ran.replies]
    assert faults == [
        (None, None),
        (None, None),
        ("timeout", None),
        (None, "bad_arguments"),
    ]


# -- safe to open


def hostile(text: str) -> Transcript:
    """Make a run in which everything that others write is `text`."""
    result = ExecutionResult.model_validate(
        {
            "stdout": text,
            "code_stderr": text,
            "files": [{"path": text, "size": 1}],
            "fault": {"type": text, "message": text},
            "results": [
                {"data": {mime: text}}
                for mime in ("text/plain", "text/html", "image/svg+xml", "image/png")
            ],
        }
    )
    transcript = Transcript(text, live=False)
    written = json.dumps(
        {text: text, "code": text, "language": text, "timeout_s": text}
    )
    for number, arguments in enumerate((written, text, json.dumps([text]))):
        made: dict[str, Any] = {"turn": 1, "call_id": f"{text}{number}", "tool": text}
        transcript(TextPiece(turn=1, text=text))
        transcript(CallStarted(**made, arguments=arguments))
        transcript(OutputEvent(made["call_id"], "stdout", text))
        parts = (TextPart(text), ImagePart(text, text.encode("utf-8", "replace")))
        reply = Reply(
            name=text, parts=parts, result=None if number else result, error=text
        )
        transcript(CallFinished(**made, reply=reply, duration_ms=1))
    transcript(started(call_id="running"))
    transcript(OutputEvent("running", "stderr", text))
    transcript(
        LoopFinished(turns=1, reason=text, text=text, input_tokens=1, output_tokens=1)
    )
    return transcript


@pytest.mark.parametrize("text", [*HOSTILE, "\ud800", "\u202eexe", "\x00\x07"])
def test_nothing_that_others_wrote_can_act(text: str, tmp_path: Path) -> None:
    """Only our own tags are there, closed, and what is shown comes with the page."""
    page = saved(hostile(text), tmp_path)
    assert page.tags <= SAFE_TAGS
    assert page.attributes <= SAFE_ATTRIBUTES
    assert all(source.startswith("data:image/") for source in page.sources)
    assert page.open == []


@pytest.mark.parametrize("text", [*HOSTILE, "\ud800", "\u202eexe", "\x00\x07"])
def test_nothing_that_others_wrote_steers_the_terminal(text: str) -> None:
    """Only our own colours are there."""
    page = str(hostile(text))
    assert not {c for c in page if ord(c) < 32 or 127 <= ord(c) < 160} - {"\n", "\t"}
    assert "\u202e" not in page


def test_nobody_can_write_a_line_of_ours() -> None:
    """A verdict that the code or the model makes up stands behind a bar, or set in."""
    forged = "x\n= exit 0  1 ms\n> run_code"
    transcript = told(
        TurnStarted(turn=1),
        TextPiece(turn=1, text=forged),
        started(json.dumps({"code": forged, "note": forged})),
        finished(ExecutionResult(stdout=forged, code_stderr=forged, exit_code=1)),
    )
    ours = [line for line in str(transcript).splitlines() if line[:1] in "=>"]
    assert ours == ["> run_code", "= exit 1  12 ms"]


def test_a_page_may_load_nothing(ran: Transcript, tmp_path: Path) -> None:
    """It says so to the browser, and names no address."""
    page = ran.to_html(tmp_path / "run.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    assert "://" not in page


# -- events in any order


def test_parallel_calls_keep_their_output_apart() -> None:
    """Each piece goes to the call whose id is on it, an id used twice to the last."""
    transcript = told(
        started(call_id="a"),
        started(call_id="b"),
        OutputEvent("a", "stdout", "of a"),
        OutputEvent("b", "stderr", "of b"),
    )
    first, second = str(transcript).split("> run_code")[1:]
    assert "of a" not in second
    assert "of b" not in first


def test_a_call_of_one_name_is_told_from_another_of_its_id() -> None:
    """A model may give the same id twice; each call ends once."""
    transcript = told(
        started(call_id="a"),
        finished(ExecutionResult(stdout="first")),
        started(call_id="a"),
        OutputEvent("a", "stdout", "second"),
        finished(ExecutionResult(stdout="second", exit_code=1)),
    )
    first, second = str(transcript).split("> run_code")[1:]
    assert ("| first" in first, "= exit 0" in first) == (True, True)
    assert ("| second" in second, "= exit 1" in second) == (True, True)


def test_output_under_an_unknown_id_is_that_of_the_only_call() -> None:
    """LlamaIndex does not tell a tool its id."""
    transcript = told(started(), OutputEvent("c7", "stdout", "mine"))
    assert "mine" in str(transcript._repr_html_())  # pyright: ignore[reportPrivateUsage]


def test_output_that_could_be_of_several_calls_is_left_to_their_results() -> None:
    """Nothing is shown at the wrong call."""
    transcript = told(
        started(call_id="a"), started(call_id="b"), OutputEvent("c7", "stdout", "whose")
    )
    assert "whose" not in transcript._repr_html_()  # pyright: ignore[reportPrivateUsage]


def test_what_a_running_call_prints_is_held_by_its_end() -> None:
    """A flood does not grow the transcript; the result has it all."""
    transcript = told(started(), *[OutputEvent("a", "stdout", "x" * 1000)] * 100)
    transcript(OutputEvent("a", "stdout", "the end"))
    page = transcript._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert "the end" in page
    assert len(page) < HELD_MAX_CHARS + 10_000


def test_a_long_stream_is_shown_by_its_ends() -> None:
    """And how much is missing."""
    text = "start" + "x" * (2 * SHOWN_MAX_CHARS) + "end"
    transcript = told(started(), finished(ExecutionResult(stdout=text)))
    page = Page(transcript._repr_html_()).text  # pyright: ignore[reportPrivateUsage]
    assert "[20,008 characters not shown]" in page
    assert "start" in page
    assert "end" in page


def test_threads_may_tell_at_once() -> None:
    """Output comes on threads of the engine."""
    transcript = told(started())

    def tell() -> None:
        for _ in range(200):
            transcript(OutputEvent("a", "stdout", "x"))

    threads = [threading.Thread(target=tell) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "x" * 800 in transcript._repr_html_()  # pyright: ignore[reportPrivateUsage]


# -- what a call shows


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"exit_code": 139, "signal": 11}, "exit 139 (SIGSEGV)"),
        ({"repeats": 2}, ""),
        ({"attempts": 2}, "made 2 times"),
        ({"raised_timeout_s": 60}, "with its limit raised to 60 s"),
        ({"state_new": True}, "files are kept"),
        ({"results": [{"data": {"text/html": "<td>cell</td>"}}]}, "cell"),
        (
            {"results": [{"data": {"text/plain": str(n)}} for n in range(25)]},
            "5 values",
        ),
        ({"files": [{"path": f"{n}", "size": 1} for n in range(25)]}, "5 more"),
        ({"results": [{"data": {"image/png": PIXEL}}]}, "image: image/png 1x1"),
        ({"results": [{"data": {"image/png": "AA=="}}]}, "image: image/png, not a"),
        ({"results": [{"data": {"image/svg+xml": "<svg/>"}}]}, "image: image/svg+xml"),
    ],
    ids=str,
)
def test_what_is_known_of_a_result_is_told(result: dict[str, Any], words: str) -> None:
    """Crashes, what a policy did, what was lost, values and files."""
    event = finished(ExecutionResult.model_validate(result))
    assert words in str(told(started(), event))


def test_a_call_that_failed_again_says_so() -> None:
    """Also where nothing ran."""
    text = str(told(started(), finished(error="bad_arguments", repeats=2)))
    assert "the same call had failed 2 times in a row before" in text


def test_a_reply_that_was_given_again_says_so() -> None:
    """Nothing ran a second time."""
    text = str(told(started(), finished(ExecutionResult(), replayed=True)))
    assert "given again; nothing ran" in text


def test_images_that_an_artifact_lacks_come_from_the_reply() -> None:
    """A checkpoint may hold the text alone."""
    image = ImagePart("image/png", RichResult(data={"image/png": PIXEL}).png or b"")
    event = finished(ExecutionResult(), parts=(TextPart("ok"), image))
    assert "image: image/png 1x1" in str(told(started(), event))


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        ('{"code": "a\\nb", "timeout_s": null}', ["> run_code", "  a", "  b"]),
        ('{"command": "ls"}', ["> run_code", "  ls"]),
        ('{"path": "a.txt", "limit": 5}', ['> run_code path="a.txt", limit=5']),
        ('{"content": "a\\nb"}', ["> run_code", "  a", "  b"]),
        ("print(1)", ["> run_code", "  print(1)"]),
        ("[1]", ["> run_code", "  [1]"]),
        ("", ["> run_code"]),
    ],
)
def test_arguments_are_shown_as_they_were_written(
    written: str, lines: list[str]
) -> None:
    """Code as code, short ones beside the name, no JSON around."""
    assert str(told(started(written))).splitlines() == lines


# -- what is added afterwards


def test_replies_results_and_streams_can_be_added() -> None:
    """For what does not come from a loop of ours."""
    transcript = Transcript(live=False)
    with Sandbox() as sandbox:
        (tool,) = tools_of(sandbox, "list_files")
        transcript.add(tool.call({}), sandbox.run_code("print('one')"))
        transcript.add(*sandbox.stream_code("print('two')"))
    text = str(transcript)
    assert text.count("\n> ") + 1 == len(transcript.replies) == 3
    assert "| ok, 0 files" in text
    assert "| one" in text
    assert "| two" in text


def test_what_a_transcript_cannot_show_is_refused() -> None:
    """The error names what it was given."""
    with pytest.raises(TypeError, match="dict"):
        Transcript(live=False).add({})  # type: ignore[arg-type]


# -- while it runs


def shown(feed: Callable[[Transcript], object], **terminal: Any) -> str:
    """Give what a terminal shows of a transcript that is drawn live."""
    screen = Console(file=StringIO(), highlight=False, color_system=None)
    with screen.capture() as captured:
        feed(Transcript(live=TerminalDisplay(screen, **terminal)))
    return captured.get()


def test_a_terminal_waits_for_the_rest_of_a_line() -> None:
    """A piece that ends no line is shown with what follows."""

    def feed(transcript: Transcript) -> None:
        transcript(started())
        for text in ("o", "n", "e\n"):
            transcript(OutputEvent("a", "stdout", text))
        transcript(finished(ExecutionResult(stdout="one\n")))
        transcript(
            LoopFinished(
                turns=1, reason="done", text="", input_tokens=0, output_tokens=0
            )
        )

    lines = shown(feed, code=False).splitlines()
    assert lines == ["> run_code", "| one", "= exit 0  12 ms", "ended: done, 1 turn"]


def test_a_terminal_shows_lines_while_they_come() -> None:
    """Whole lines at once, the last one with the verdict, and none of them twice."""

    def feed(transcript: Transcript) -> None:
        transcript(started())
        transcript(OutputEvent("a", "stdout", "one\ntw"))
        transcript(OutputEvent("a", "stdout", "o\nthr"))
        transcript(finished(ExecutionResult(stdout="one\ntwo\nthree!")))

    lines = shown(feed, code=False).splitlines()
    assert lines == ["> run_code", "| one", "| two", "| three!", "= exit 0  12 ms"]


def test_a_terminal_says_what_it_missed() -> None:
    """Output that came too fast is not made up."""

    def feed(transcript: Transcript) -> None:
        transcript(started())
        transcript(OutputEvent("a", "stdout", "late\n", dropped_bytes=1000))
        transcript(finished(ExecutionResult(stdout="x" * 1000 + "late\n")))

    lines = shown(feed, code=False).splitlines()
    assert lines[1:3] == ["| [1,000 bytes came too fast to be shown]", "| late"]


def test_calls_side_by_side_are_told_apart_on_a_terminal() -> None:
    """Their lines mix; each says whose it is."""

    def feed(transcript: Transcript) -> None:
        for call_id in "ab":
            transcript(started(call_id=call_id))
        for call_id in "ab":
            transcript(OutputEvent(call_id, "stdout", f"of {call_id}\n"))

    assert {"a | of a", "b | of b"} <= set(shown(feed).splitlines())


def test_what_the_model_says_is_shown_as_it_comes() -> None:
    """Pieces are joined; what follows begins a line of its own."""

    def feed(transcript: Transcript) -> None:
        transcript(TurnStarted(turn=1))
        for text in ("a ", "b\n", "c"):
            transcript(TextPiece(turn=1, text=text))
        transcript(started())

    lines = shown(feed, code=False).splitlines()
    assert lines == ["turn 1", "  a b", "  c", "> run_code"]


def test_any_display_can_be_given() -> None:
    """It is told each entry, and the event that made or changed it."""
    seen: list[tuple[str, str]] = []

    class Mine:
        def show(self, entry: Entry, event: LoopEvent) -> None:
            seen.append((type(entry).__name__, type(event).__name__))

    transcript = Transcript(live=Mine())
    transcript(TurnStarted(turn=1))
    transcript(started())
    transcript(finished(ExecutionResult()))
    assert seen == [
        ("Said", "TurnStarted"),
        ("Called", "CallStarted"),
        ("Called", "CallFinished"),
    ]


def test_nothing_is_drawn_outside_notebooks_unless_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A script's output stays its own."""
    Transcript()(TurnStarted(turn=1))
    assert capsys.readouterr().out == ""
    Transcript(live=True)(TurnStarted(turn=1))
    assert capsys.readouterr().out == "turn 1\n"
