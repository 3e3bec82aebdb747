"""The tools of the set `coding`, on real boxes."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kern_tools import Budget, Sandbox
from kern_tools.arguments import read_arguments
from kern_tools.edit_tool import EDIT_MAX_BYTES, EditFile
from kern_tools.excerpt import fenced
from kern_tools.reply import Reply
from kern_tools.tools import TOOLS, Tool, tools_of

from .depth import examples

Mode = Literal["fresh", "resident", "kernel"]
SLOW = "(a+)+$"
SLOW_LINE = "a" * 40 + "!\n"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """One sandbox for tests that only add files of their own."""
    with Sandbox(timeout_s=5) as sandbox:
        yield sandbox


@pytest.fixture
def clean() -> Iterator[Sandbox]:
    """A sandbox of the test's own."""
    with Sandbox(timeout_s=5, prewarm=0) as sandbox:
        yield sandbox


def tool_of(sandbox: Sandbox, name: str) -> Tool:
    """Bind one tool."""
    (tool,) = tools_of(sandbox, name)
    return tool


def call(sandbox: Sandbox, name: str, **arguments: Any) -> Reply:
    """Call one tool."""
    return tool_of(sandbox, name).call(arguments, call_id="c-7")


def command(sandbox: Sandbox, line: str, **arguments: Any) -> Reply:
    """Run one command."""
    return call(sandbox, "run_command", command=line, **arguments)


def printed(reply: Reply) -> str:
    """Give what a command wrote to stdout."""
    assert reply.result is not None, reply.text
    return reply.result.stdout


def test_the_set_is_code_files_and_four_more(sandbox: Sandbox) -> None:
    """A coding agent gets all tools by one name."""
    names = [tool.name for tool in tools_of(sandbox, "coding")]
    assert names == list(TOOLS)
    assert names[4:] == ["run_command", "edit_file", "search_files", "find_files"]


def test_the_prompt_speaks_of_the_set_where_it_is_offered(sandbox: Sandbox) -> None:
    """The developer names the tools once more, by the same word."""
    assert "`run_command`" in sandbox.system_prompt("coding")
    assert "`run_command`" not in sandbox.system_prompt()


# run_command


def test_a_command_runs_in_the_workspace_by_bash(sandbox: Sandbox) -> None:
    """Files are found by the names that the other tools use."""
    sandbox.write_file("seen.txt", "here\n")
    reply = command(sandbox, "pwd; cat seen.txt; [[ $BASH_VERSION ]] && echo bash")
    assert reply.text.startswith("ok")
    assert printed(reply) == "/workspace\nhere\nbash\n"
    assert (reply.name, reply.error) == ("run_command", None)
    assert reply.artifact["callId"] == "c-7"


def test_an_exit_code_is_a_result(sandbox: Sandbox) -> None:
    """A command that fails is no failure of the tool."""
    reply = command(sandbox, "echo out; echo err >&2; exit 3")
    assert reply.text.startswith("exit 3\n")
    assert fenced("err\n") in reply.text
    assert not reply.is_error


def test_a_command_that_takes_too_long_is_stopped(sandbox: Sandbox) -> None:
    """What it wrote until then is there, and the model may ask for more time."""
    reply = command(sandbox, "echo before; sleep 60", timeout_s=0.5)
    assert reply.fault_type == "timeout"
    assert printed(reply) == "before\n"
    assert "raise `timeout_s`, up to 5 s" in reply.text


def test_a_command_longer_than_a_command_line_runs(sandbox: Sandbox) -> None:
    """Linux takes 128 KiB an argument, a model may write more."""
    reply = command(sandbox, f"# {'x' * 200_000}\necho ran")
    assert printed(reply) == "ran\n"


@pytest.mark.parametrize(
    ("written", "out"),
    [
        (r"printf 'a\nb'", "a\nb"),
        (r"echo 'x = 1\ny = 2'", "x = 1\\ny = 2\n"),
        ("```bash\necho fenced\n```", "fenced\n"),
        ("cat <<'END'\n```\nEND", "```\n"),
    ],
)
def test_a_command_is_run_as_it_was_meant(
    sandbox: Sandbox, written: str, out: str
) -> None:
    """Shell is not taken for Python; a fence around all of it is taken off."""
    assert printed(command(sandbox, written)) == out


@pytest.mark.parametrize(
    "arguments",
    [{"command": "echo a\0b"}, {"command": ["ls"]}, {"cmd": 5}, {}, {"code": None}],
)
def test_a_command_that_cannot_be_run_is_answered(
    sandbox: Sandbox, arguments: dict[str, Any]
) -> None:
    """Nothing a model writes reaches the developer as an exception."""
    reply = tool_of(sandbox, "run_command").call(arguments)
    assert reply.error == "bad_arguments"
    assert "`command`" in reply.text


@pytest.mark.parametrize(
    ("mode", "kept"),
    [("fresh", ""), ("resident", "kept\nruns\n"), ("kernel", "kept\nruns\n")],
)
def test_what_survives_a_command_is_what_its_description_says(
    mode: Mode, kept: str
) -> None:
    """Files always, the shell's own state never, processes where the box stays."""
    left = "sleep 60 & echo $! > pid; echo kept > /tmp/scratch; cd /tmp; name=value"
    look = 'pwd; echo "[$name]"; cat /tmp/scratch; kill -0 $(cat pid) && echo runs'
    with Sandbox(mode=mode, timeout_s=5) as sandbox:
        assert command(sandbox, left).text.startswith("ok")
        told = printed(command(sandbox, look))
        description = tool_of(sandbox, "run_command").description
    assert told == f"/workspace\n[]\n{kept}"
    assert ("background processes are not" in description) is (mode == "fresh")


def test_a_kernel_keeps_its_names_beside_commands() -> None:
    """A command neither sees the directory that a cell went to nor touches a name."""
    with Sandbox(mode="kernel", timeout_s=5) as sandbox:
        call(sandbox, "run_code", code="import os\nos.chdir('/tmp')\nname = 42")
        assert printed(command(sandbox, "pwd")) == "/workspace\n"
        sandbox.write_file("a.txt", "needle\n")
        assert "a.txt:1: needle" in call(sandbox, "search_files", pattern="ne+d").text
        reply = call(sandbox, "run_code", code="print(name)")
    assert printed(reply) == "42\n"


async def test_cancelling_a_command_ends_it(clean: Sandbox) -> None:
    """It goes no further, and the sandbox stays usable."""
    line = "touch up; sleep 60; touch late"
    task = asyncio.create_task(
        tool_of(clean, "run_command").acall({"command": line, "timeout_s": 5})
    )
    while not clean.list_files():
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [file.path for file in clean.list_files()] == ["up"]
    reply = await tool_of(clean, "run_command").acall({"command": "echo 7"})
    assert printed(reply) == "7\n"


def test_what_a_command_writes_can_be_heard(sandbox: Sandbox) -> None:
    """Whoever listens to code listens to commands alike."""
    heard: list[str] = []
    reply = tool_of(sandbox, "run_command").call(
        {"command": "echo out"}, on_output=lambda event: heard.append(event.text)
    )
    assert "".join(heard) == printed(reply) == "out\n"


# edit_file


def test_an_edit_shows_what_it_changed(clean: Sandbox) -> None:
    """The lines before and after, with where they are."""
    clean.write_file("a.py", "one\ntwo\nthree\nfour\nfive\nsix\n")
    reply = call(clean, "edit_file", path="a.py", old="four", new="4\n4.5")
    assert reply.text == (
        "ok, edited a.py, 1 place, line 4\n```\n@@ -2,5 +2,6 @@\n two\n three\n"
        "-four\n+4\n+4.5\n five\n six\n```"
    )
    assert clean.read_file("a.py") == b"one\ntwo\nthree\n4\n4.5\nfive\nsix\n"
    assert (reply.error, reply.result) == (None, None)


def test_every_place_is_edited_where_asked(clean: Sandbox) -> None:
    """Places that are far apart are shown apart."""
    clean.write_file("a", "x\n" + "-\n" * 20 + "x")
    reply = call(clean, "edit_file", path="a", old="x", new="y", replace_all=True)
    assert reply.text.startswith("ok, edited a, 2 places, lines 1, 22\n")
    assert reply.text.count("@@ -") == 2
    assert "\n-x\n\\ No newline at end of file\n+y\n\\ No newline" in reply.text
    assert clean.read_file("a") == b"y\n" + b"-\n" * 20 + b"y"


@pytest.mark.parametrize(
    ("data", "old", "new", "after"),
    [
        (b"a\r\nb\r\n", "a\r\nb", "c\r\nd", b"c\r\nd\r\n"),
        (b"a\r\nb\nc\r", "b\n", "", b"a\r\nc\r"),
        (b"\xef\xbb\xbfa\0\x1b[31m", "a", "\u00e9", b"\xef\xbb\xbf\xc3\xa9\0\x1b[31m"),
        (b"\r", "\r", "\r\n", b"\r\n"),
        (b"a", "a", "", b""),
    ],
)
def test_an_edit_leaves_every_other_byte(
    clean: Sandbox, data: bytes, old: str, new: str, after: bytes
) -> None:
    """Line ends, a byte order mark and control characters are the file's own."""
    clean.write_file("f", data)
    reply = call(clean, "edit_file", path="f", old=old, new=new)
    assert reply.error is None
    assert clean.read_file("f") == after
    assert "\x1b" not in reply.text


@pytest.mark.parametrize(
    ("new", "note"),
    [
        ("b\r\nc", "note: its lines end in CRLF."),
        ("b\nc", "note: its lines ended in CRLF, and some end in LF now."),
    ],
)
def test_an_edit_tells_of_the_line_ends(clean: Sandbox, new: str, note: str) -> None:
    """A model does not see them, and mixes them where it is not told."""
    clean.write_file("dos", b"a\r\nb\r\n")
    reply = call(clean, "edit_file", path="dos", old="b", new=new)
    assert note in reply.text
    assert clean.read_file("dos") == b"a\r\n" + new.encode() + b"\r\n"


def test_an_edit_keeps_the_mode_and_replaces_in_one_step(clean: Sandbox) -> None:
    """A script stays executable, and a reader has the old file or the new one."""
    clean.write_file("run.sh", "echo 1\n")
    path = clean.workspace.root / "run.sh"
    path.chmod(0o750)
    with path.open() as held:
        call(clean, "edit_file", path="run.sh", old="1", new="2")
        assert held.read() == "echo 1\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert printed(command(clean, "./run.sh")) == "2\n"


def test_an_edit_leaves_a_file_to_its_owner(clean: Sandbox) -> None:
    """A file that the developer made as somebody else stays theirs."""
    clean.write_file("theirs", "1")
    path = clean.workspace.root / "theirs"
    os.chown(path, 1234, 4321)
    call(clean, "edit_file", path="theirs", old="1", new="2")
    assert path.read_text() == "2"
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 4321)


def test_text_that_is_there_twice_is_not_guessed(clean: Sandbox) -> None:
    """The model is told how often and where, and nothing is changed."""
    data = b"x\n" * 3
    clean.write_file("a", data)
    reply = call(clean, "edit_file", path="a", old="x", new="y")
    assert reply.error == "ambiguous"
    assert "`old` is in a 3 times, lines 1, 2, 3; nothing was changed." in reply.text
    assert not reply.is_error
    overlapping = call(clean, "edit_file", path="a", old="x\nx\n", new="y")
    assert overlapping.error == "ambiguous"
    assert clean.read_file("a") == data


@pytest.mark.parametrize(
    ("old", "told"),
    [
        ("def f():\n  return 1", "Its lines 2-3 are the same but for white space:"),
        ("DEF F():", "Its line 2 is the same but for upper and lower case:"),
        ("def f():\\n    return 1", "are the same once escapes are read:"),
        ("def f():\n    return 2", "Nearest are its lines 2-3:"),
    ],
)
def test_the_nearest_place_is_shown(clean: Sandbox, old: str, told: str) -> None:
    """What the model has to write stands in the reply."""
    clean.write_file("a.py", "import os\ndef f():\n    return 1\n")
    reply = call(clean, "edit_file", path="a.py", old=old, new="pass")
    assert reply.error == "no_match"
    assert told in reply.text
    assert "\ndef f():\n" in reply.text
    assert "next: take `old` from there" in reply.text


def test_other_line_ends_are_told(clean: Sandbox) -> None:
    """The file keeps its own, so the model has to write them."""
    clean.write_file("dos", b"a\r\nb\r\n")
    clean.write_file("unix", b"a\nb\n")
    dos = call(clean, "edit_file", path="dos", old="a\nb", new="c")
    assert "lines 1-2 are the same, but end in CRLF:" in dos.text
    assert r"next: write \r\n where lines of `old` and `new` end." in dos.text
    unix = call(clean, "edit_file", path="unix", old="a\r\nb", new="c")
    assert "the same, but end in LF:" in unix.text


def test_text_that_is_nowhere_is_said_to_be_nowhere(clean: Sandbox) -> None:
    """There is nothing to show, only what to do."""
    clean.write_file("a", "x\n")
    reply = call(clean, "edit_file", path="a", old="quite other", new="z")
    assert reply.text == (
        "error: no_match. `old` is not in a.\n"
        "next: read the file, and take `old` from it as it is."
    )


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("none", "not_found"),
        (".", "is_directory"),
        ("/etc/passwd", "outside"),
        ("link", "not_regular"),
        ("latin", "bad_data"),
        ("huge", "too_large"),
    ],
)
def test_a_file_that_cannot_be_edited_is_answered(
    sandbox: Sandbox, path: str, error: str
) -> None:
    """The code of the error is there for code, and no file was touched."""
    root = sandbox.workspace.root
    if path == "link" and not (root / path).is_symlink():
        (root / path).symlink_to("/etc/passwd")
    if path == "huge":
        with (root / path).open("wb") as file:
            file.truncate(1 << 40)
    sandbox.write_file("latin", b"ok\ncaf\xe9\n")
    reply = call(sandbox, "edit_file", path=path, old="ok", new="no")
    assert reply.error == error
    assert reply.text.startswith(f"error: {error}. ")
    assert sandbox.read_file("latin") == b"ok\ncaf\xe9\n"


@pytest.mark.parametrize(("old", "new"), [("", "x"), ("same", "same")])
def test_an_edit_of_nothing_is_bad_arguments(
    sandbox: Sandbox, old: str, new: str
) -> None:
    """Whatever the file holds, there is nothing to do."""
    reply = call(sandbox, "edit_file", path="none", old=old, new=new)
    assert reply.error == "bad_arguments"


def test_an_edit_cannot_make_a_file_of_any_size(clean: Sandbox) -> None:
    """A short reply of a model cannot fill the disk or the memory."""
    data = b"a" * (1 << 20)
    clean.write_file("a", data)
    reply = call(
        clean, "edit_file", path="a", old="a", new="b" * 100_000, replace_all=True
    )
    assert reply.error == "too_large"
    assert clean.read_file("a") == data


def test_many_places_are_told_within_the_budget() -> None:
    """A thousand changes are counted, and some are shown."""
    with Sandbox(budget=Budget(text_chars=2000)) as sandbox:
        sandbox.write_file("a", "x" * 300 + "\n" + "y\nx\n" * 1000)
        reply = call(
            sandbox, "edit_file", path="a", old="x\n", new="z\n", replace_all=True
        )
    assert len(reply.text) <= 2000
    assert reply.text.startswith("ok, edited a, 1,001 places, lines 1, 3, 5, 7, ")
    assert "note: not all changes are shown." in reply.text


def test_edits_of_one_turn_do_not_undo_each_other(clean: Sandbox) -> None:
    """Agents call tools side by side, also for one file."""
    numbers = range(40)
    clean.write_file("a", "".join(f"<{number}>\n" for number in numbers))
    tool = tool_of(clean, "edit_file")

    def change(number: int) -> None:
        old, new = f"<{number}>", f"[{number}]"
        assert tool.call({"path": "a", "old": old, "new": new}).error is None

    threads = [threading.Thread(target=change, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clean.read_file("a").decode() == "".join(f"[{n}]\n" for n in numbers)


async def test_the_async_edit_says_the_same(clean: Sandbox) -> None:
    """It is done when the reply is there."""
    clean.write_file("a", "x\n")
    reply = await tool_of(clean, "edit_file").acall(
        {"file_path": "a", "old_string": "x", "new_string": "y"}
    )
    assert clean.read_file("a") == b"y\n"
    assert "note: read 'old_string' as `old`." in reply.text


TEXTS = st.text("ab\n\r \u00e9\U0001f600", max_size=40)


@examples(50, 1000)
@given(
    before=TEXTS, old=TEXTS.filter(bool), after=TEXTS, new=TEXTS, every=st.booleans()
)
def test_an_edit_is_exact_or_nothing(
    sandbox: Sandbox, before: str, old: str, after: str, new: str, every: bool
) -> None:
    """Either the one replacement that was meant is done, or no byte changes."""
    text = before + old + after
    sandbox.write_file("exact", text)
    reply = call(
        sandbox, "edit_file", path="exact", old=old, new=new, replace_all=every
    )
    places = sum(text.startswith(old, at) for at in range(len(text)))
    done = old != new and (every or places == 1)
    assert (reply.error is None) is done
    expected = text.replace(old, new) if done else text
    assert sandbox.read_file("exact") == expected.encode()


# search_files


def test_a_search_gives_path_line_and_text(clean: Sandbox) -> None:
    """Sorted by path, and the totals are true."""
    clean.write_file("b.txt", "no\nneedle 1\n")
    clean.write_file("a/x.txt", "needle 2\r\nneedle 3")
    clean.write_file("bin", b"needle\0")
    reply = call(clean, "search_files", pattern=r"needle \d")
    assert reply.text == (
        "ok, 3 lines in 2 files match\nnote: 1 binary file passed over.\n```\n"
        "a/x.txt:1: needle 2\na/x.txt:2: needle 3\nb.txt:2: needle 1\n```"
    )
    assert (reply.error, reply.result) == (None, None)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("a", "ok, 1 line in 1 file matches in a\n"),
        ("/workspace/a/x.txt", "ok, 1 line in 1 file matches in /workspace/a/x.txt\n"),
        (".", "ok, 2 lines in 2 files match\n"),
        (".git", "ok, 1 line in 1 file matches in .git\n"),
        ("a/x.txt/y", "error: not_found. "),
        ("none", "error: not_found. Cannot search 'none': it does not exist; "),
        ("../..", "error: outside. "),
        ("link", "error: not_regular. "),
    ],
)
def test_a_search_can_be_limited_to_a_path(
    clean: Sandbox, path: str, told: str
) -> None:
    """A directory, a file, or what is passed over otherwise; never outside."""
    for name in ("a/x.txt", "b.txt", ".git/config"):
        clean.write_file(name, "needle\n")
    (clean.workspace.root / "link").symlink_to("/etc")
    reply = call(clean, "search_files", pattern="needle", path=path)
    assert reply.text.startswith(told)


def test_own_files_and_links_are_not_searched(clean: Sandbox) -> None:
    """What the sandbox keeps is found only by who names it."""
    clean.workspace.spill("c1", "needle\n")
    (clean.workspace.root / "link").symlink_to("/etc/passwd")
    os.mkfifo(clean.workspace.root / "pipe")
    assert call(clean, "search_files", pattern=".").text == "ok, no line matches"
    named = call(clean, "search_files", pattern="needle", path=".kern/out-c1.txt")
    assert ".kern/out-c1.txt:1: needle" in named.text


def test_odd_names_and_texts_stay_on_their_lines(clean: Sandbox) -> None:
    """Nothing that a file is called or holds can write lines of ours."""
    root = clean.workspace.root
    (root / "a\nok, 9 lines").write_text("needle \x1b[31m\u202e\n")
    Path(os.fsdecode(os.fsencode(root) + b"/\xff")).write_bytes(b"needle \xff\n")
    reply = call(clean, "search_files", pattern="needle")
    _, fence, first, second, end = reply.text.split("\n")
    assert first == "a\\x0aok, 9 lines:1: needle \\u202e"
    assert second == "\\xff:1: needle \ufffd"
    assert fence == end == "```"
    again = call(clean, "search_files", pattern="needle", path="\\xff")
    assert again.text.startswith("ok, 1 line in 1 file matches")


def test_a_search_is_bounded_and_its_totals_true(clean: Sandbox) -> None:
    """A model is told how many there are, and shown some."""
    for number in range(30):
        clean.write_file(f"f{number:02}", "needle\n" * 100)
    clean.write_file("a", "x" * 100_000 + "needle" + "y" * 100_000)
    reply = call(clean, "search_files", pattern="needle")
    head = "ok, 3,001 lines in 31 files match, the first 200 by path\n"
    assert reply.text.startswith(head)
    assert len(reply.text) <= 8000
    assert "a:1: ...xxx" in reply.text
    assert "xneedley" in reply.text
    assert reply.text.endswith("with a narrower pattern.")


def test_a_pattern_without_end_is_stopped_in_the_box(clean: Sandbox) -> None:
    """Catastrophic backtracking costs the box its time, and the host nothing."""
    clean.write_file("a", "aaa\n")
    clean.write_file("b", SLOW_LINE)
    reply = call(clean, "search_files", pattern=SLOW)
    assert reply.error == "too_slow"
    assert reply.text.startswith(
        "error: too_slow. Stopped after 3.5 s in line 1 of b; until then 1 line in "
        "1 file\n"
    )
    assert "a:1: aaa" in reply.text
    assert call(clean, "search_files", pattern="!").text.startswith("ok, 1 line")


@pytest.mark.parametrize("pattern", ["(", "*", "a{2,1}", "(?P<n>a)(?P<n>b)", "[z-a]"])
def test_a_pattern_that_is_none_is_answered(sandbox: Sandbox, pattern: str) -> None:
    """The words of the engine say where it went wrong."""
    reply = call(sandbox, "search_files", pattern=pattern)
    assert reply.error == "bad_arguments"
    assert "`pattern` is not a regular expression that can be used: " in reply.text


@pytest.mark.parametrize("pattern", ["", "a\0b", "a" * 3000])
def test_a_pattern_that_cannot_be_sent_is_answered(
    sandbox: Sandbox, pattern: str
) -> None:
    """It never reaches a box."""
    reply = call(sandbox, "search_files", pattern=pattern)
    assert reply.error == "bad_arguments"


def test_a_huge_file_is_searched_without_holding_it(clean: Sandbox) -> None:
    """A sparse terabyte is binary, and a line without end is searched by pieces."""
    with (clean.workspace.root / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    clean.write_file("long", b"x" * (64 << 20) + b"needle\n")
    reply = call(clean, "search_files", pattern="needle")
    assert reply.text.startswith("ok, 1 line in 1 file matches\nnote: 1 binary")


def test_a_search_is_heard_by_nobody() -> None:
    """Who listens to the code does not hear what the tool says to itself."""
    heard: list[str] = []
    with Sandbox(on_stdout=heard.append) as sandbox:
        sandbox.write_file("a", "needle\n")
        reply = call(sandbox, "search_files", pattern="needle")
        assert "a:1: needle" in reply.text
        command(sandbox, "echo heard")
    assert "".join(heard) == "heard\n"


def test_a_search_tells_of_a_box_that_is_gone() -> None:
    """The model learns of lost names from the next reply, whichever tool gives it."""
    with Sandbox(mode="kernel", timeout_s=5) as sandbox:
        call(sandbox, "run_code", code="name = 1")
        call(sandbox, "run_code", code="import os\nos._exit(1)")
        reply = call(sandbox, "search_files", pattern="x")
    assert "note: started anew: files are kept" in reply.text


async def test_the_async_search_says_the_same(clean: Sandbox) -> None:
    """It is native: no thread waits for the box."""
    clean.write_file("a", "needle\n")
    tool = tool_of(clean, "search_files")
    found = await tool.acall({"regex": "needle", "path": None})
    assert "a:1: needle" in found.text
    bad = await tool.acall({"pattern": "("})
    assert bad.error == "bad_arguments"
    outside = await tool.acall({"pattern": "x", "path": "/etc"})
    assert outside.error == "outside"


@pytest.fixture
def posing() -> Iterator[Sandbox]:
    """A sandbox where what the workspace holds is run in the place of programs."""
    with Sandbox(timeout_s=5, prewarm=0, env={"PATH": "/workspace/bin"}) as sandbox:
        yield sandbox


def pose(sandbox: Sandbox, program: str, written: str) -> None:
    """Have a program that writes what is wanted."""
    sandbox.write_file("said", written)
    sandbox.write_file(f"bin/{program}", "#!/bin/sh\nexec /bin/cat /workspace/said\n")
    (sandbox.workspace.root / "bin" / program).chmod(0o755)


NO_ANSWERS = (
    "",
    "hello",
    "[" * 100_000,
    '{"lines": -1}',
    '{"lines": 1e400}',
    '{"rows": [["/etc", 1]]}',
    '{"rows": [["\u65e5", 1, "x"]]}',
    '{"stopped": ["\\ud800", 1]}',
    '{"errno": 0, "rows": 5}',
)


def test_a_search_believes_no_program_that_poses_as_its_own(posing: Sandbox) -> None:
    """What is no answer is told as an error, whatever was written."""
    for written in NO_ANSWERS:
        pose(posing, "python3", written)
        reply = call(posing, "search_files", pattern="x")
        assert (reply.error, reply.result) == ("io", None), written
        assert reply.text.startswith("error: io. The search gave no answer")


def test_a_search_by_the_shell_reads_no_odd_names_and_no_odd_answers(
    posing: Sandbox,
) -> None:
    """Where there is no Python, a name has to be UTF-8, and an answer one of ours."""
    pose(posing, "sh", "hello")
    assert call(posing, "search_files", pattern="x").error == "io"
    (posing.workspace.root / os.fsdecode(b"\xff")).mkdir()
    odd = call(posing, "search_files", pattern="x", path="\\xff")
    assert odd.error == "bad_path"
    assert odd.text.endswith("its name is not UTF-8; search the directory above.")


async def test_a_program_that_one_path_hides_is_found_on_another(
    posing: Sandbox, clean: Sandbox
) -> None:
    """A sandbox of the same image, with a `PATH` of its own, is asked for itself."""
    tool = tool_of(posing, "search_files")
    for reply in (tool.call({"pattern": "x"}), await tool.acall({"pattern": "x"})):
        assert reply.fault_type == "exec_failed"
    clean.write_file("a", "needle 7\n")
    found = call(clean, "search_files", pattern=r"(?<=needle )\d")
    assert found.text.startswith("ok, 1 line in 1 file matches\n")


def test_a_search_whose_program_cannot_be_run_says_so(posing: Sandbox) -> None:
    """A file of its name that is no program is not passed over."""
    posing.write_file("bin/python3", b"\x7fELF nothing")
    (posing.workspace.root / "bin" / "python3").chmod(0o755)
    reply = call(posing, "search_files", pattern="x")
    assert reply.fault_type == "exec_failed"
    assert reply.result is not None
    assert reply.result.fault is not None
    assert reply.result.fault.reason != "not_found"


def test_a_search_below_a_path_of_thousands_of_bytes_is_answered(
    sandbox: Sandbox,
) -> None:
    """The model is told how long it may be, before anything runs."""
    path = "/".join(["n" * 200] * 21)
    reply = call(sandbox, "search_files", pattern="x", path=path)
    assert reply.error == "bad_path"
    assert "more than 4,000 bytes; search a directory above" in reply.text


def test_a_search_tells_of_what_it_may_not_read() -> None:
    """The totals are of what could be read, and the reply says so."""
    with Sandbox(timeout_s=5, prewarm=0, cap_drop=["ALL"]) as sandbox:
        for name in ("a", "b"):
            sandbox.write_file(name, "needle\n")
        (sandbox.workspace.root / "a").chmod(0)
        reply = call(sandbox, "search_files", pattern="needle")
    assert reply.text.startswith("ok, 1 line in 1 file matches\nnote: 1 entry not read")


# find_files


def test_files_are_found_by_their_paths(clean: Sandbox) -> None:
    """At the top, or everywhere, sorted, with what the sandbox keeps left out."""
    for name in ("b.py", "a.py", "src/c.py", "src/d/e.py", ".git/f.py", "g.txt"):
        clean.write_file(name, "")
    clean.workspace.spill("c1", "x")
    everywhere = call(clean, "find_files", glob="**/*.py")
    assert everywhere.text == (
        "ok, 4 files match **/*.py\n```\na.py\nb.py\nsrc/c.py\nsrc/d/e.py\n```"
    )
    top = call(clean, "find_files", glob="/workspace/*.py")
    assert top.text.startswith("ok, 2 files match /workspace/*.py\n")
    none = call(clean, "find_files", glob="*.rs")
    assert none.text.endswith(
        "next: begin the pattern with `**/` to look in all directories."
    )
    own = call(clean, "find_files", glob="**/out-*")
    assert own.text == "ok, 0 files match **/out-*"


def test_finding_is_bounded_and_its_total_true(clean: Sandbox) -> None:
    """A model is told how many there are, and shown some."""
    command(clean, "mkdir d; for n in $(seq 1000 1999); do : > d/f$n; done")
    reply = call(clean, "find_files", glob="d/*")
    assert reply.text.startswith("ok, 1,000 files match d/*, the first 200 by name\n")
    assert "d/f1199" in reply.text
    assert "d/f1200" not in reply.text


@pytest.mark.parametrize("glob", ["", "/etc/*", "../*", "/", "a\0", "{a,b}" * 9])
def test_a_pattern_for_paths_that_cannot_be_used_is_answered(
    sandbox: Sandbox, glob: str
) -> None:
    """The model is told what to write."""
    assert call(sandbox, "find_files", glob=glob).error == "bad_arguments"


async def test_the_async_find_says_the_same(clean: Sandbox) -> None:
    """The name that other tools have for the pattern is understood."""
    clean.write_file("a.py", "")
    reply = await tool_of(clean, "find_files").acall({"pattern": "*.py"})
    assert "note: read 'pattern' as `glob`." in reply.text
    assert fenced("a.py") in reply.text


# arguments

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary()
)
NAMES = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [
            "path",
            "old",
            "new",
            "replace_all",
            "old_string",
            "pattern",
            "glob",
            "command",
            "timeout_s",
            "code",
            "file",
            "all",
            "search",
            "text",
        ]
    ),
)


@pytest.mark.parametrize("name", ["run_command", "edit_file", "search_files"])
@given(raw=st.one_of(VALUES, st.dictionaries(NAMES, VALUES, max_size=6)))
def test_arguments_of_any_kind_are_read_or_explained(name: str, raw: object) -> None:
    """Nothing a model writes is an exception, and what is read is valid."""
    spec = TOOLS[name]
    read = read_arguments(raw, spec.arguments, code_field=spec.code_field)
    assert (read.arguments is None) is (read.problem is not None)
    if isinstance(read.arguments, EditFile):
        assert read.arguments.old


def test_the_bound_on_edited_files_is_the_one_that_is_told(sandbox: Sandbox) -> None:
    """A description is true."""
    assert EDIT_MAX_BYTES == 4 << 20
    assert "up to 4 MiB" in tool_of(sandbox, "edit_file").description
