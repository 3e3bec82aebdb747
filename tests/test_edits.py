"""Replacements in bytes, and the lines they change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kern_tools.edits import SPOTS_MAX, Ambiguous, Edit, NotFound, TooLarge, edit
from kern_tools.nearest import NEAREST_MAX_CHARS, nearest

MAX_BYTES = 1 << 20
BYTES = st.text("ab\n\r", max_size=60).map(str.encode)


def lines(data: bytes) -> list[bytes]:
    """Split at line feeds, which the lines keep."""
    *whole, last = data.split(b"\n")
    return [line + b"\n" for line in whole] + ([last] if last else [])


def patched(data: bytes, done: Edit) -> bytes:
    """Apply the hunks to the old file, as `patch` would."""
    old, new = lines(data), list[bytes]()
    at = 0
    for hunk in done.hunks:
        new += old[at : hunk.old_line - 1]
        at = hunk.old_line - 1
        assert len(new) == hunk.new_line - 1
        for mark, line in hunk.rows:
            if mark != "+":
                assert old[at] == line
                at += 1
            if mark != "-":
                new.append(line)
    return b"".join([*new, *old[at:]])


@given(before=BYTES, old=BYTES.filter(bool), after=BYTES, new=BYTES)
def test_the_hunks_are_a_patch(
    before: bytes, old: bytes, after: bytes, new: bytes
) -> None:
    """Applied to the old file they give the new one, and no line is both."""
    data = before + old + after
    done = edit(data, old, new, everywhere=True, max_bytes=MAX_BYTES)
    assert done.content == data.replace(old, new)
    assert patched(data, done) == done.content
    assert done.count == data.count(old) == len(done.lines)


def test_only_lines_that_differ_are_marked() -> None:
    """What the model wrote around its change is context."""
    data = b"a\nb\nc\nd\n"
    done = edit(data, b"a\nb\nc", b"a\nB\nc", everywhere=False, max_bytes=MAX_BYTES)
    (hunk,) = done.hunks
    assert [mark for mark, _ in hunk.rows] == [" ", "-", "+", " ", " "]
    assert (hunk.old_line, hunk.new_line) == (1, 1)
    assert (hunk.lines_of("-"), hunk.lines_of("+")) == (4, 4)


def test_many_places_are_replaced_and_the_first_are_told() -> None:
    """The last hunk told shows no place as it is not."""
    data = b"x\n\n\n\n\n\n" * (SPOTS_MAX * 3)
    done = edit(data, b"x", b"y", everywhere=True, max_bytes=MAX_BYTES)
    assert done.count == SPOTS_MAX * 3
    assert len(done.lines) == SPOTS_MAX
    assert 0 < len(done.hunks) <= SPOTS_MAX
    assert all((" ", b"x\n") not in hunk.rows for hunk in done.hunks)
    close = edit(
        data.replace(b"\n\n", b"\n"), b"x", b"y", everywhere=True, max_bytes=MAX_BYTES
    )
    assert all((" ", b"x\n") not in hunk.rows for hunk in close.hunks)


def test_what_cannot_be_done_is_told_apart() -> None:
    """Each has an answer of its own."""
    with pytest.raises(NotFound):
        edit(b"a", b"b", b"c", everywhere=True, max_bytes=10)
    with pytest.raises(TooLarge):
        edit(b"a", b"a", b"b" * 11, everywhere=True, max_bytes=10)
    with pytest.raises(Ambiguous) as caught:
        edit(b"aaa\naa", b"aa", b"b", everywhere=False, max_bytes=10)
    assert (caught.value.count, caught.value.lines) == (3, (1, 1, 2))


@given(text=st.text("ab \n\r\\n", max_size=60), old=st.text("ab \n\r\\n", max_size=20))
def test_what_is_nearest_is_in_the_file(text: str, old: str) -> None:
    """Lines that are named are there."""
    found = nearest(text, old)
    if found is not None:
        assert 1 <= found.first <= found.last <= text.count("\n") + 1


def test_nothing_is_near_in_a_huge_file() -> None:
    """Looking for it would take longer than the model's next try."""
    text = "a  b\n" + "x" * (NEAREST_MAX_CHARS - 5)
    assert nearest(text, "a b") is not None
    assert nearest(text + "x", "a b") is None
