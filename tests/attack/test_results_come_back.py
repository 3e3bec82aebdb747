"""A result is the same after every way in which it is stored or sent.

What code printed may look like the storage itself: keys of JSON, pointers of a wire
format, constructors of a framework.
"""

from __future__ import annotations

import base64
import json
import struct

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import ToolMessage, messages_from_dict, messages_to_dict
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from llama_index.core.tools import ToolOutput
from mcp.types import CallToolResult

from kern_tools.adapters import langchain, llama_index, mcp
from kern_tools.adapters.mcp.wire import Wire
from kern_tools.config import Budget
from kern_tools.faults import FaultType, SandboxFault
from kern_tools.frames import rich_result
from kern_tools.reply import (
    ImagePart,
    Reply,
    TextPart,
    bounded,
    result_of_artifact,
)
from kern_tools.result import ExecutionResult, FileInfo, RichResult

from .depth import in_depth
from .few_fields import few_fields
from .hostile_text import STREAM_TEXT

IMAGE = base64.b64encode(
    b"\x89PNG\r\n\x1a\n"
    + struct.pack(">I4sII", 13, b"IHDR", 1, 1)
    + b"\0\0\0\0IEND\xaeB`\x82"
).decode("ascii")
LOOKS_STORED = st.sampled_from(
    [
        *("/content/0/data", "/content/1/data", "/content/2/data", IMAGE),
        *('{"exitCode": 0}', "exitCode", '{"lc": 1, "type": "constructor"}'),
        *('{"__type__": "x"}', "data:image/png;base64,AAAA", "[]", "null"),
    ]
)
TEXT = STREAM_TEXT | LOOKS_STORED
MIMES = (
    st.sampled_from(["text/plain", "text/html", "application/json", "image/svg+xml"])
    | STREAM_TEXT
).filter(lambda mime: not (mime.startswith("image/") and mime != "image/svg+xml"))
_FORMS = st.dictionaries(MIMES, TEXT, max_size=2)
VALUES = st.builds(
    RichResult, data=_FORMS | _FORMS.map(lambda forms: {**forms, "image/png": IMAGE})
).filter(lambda value: bool(value.data))
_FLAGS = ("truncated", "lossy", "warm", "limits_enforced")
_STATE = ("state_lost", "state_new", "files_lost")
_SIZES = ("stdout_bytes", "stderr_bytes", "duration_ms", "queued_ms", "start_ms")
_COUNTS = ("attempts", "repeats", "files_omitted", "results_omitted")
RESULTS = few_fields(
    ExecutionResult,
    {"stdout": TEXT, "code_stderr": TEXT},
    {
        "runtime_notes": st.lists(TEXT, max_size=2),
        "exit_code": st.integers(-(1 << 31), 1 << 31),
        "signal": st.integers(1, 64),
        "fault": st.builds(
            SandboxFault,
            type=st.sampled_from(FaultType) | TEXT,
            message=TEXT,
            reason=st.none() | TEXT,
            retryable=st.booleans(),
            actor=st.sampled_from(["model", "operator"]),
        ),
        "files": st.lists(
            st.builds(FileInfo, path=TEXT, size=st.integers(0, 1 << 60)), max_size=3
        ),
        "results": st.lists(VALUES, max_size=3),
        "call_id": TEXT,
        "raised_timeout_s": st.floats(0, 1e6),
        **dict.fromkeys((*_FLAGS, *_STATE), st.booleans()),
        **dict.fromkeys(_SIZES, st.integers(0, 1 << 60)),
        **dict.fromkeys(_COUNTS, st.integers(1, 99)),
    },
)


def reply_of(result: ExecutionResult) -> Reply:
    """Make a reply that carries all images of a result."""
    images = [ImagePart("image/png", v.png) for v in result.results if v.png]
    text = TextPart(result.stdout or "ok")
    return Reply(name="run_code", parts=(text, *images), result=result)


@in_depth
@given(RESULTS, st.booleans(), st.booleans())
def test_json_of_either_spelling_reads_back(
    result: ExecutionResult, by_alias: bool, ensure_ascii: bool
) -> None:
    """Keys of either case, escaped or not, as text or as a dict."""
    plain = result.model_dump(mode="json", by_alias=by_alias)
    written = json.dumps(plain, ensure_ascii=ensure_ascii)
    assert ExecutionResult.model_validate(json.loads(written)) == result
    assert ExecutionResult.model_validate_json(written.encode()) == result
    said = result.model_dump_json(by_alias=by_alias)
    assert json.loads(said) == plain


@in_depth
@given(RESULTS)
def test_each_framework_stores_it_unchanged(result: ExecutionResult) -> None:
    """Messages, checkpoints, events and answers give back what the call produced."""
    reply = reply_of(result)
    message = ToolMessage(reply.text, artifact=reply.artifact, tool_call_id="c1")
    (copied,) = messages_from_dict(json.loads(json.dumps(messages_to_dict([message]))))
    assert langchain.result_of(copied) == result
    kept = JsonPlusSerializer()
    assert langchain.result_of(kept.loads_typed(kept.dumps_typed(message))) == result
    output = ToolOutput(
        tool_name="run_code",
        content=reply.text,
        raw_input={},
        raw_output=reply.artifact,
        is_error=reply.is_error,
    )
    again = ToolOutput.model_validate_json(output.model_dump_json())
    assert llama_index.result_of(again) == result
    assert (again.content, again.is_error) == (reply.text, reply.is_error)


@in_depth
@given(RESULTS, st.booleans())
def test_an_answer_of_mcp_gives_it_back(
    result: ExecutionResult, structured: bool
) -> None:
    """Images go once, by a pointer, and no text of the code is taken for one."""
    answer = Wire(structured=structured).answer(reply_of(result))
    line = json.dumps(answer)
    assert "\n" not in line
    on_wire = CallToolResult.model_validate_json(line)
    assert mcp.result_of(on_wire) == result
    assert mcp.result_of(json.loads(line)) == result


@in_depth
@given(RESULTS, st.integers(0, 99), st.integers(0, 200))
def test_a_bounded_result_is_its_own_bound(
    result: ExecutionResult, chars: int, most_bytes: int
) -> None:
    """Cut once, it is stored and cut again without any loss."""
    budget = Budget(artifact_chars=chars, artifact_bytes=most_bytes)
    stored = bounded(result, budget)
    reply = Reply(name="x", parts=(TextPart("x"),), result=result, stored=stored)
    assert result_of_artifact(json.loads(json.dumps(reply.artifact))) == stored
    assert result.stdout.startswith(stored.stdout)
    assert result.code_stderr.startswith(stored.code_stderr)
    assert (stored.fault, stored.exit_code) == (result.fault, result.exit_code)
    cut = (result.stdout, result.code_stderr) != (stored.stdout, stored.code_stderr)
    assert stored.truncated or not cut
    again = bounded(stored, budget)
    assert (again.stdout, again.results) == (stored.stdout, stored.results)


def _framed(forms: list[tuple[bytes, bytes]]) -> bytes:
    return b"".join(b"%s\0%d\0%s" % (mime, len(text), text) for mime, text in forms)


@in_depth
@given(
    st.binary(max_size=60)
    | st.lists(
        st.tuples(
            st.sampled_from([b"text/plain", b"image/png", b"a", b"\xff"]),
            st.binary(max_size=9) | st.just(IMAGE.encode()),
        ),
        max_size=4,
    ).map(_framed)
)
def test_any_bytes_of_a_box_are_a_value_or_none(payload: bytes) -> None:
    """What is taken from a cell's socket can be encoded, and images are base64."""
    value = rich_result(payload)
    if value is not None:
        assert RichResult.model_validate_json(value.model_dump_json()) == value
        for mime, text in value.data.items():
            if mime.startswith("image/") and mime != "image/svg+xml":
                assert base64.b64decode(text, validate=True) is not None
