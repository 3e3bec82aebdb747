"""Whatever a model writes as arguments is read as it was meant, or refused in words.

The oracle is the value that was written down in the first place: a spelling of it may
be read or be refused, and never becomes another value.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kern_tools.arguments import VALUE_MAX_BYTES, Read, read_arguments
from kern_tools.reply_text import bad_arguments
from kern_tools.tools import TOOLS, ToolSpec

from .depth import in_depth
from .hostile_text import ANY_TEXT, STREAM_TEXT
from .safe_form import safe_form

PROBLEM_MAX_CHARS = 4_000
"""Far more than the words about eight unknown names of sixty characters need."""

Arguments = dict[str, Any]

SPECS = st.sampled_from(list(TOOLS.values()))
NAMES = sorted(
    {name for spec in TOOLS.values() for name in spec.arguments.model_fields}
)
KEYS = st.sampled_from([*NAMES, "script", "file", "timeout", "image", "ctx"]) | ANY_TEXT
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | ANY_TEXT
    | st.sampled_from(["python", "sh", "ruby", "5", "1e999", "/etc/passwd", "../x"])
)
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=8,
)
WRITE_FILE = st.fixed_dictionaries(
    {"path": st.sampled_from(["a.txt", "d/e.py"]), "content": STREAM_TEXT}
)
COMMAND = st.fixed_dictionaries(
    {"command": STREAM_TEXT.filter(lambda text: "\0" not in text)},
    optional={"timeout_s": st.none() | st.integers(1, 60)},
)


def read(spec: ToolSpec, raw: object, *, bare_code: bool = False) -> Read[Any]:
    """Read arguments as a tool does."""
    return read_arguments(
        raw, spec.arguments, code_field=spec.code_field, bare_code=bare_code
    )


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=True)


def _with_raw_breaks(value: object) -> str:
    return _as_json(value).replace(r"\n", "\n").replace(r"\t", "\t")


SPELLINGS: dict[str, Callable[[object], str]] = {
    "plain": lambda value: json.dumps(value, ensure_ascii=False),
    "escaped": _as_json,
    "indented": lambda value: json.dumps(value, indent=3),
    "in a fence": lambda value: f"```json\n{_as_json(value)}\n```",
    "in a fence with words": lambda value: f"Here:\n```\n{_as_json(value)}\n```\nDone.",
    "encoded twice": lambda value: _as_json(_as_json(value)),
    "a comma too many": lambda value: f"{_as_json(value)[:-1]},}}",
    "raw line breaks": _with_raw_breaks,
    "with a mark in front": lambda value: f"\ufeff{_as_json(value)}",
    "twice": lambda value: _as_json(value) * 2,
    "blanks around": lambda value: f"\n\t {_as_json(value)} \r\n",
}
"""What models make of one value."""


@in_depth
@given(
    SPECS,
    TREES
    | TREES.map(lambda tree: json.dumps(tree, ensure_ascii=False))
    | ANY_TEXT
    | ANY_TEXT.map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.binary(max_size=40)
    | st.just(object()),
    st.booleans(),
)
def test_anything_is_read_or_refused(
    spec: ToolSpec, raw: object, bare_code: bool
) -> None:
    """Nothing raises, and what is read can be run, stored and sent."""
    found = read(spec, raw, bare_code=bare_code)
    if found.arguments is None:
        assert found.problem
        _assert_words(spec, found.problem)
        return
    assert found.problem is None
    values = found.arguments.model_dump()
    assert spec.arguments.model_validate(values) == found.arguments
    for name, value in values.items():
        if isinstance(value, str):
            assert len(value.encode()) <= VALUE_MAX_BYTES
            assert name != spec.code_field or "\0" not in value


def _assert_words(spec: ToolSpec, problem: str) -> None:
    text = bad_arguments(spec.name, problem).text
    assert text.split("\n")[0] == "bad arguments: nothing was run or changed."
    assert text == safe_form(text)
    assert len(problem) < PROBLEM_MAX_CHARS


@in_depth
@given(WRITE_FILE, st.sampled_from(sorted(SPELLINGS)))
def test_no_spelling_changes_what_is_written(meant: Arguments, way: str) -> None:
    """A file gets the bytes that were meant, or none."""
    found = read(TOOLS["write_file"], SPELLINGS[way](meant))
    if found.arguments is not None:
        assert found.arguments.model_dump() == meant
    else:
        assert way in ("twice", "with a mark in front", "in a fence", "raw line breaks")


@in_depth
@given(COMMAND, st.sampled_from(sorted(SPELLINGS)))
def test_a_command_is_run_as_it_was_meant_or_says_what_was_undone(
    meant: Arguments, way: str
) -> None:
    """What is left out of a command was a wrapping around it, and is told."""
    found = read(TOOLS["run_command"], SPELLINGS[way](meant))
    if found.arguments is None:
        return
    ran = found.arguments.command
    assert ran == meant["command"] or found.repairs
    assert ran in meant["command"] or _is_nested(ran, meant["command"])


def _is_nested(ran: str, command: str) -> bool:
    """Say whether a command was JSON of arguments, in which the one that ran stood."""
    return json.dumps(ran, ensure_ascii=False)[1:-1] in command or (
        _as_json(ran)[1:-1] in command
    )


@in_depth
@given(
    WRITE_FILE,
    st.sampled_from(["plain", "escaped", "indented", "raw line breaks"]),
    st.data(),
)
def test_arguments_that_were_cut_off_change_nothing(
    meant: Arguments, way: str, data: st.DataObject
) -> None:
    """No beginning of a call is taken for the call."""
    whole = SPELLINGS[way](meant).rstrip()
    end = data.draw(st.integers(0, len(whole) - 1))
    assert read(TOOLS["write_file"], whole[:end]).arguments is None


@in_depth
@given(WRITE_FILE, KEYS, LEAVES)
def test_what_was_not_asked_for_is_refused(
    meant: Arguments, key: str, value: object
) -> None:
    """A further property is never dropped in silence."""
    known = read(TOOLS["write_file"], {**meant, key: value})
    if key in meant:
        return
    assert known.arguments is None
    assert known.problem is not None
