"""The tools as a framework calls them, on real boxes."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from kern_tools import Budget, ConfigError, Sandbox, SandboxClosed
from kern_tools.excerpt import fenced
from kern_tools.reply import Reply, result_of_artifact
from kern_tools.tools import (
    TOOL_ALIASES,
    TOOL_SETS,
    TOOLS,
    Tool,
    tools_of,
    unknown_tool_reply,
)

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAAAAAC4HznGAAAADklEQVR4nGNgAAIGBgYAAA0AAQ+Rm6gA"
    "AAAASUVORK5CYII="
)
GIF = b"GIF89a\x05\x00\x04\x00\x80\x00\x00\xff\xff\xff\x00\x00\x00,\x00\x00\x00\x00;"
RIFF = b"RIFF\x16\x00\x00\x00WEBP"
JPEG = b"\xff\xd8\xff\xc0\x00\x11\x08\x00\x03\x00\x04" + bytes(10) + b"\xff\xd9"
WEBP = RIFF + b"VP8L\x0a\x00\x00\x00\x2f\x06\x00\x02\x00" + bytes(5)
WEBP_WIDE = RIFF + b"VP8X\x0a\x00\x00\x00" + bytes(4) + b"\x06\x00\x00\x08\x00\x00"
WEBP_MOVING = WEBP_WIDE[:20] + b"\x02" + WEBP_WIDE[21:]
WEBP_LOSSY = RIFF + b"VP8 \x0a\x00\x00\x00" + bytes(6) + b"\x07\x00\x09\x00"
BIG = "print('0123456789' * 10_000)"


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


def test_the_default_tools_are_code_and_files(sandbox: Sandbox) -> None:
    """Names of sets and of tools may be mixed; each tool comes once."""
    names = ["run_code", "read_file", "write_file", "list_files"]
    assert [tool.name for tool in tools_of(sandbox)] == names
    mixed = tools_of(sandbox, ["list_files", "files", "list_files"])
    assert [tool.name for tool in mixed] == ["list_files", "read_file", "write_file"]
    assert {name for names in TOOL_SETS.values() for name in names} == set(TOOLS)


def test_an_unknown_set_is_refused(sandbox: Sandbox) -> None:
    """The developer is told which names there are."""
    with pytest.raises(ConfigError, match="'fils' is neither a set nor") as caught:
        tools_of(sandbox, ("code", "fils"))
    assert caught.value.option == "tools"


def test_every_alias_leads_to_a_tool() -> None:
    """An alias never hides a tool of that name."""
    assert set(TOOL_ALIASES.values()) <= set(TOOLS)
    assert not set(TOOL_ALIASES) & set(TOOLS)


@pytest.mark.parametrize("name", TOOLS)
def test_a_strict_schema_is_one_that_strict_mode_takes(
    sandbox: Sandbox, name: str
) -> None:
    """All is required, what may be absent is nullable, nothing else is allowed."""
    schema = tool_of(sandbox, name).schema()
    model = TOOLS[name].arguments
    assert schema["additionalProperties"] is False
    assert schema["required"] == list(schema["properties"]) == list(model.model_fields)
    for field, found in schema["properties"].items():
        assert set(found) <= {"type", "enum", "description"}
        assert found["description"]
        nullable = isinstance(found["type"], list) and "null" in found["type"]
        assert nullable is not model.model_fields[field].is_required()
        assert ("enum" in found and None not in found["enum"]) is False


@pytest.mark.parametrize("name", TOOLS)
def test_a_plain_schema_needs_no_strict_mode(sandbox: Sandbox, name: str) -> None:
    """What may be absent is not required, and there is no list of types."""
    schema = tool_of(sandbox, name).schema(strict=False)
    fields = TOOLS[name].arguments.model_fields
    required = [field for field, info in fields.items() if info.is_required()]
    assert schema["required"] == required
    for found in schema["properties"].values():
        assert isinstance(found["type"], str)
        assert None not in found.get("enum", [])


@pytest.mark.parametrize("name", TOOLS)
def test_a_description_is_short_enough_for_every_framework(
    sandbox: Sandbox, name: str
) -> None:
    """LlamaIndex raises above 1,024 characters."""
    assert 0 < len(tool_of(sandbox, name).description) <= 1024


def test_code_runs_and_the_result_is_there_for_code(sandbox: Sandbox) -> None:
    """Text for the model, the result and the call's id for code."""
    reply = call(sandbox, "run_code", code="print(6 * 7)")
    assert reply.text.startswith("ok")
    assert fenced("42\n") in reply.text
    assert reply.result is not None
    assert reply.result.stdout == "42\n"
    assert (reply.name, reply.call_id, reply.error) == ("run_code", "c-7", None)
    assert reply.artifact["callId"] == "c-7"


def test_bash_is_run_as_bash(sandbox: Sandbox) -> None:
    """The language is the box's to run."""
    reply = call(sandbox, "run_code", code="echo $((6*7))", language="bash")
    assert reply.result is not None
    assert reply.result.stdout == "42\n"


def test_a_fault_is_an_error_and_an_exit_code_is_not(sandbox: Sandbox) -> None:
    """The status says who ended the run, not whether the code was any good."""
    stopped = call(
        sandbox, "run_code", code="import time; time.sleep(60)", timeout_s=0.5
    )
    assert stopped.text.startswith("fault: timeout")
    assert stopped.fault_type == "timeout"
    assert stopped.is_error
    failed = call(sandbox, "run_code", code="raise SystemExit(3)")
    assert failed.text.startswith("exit 3")
    assert not failed.is_error


def test_a_longer_timeout_than_allowed_is_shortened_and_told(sandbox: Sandbox) -> None:
    """The developer's bound holds, and the model knows."""
    reply = call(sandbox, "run_code", code="print(1)", timeout_s=3600)
    verdict, note, *_ = reply.text.split("\n")
    assert verdict.startswith("ok")
    assert note == "note: ran with timeout_s 5, the most that this sandbox allows."


@pytest.mark.parametrize("timeout_s", [1e-300, 1e-12, 0.0009])
def test_a_timeout_too_short_to_mean_anything_is_refused(
    sandbox: Sandbox, timeout_s: float
) -> None:
    """It is the model's mistake, so the model is told."""
    reply = call(sandbox, "run_code", code="1", timeout_s=timeout_s)
    assert reply.error == "bad_arguments"


def test_repairs_are_stated_under_the_verdict(sandbox: Sandbox) -> None:
    """The first line stays the verdict."""
    reply = tool_of(sandbox, "run_code").call('{"script":"```py\nprint(9)\n```",}')
    assert reply.result is not None
    assert reply.result.stdout == "9\n"
    verdict, *notes = reply.text.split("\n")[:5]
    assert verdict.startswith("ok")
    assert notes == [
        "note: accepted raw line breaks or tabs inside a JSON string.",
        "note: dropped a trailing comma from the JSON.",
        "note: read 'script' as `code`.",
        "note: took the code out of its markdown fence.",
    ]


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize(
    "arguments",
    ["[]", "NaN", '"x"', "{", 5, {"code": 5}, {"x\ud800": "\ud800"}, {"path": "a\0b"}],
)
def test_bad_arguments_are_answered(
    sandbox: Sandbox, name: str, arguments: object
) -> None:
    """One reply that can be sent, in which nothing ran."""
    reply = tool_of(sandbox, name).call(arguments, call_id="c-8")
    assert reply.text.startswith("bad arguments: nothing was run or changed.\n")
    assert "Send one JSON object with `" in reply.text
    assert (reply.error, reply.result, reply.call_id) == ("bad_arguments", None, "c-8")
    assert reply.is_error
    assert reply.artifact == {"fault": None, "error": "bad_arguments", "tool": name}
    assert reply.text.encode()


def test_bare_code_needs_the_developers_word(sandbox: Sandbox) -> None:
    """Text that is not JSON runs only where that was asked for."""
    assert tool_of(sandbox, "run_code").call("print(1)").error == "bad_arguments"
    (tool,) = tools_of(sandbox, "code", bare_code=True)
    result = tool.call("print(1)").result
    assert result is not None
    assert result.stdout == "1\n"


def test_an_unknown_tool_is_answered_with_those_there_are() -> None:
    """A name a model made up is quoted, whatever is in it."""
    reply = unknown_tool_reply("no\nsuch\ud800", TOOLS, call_id="c-9")
    assert "There is no tool 'no\\nsuch\\ud800'. Call one of these: `run_code`" in (
        reply.text
    )
    assert (reply.error, reply.call_id) == ("bad_arguments", "c-9")
    assert f"{reply.name}{reply.text}".encode()


def test_what_was_cut_can_be_read(clean: Sandbox) -> None:
    """The reply names the file that has all of it, and read_file takes the name."""
    reply = call(clean, "run_code", code=BIG)
    assert len(reply.text) <= 8000
    assert "all of it in .kern/out-c-7.txt" in reply.text
    assert call(clean, "list_files").text == "ok, 0 files"
    page = call(clean, "read_file", path=".kern/out-c-7.txt", limit=1)
    assert page.text.startswith("ok, line 1 of 4 in .kern/out-c-7.txt\n")


def test_a_chart_can_be_read_by_the_name_in_the_reply(clean: Sandbox) -> None:
    """It is a file for later calls and tools, and in no listing."""
    code = f"class Chart:\n    def _repr_png_(self): return {PNG!r}\nChart()"
    reply = call(clean, "run_code", code=code)
    assert reply.text.endswith("image 1: image/png 3x2, saved as .kern/img-c-7-1.png")
    assert call(clean, "list_files").text == "ok, 0 files"
    read = call(clean, "read_file", path=".kern/img-c-7-1.png")
    assert read.images == reply.images
    again = call(clean, "run_code", code="open('.kern/img-c-7-1.png', 'rb').read()")
    assert again.result is not None
    assert again.result.results[0].text == repr(PNG)


def test_an_artifact_is_bounded_and_the_result_is_whole() -> None:
    """What a checkpoint stores is small, states it, and reads back as a result."""
    with Sandbox(budget=Budget(artifact_chars=1000)) as sandbox:
        reply = call(sandbox, "run_code", code=BIG)
    assert reply.result is not None
    assert len(reply.result.stdout) == 100_001
    stored = result_of_artifact(json.loads(json.dumps(reply.artifact)))
    assert stored is not None
    assert stored == reply.stored
    assert stored.stdout == reply.result.stdout[:1000]
    assert (stored.truncated, stored.stdout_bytes) == (True, 100_001)


@pytest.mark.parametrize(
    "content", ["", "a\r\nb\r\n", "no end", "\ufeffé\0\x1b[31m", "```\n", "\r"]
)
def test_a_file_is_written_byte_for_byte(sandbox: Sandbox, content: str) -> None:
    """Line ends, NUL and escapes are the file's own."""
    reply = call(sandbox, "write_file", path="deep/er/a.txt", content=content)
    written = content.encode()
    assert reply.error is None
    assert reply.text.startswith("ok, wrote deep/er/a.txt, ")
    assert sandbox.read_file("deep/er/a.txt") == written
    ran = call(sandbox, "run_code", code="open('deep/er/a.txt', 'rb').read()")
    assert ran.result is not None
    assert ran.result.results[0].text == repr(written)


def test_text_is_read_by_lines(sandbox: Sandbox) -> None:
    """A page, where it stands, and how to read on."""
    sandbox.write_file("n.txt", "".join(f"{number}\n" for number in range(1, 101)))
    reply = call(sandbox, "read_file", path="/workspace/n.txt", offset=5, limit=2)
    assert reply.text == (
        "ok, lines 5-6 of 100 in /workspace/n.txt\n```\n5\n6\n```\n"
        "next: read on with offset 7."
    )


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (PNG, "image/png 3x2"),
        (GIF, "image/gif 5x4"),
        (JPEG, "image/jpeg 4x3"),
        (WEBP, "image/webp 7x9"),
        (WEBP_WIDE, "image/webp 7x9"),
        (WEBP_LOSSY, "image/webp 7x9"),
    ],
    ids=["png", "gif", "jpeg", "webp lossless", "webp extended", "webp lossy"],
)
def test_an_image_is_read_as_an_image(sandbox: Sandbox, data: bytes, what: str) -> None:
    """Its bytes say what it is, not its name; no base64 is in the text."""
    sandbox.write_file("odd.txt", data)
    reply = call(sandbox, "read_file", path="odd.txt")
    assert reply.text == f"ok, image 1: {what}, saved as odd.txt"
    assert [image.data for image in reply.images] == [data]
    assert what.startswith(reply.images[0].mime)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (PNG[:-4], "begins as image/png but is not shown"),
        (GIF[:-1], "begins as image/gif but is not shown"),
        (GIF[:13] + b"NETSCAPE2.0;", "begins as image/gif but is not shown"),
        (WEBP_MOVING, "not a complete, still image/webp"),
        (WEBP[:-1], "not a complete, still image/webp"),
        (GIF[:6] + b"\xff\xff" + GIF[8:], "65535x4, over 8,000 a side"),
        (
            b"\x7fELF\0\1\2",
            "is binary, 7 bytes; it is not shown as text\nfirst bytes: 7f",
        ),
    ],
    ids=[
        *("png cut", "gif cut", "gif animated", "webp animated", "webp cut"),
        *("too wide", "binary"),
    ],
)
def test_what_is_no_text_and_no_whole_image_is_described(
    sandbox: Sandbox, data: bytes, said: str
) -> None:
    """A provider that refuses one image refuses the whole conversation."""
    sandbox.write_file("odd.bin", data)
    reply = call(sandbox, "read_file", path="odd.bin")
    assert said in reply.text
    assert reply.images == ()


def test_an_image_over_the_budget_is_named() -> None:
    """Its size is told, and its bytes stay where they are."""
    with Sandbox(budget=Budget(image_bytes=10)) as sandbox:
        sandbox.write_file("a.png", PNG)
        reply = call(sandbox, "read_file", path="a.png")
    assert "not shown: over 10 bytes" in reply.text
    assert reply.images == ()


def test_a_huge_file_is_read_without_holding_it(sandbox: Sandbox) -> None:
    """A sparse file of a terabyte costs no more than any other."""
    call(sandbox, "run_code", code="open('big', 'wb').truncate(1 << 40)")
    reply = call(sandbox, "read_file", path="big")
    assert "big is binary, 1 TiB" in reply.text


def test_a_listing_is_bounded_and_its_total_true(clean: Sandbox) -> None:
    """A model is told how many there are, and shown some."""
    code = "for n in range(1000): open(f'f{n:04}', 'w').close()"
    call(clean, "run_code", code=code)
    reply = call(clean, "list_files")
    assert reply.text.startswith("ok, 1,000 files, the first 200 by name\n")
    assert len(reply.text) <= 8000
    assert "f0199" in reply.text
    assert "f0200" not in reply.text


def test_a_name_with_line_breaks_stays_on_its_line(clean: Sandbox) -> None:
    """A file's name cannot write lines of ours, and what is shown can be read."""
    clean.write_file("a\nok, 9 files\x1b[31m", "inside")
    reply = call(clean, "list_files")
    assert "\\x0aok, 9 files\\x1b[31m" in reply.text
    again = call(clean, "read_file", path="a\\x0aok, 9 files\\x1b[31m")
    assert fenced("inside") in again.text


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("read_file", {"path": "none.txt"}, "not_found"),
        ("read_file", {"path": "."}, "is_directory"),
        ("read_file", {"path": "../../etc/passwd"}, "outside"),
        ("read_file", {"path": "/etc/passwd"}, "outside"),
        ("read_file", {"path": "a" * 300}, "bad_path"),
        ("write_file", {"path": "/etc/x", "content": ""}, "outside"),
        ("write_file", {"path": "", "content": ""}, "bad_path"),
        ("list_files", {"path": "none"}, "not_found"),
    ],
)
def test_a_file_that_cannot_be_used_is_answered(
    sandbox: Sandbox, name: str, arguments: dict[str, Any], error: str
) -> None:
    """The code of the error is there for code, the words say what to do."""
    reply = call(sandbox, name, **arguments)
    assert reply.error == error
    assert reply.text.startswith(f"error: {error}. ")
    assert "\n" not in reply.text
    assert not reply.is_error


def test_a_link_planted_by_code_is_not_followed(clean: Sandbox) -> None:
    """The host's files are not the box's to hand out."""
    call(clean, "run_code", code="import os\nos.symlink('/etc/passwd', 'link')")
    reply = call(clean, "read_file", path="link")
    assert reply.error is not None
    assert "root:" not in reply.text


async def test_the_async_way_says_the_same(clean: Sandbox) -> None:
    """Every tool is natively async."""
    wrote = await tool_of(clean, "write_file").acall({"path": "a", "content": "x\n"})
    read = await tool_of(clean, "read_file").acall({"path": "a"})
    listed = await tool_of(clean, "list_files").acall(None)
    ran = await tool_of(clean, "run_code").acall({"code": "open('a').read()"})
    bad = await tool_of(clean, "run_code").acall("")
    assert wrote.text == "ok, wrote a, 2 bytes, 1 line"
    assert read.text == "ok, line 1 of 1 in a\n```\nx\n```"
    assert listed.text.split("\n")[:2] == [
        "ok, 1 file",
        "note: read empty arguments as {}.",
    ]
    assert ran.result is not None
    assert ran.result.results[0].text == r"'x\n'"
    assert bad.error == "bad_arguments"


async def test_a_cancelled_call_is_cancelled(clean: Sandbox) -> None:
    """Cancelling is not an answer: it goes through, and the sandbox stays usable."""
    tool = tool_of(clean, "run_code")
    code = "import time\nopen('up', 'w').close()\ntime.sleep(60)"
    task = asyncio.create_task(tool.acall({"code": code, "timeout_s": 5}))
    while not clean.list_files():
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await tool.acall({"code": "print(7)"})).text.startswith("ok")


def test_a_closed_sandbox_is_the_developers_to_mend() -> None:
    """A mistake of the house is raised, not told to the model."""
    with Sandbox() as sandbox:
        tools = tools_of(sandbox)
    for tool, arguments in zip(
        tools,
        ({"code": "1"}, {"path": "a"}, {"path": "a", "content": ""}, {}),
        strict=True,
    ):
        with pytest.raises(SandboxClosed):
            tool.call(arguments)
