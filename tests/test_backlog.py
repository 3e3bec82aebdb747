"""What a slow listener still gets: bounded, whole characters, every loss told."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kern_tools.backlog import Backlog
from kern_tools.events import OutputEvent, StreamName
from kern_tools.streams import Listeners

MIB = 1 << 20


class Bell:
    """Counts how often a backlog woke its listener."""

    def __init__(self) -> None:
        self.rung = 0

    def __call__(self) -> None:
        """Ring."""
        self.rung += 1


def backlog(*, most_bytes: int | None = None) -> Backlog:
    """Make one that nobody waits for."""
    return Backlog("c1", Bell(), most_bytes=most_bytes)


def taken(log: Backlog) -> Iterator[OutputEvent]:
    """Take all there is."""
    while (event := log.take()) is not None:
        yield event


def heard(events: list[OutputEvent], stream: StreamName = "stdout") -> tuple[str, int]:
    """Join one stream's text and add up its losses."""
    mine = [event for event in events if event.stream == stream]
    return "".join(e.text for e in mine), sum(e.dropped_bytes for e in mine)


@given(data=st.binary(), cuts=st.lists(st.integers(0, 40), max_size=8))
def test_text_is_that_of_the_whole_stream(data: bytes, cuts: list[int]) -> None:
    """However the bytes were cut, also inside a character, and however bad they are."""
    log, events = backlog(), list[OutputEvent]()
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for begin, end in pairwise(places):
        log.put("stdout", data[begin:end])
        events += taken(log)
    log.end()
    events += taken(log)
    assert heard(events) == (data.decode(errors="replace"), 0)


def test_pieces_keep_the_order_of_arrival() -> None:
    """Neighbours of one stream become one piece."""
    log = backlog()
    log.put("stdout", b"a")
    log.put("stdout", b"b")
    log.put("stderr", b"c")
    log.put("stdout", b"d")
    assert list(taken(log)) == [
        OutputEvent("c1", "stdout", "ab"),
        OutputEvent("c1", "stderr", "c"),
        OutputEvent("c1", "stdout", "d"),
    ]


def test_a_character_waits_until_it_is_whole() -> None:
    """Half of one is no event; what the other stream writes between does not harm."""
    log = backlog()
    log.put("stdout", "é".encode()[:1])
    assert log.take() is None
    log.put("stderr", b"x")
    log.put("stdout", "é".encode()[1:])
    assert [event.text for event in taken(log)] == ["x", "é"]


def test_half_a_character_at_the_end_is_replaced() -> None:
    """As in the result."""
    log = backlog()
    log.put("stdout", "aé".encode()[:-1])
    log.end()
    assert heard(list(taken(log))) == ("a\ufffd", 0)
    assert log.is_over


@pytest.mark.parametrize("shift", range(4))
def test_what_does_not_fit_is_told_and_cuts_no_character(shift: int) -> None:
    """Text and loss add up to all that was written."""
    log = backlog()
    data = b"x" * shift + "🙂".encode() * MIB
    for begin in range(0, len(data), 9999):
        log.put("stdout", data[begin : begin + 9999])
    log.end()
    text, dropped_bytes = heard(list(taken(log)))
    assert set(text) == {"🙂"} | ({"x"} if shift else set())
    assert len(text.encode()) + dropped_bytes == len(data)
    assert len(text.encode()) <= MIB


def test_a_loss_is_told_with_the_piece_that_follows_it() -> None:
    """The listener knows where the gap is."""
    log = backlog()
    log.put("stdout", b"a" * (2 * MIB))
    before = list(taken(log))
    log.put("stdout", "é".encode()[1:] + b"b")
    (after,) = taken(log)
    lost = 2 * MIB - len(heard(before)[0])
    assert (after.text, after.dropped_bytes) == ("b", lost + 1)
    assert {event.dropped_bytes for event in before} == {0}


def test_a_loss_on_the_way_is_told_and_is_no_text() -> None:
    """Who hears events is told how much; who hears text is not called without any."""
    listeners = Listeners("c1")
    texts: list[str] = []
    events: list[OutputEvent] = []
    listeners.add_text("stdout", texts.append)
    listeners.add_output(events.append, MIB)
    listeners.lose("stdout", 5)
    listeners.start()
    listeners.end()
    listeners.hear_out()
    assert (texts, heard(events), heard(events, "stderr")) == ([], ("", 5), ("", 0))


def test_after_a_loss_there_is_room_again_once_half_was_taken() -> None:
    """Else a slow listener would get crumbs between gaps."""
    log = backlog()
    log.put("stdout", b"a" * (2 * MIB))
    assert log.take() is not None
    log.put("stdout", b"b")
    assert "b" not in heard(list(taken(log)))[0]
    log.put("stdout", b"c")
    assert heard(list(taken(log)))[0] == "c"


def test_many_small_pieces_are_bounded_too() -> None:
    """What a piece costs beside its text counts."""
    log = backlog()
    for _ in range(MIB // 64):
        log.put("stdout", b"o")
        log.put("stderr", b"e")
    log.end()
    events = list(taken(log))
    assert len(events) < MIB // 128
    assert sum(heard(events, "stdout")[1:]) > 0


def test_a_bound_ends_each_stream_where_the_result_does() -> None:
    """A character that it cuts is left out whole; the rest is told as lost."""
    log = backlog(most_bytes=5)
    for _ in range(10):
        log.put("stdout", "é".encode())
    log.put("stderr", b"ok")
    log.end()
    events = list(taken(log))
    assert heard(events) == ("éé", 16)
    assert heard(events, "stderr") == ("ok", 0)


def test_a_listener_is_woken_once_for_all_that_waits() -> None:
    """A flood does not flood its event loop."""
    bell = Bell()
    log = Backlog("c1", bell)
    for _ in range(100):
        log.put("stdout", b"a" * MIB)
    assert bell.rung == 1
    assert list(taken(log))
    log.put("stdout", b"a")
    log.end()
    assert bell.rung == 3


def test_after_it_was_dropped_nothing_is_kept() -> None:
    """Nobody listens any more."""
    log = backlog()
    log.put("stdout", b"abc")
    assert log.drop() == 3
    log.put("stdout", b"d")
    assert (log.take(), log.is_over) == (None, True)
