"""What was told of an agent's run, in order: what it said, called, and how it ended.

Events come in one at a time and change one entry each, or add one, so that a display
need draw no more than that.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .events import OutputEvent, StreamName
from .loop_events import (
    CallFinished,
    CallStarted,
    LoopEvent,
    LoopFinished,
    TextPiece,
    TurnStarted,
)
from .reply import Reply

HELD_MAX_CHARS = 20_000
"""How much of each stream is held while a call runs: its end. Its result has it all."""

UNNAMED = "call"
"""What a call is titled that came without the name of a tool."""


@dataclass(slots=True, eq=False)
class Said:
    """What the model says in a turn, up to its calls; empty where it only calls.

    Attributes:
        turn: The turn's number.
        text: All of it so far.
    """

    turn: int
    text: str = ""


@dataclass(slots=True, eq=False)
class Called:
    """One call.

    Attributes:
        call_id: Its id; empty where it is not known.
        tool: The name that the model wrote.
        written: The arguments as the model wrote them; None where that is not known.
        reply: What came of it, or None while it runs.
        duration_ms: How long it took, or None while it runs.
        streams: The end of what it wrote so far, by the stream's name.
        output_id: The id on its output, where that is another one.
    """

    call_id: str
    tool: str
    written: str | None
    reply: Reply | None = None
    duration_ms: float | None = None
    streams: dict[StreamName, str] = field(default_factory=dict[StreamName, str])
    output_id: str | None = None

    def hear(self, event: OutputEvent) -> None:
        """Take in a piece of output."""
        heard = self.streams.get(event.stream, "") + event.text
        self.streams[event.stream] = heard[-HELD_MAX_CHARS:]


@dataclass(slots=True, eq=False)
class Ended:
    """The end of a loop.

    Attributes:
        finished: What was told of it.
        elapsed_s: How long the loop took, where that is known.
    """

    finished: LoopFinished
    elapsed_s: float | None = None


Entry = Said | Called | Ended


class RunRecord:
    """The entries of a run, in order.

    Attributes:
        entries: All so far.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._turn = 0

    @property
    def calls(self) -> list[Called]:
        """The calls, in the order in which they started."""
        return [entry for entry in self.entries if isinstance(entry, Called)]

    def tell(self, event: LoopEvent) -> Entry | None:
        """Take in an event; the turn 0 is the next one, or the one that goes on.

        Returns:
            The entry that it added or changed; None where it belongs to no call.
        """
        match event:
            case TurnStarted(turn=turn):
                self._turn = turn or self._turn + 1
                return self._add(Said(self._turn))
            case TextPiece(turn=turn, text=text):
                return self._say(turn or self._turn, text)
            case CallStarted(call_id=call_id, tool=tool, arguments=written):
                return self._add(Called(call_id, tool, written))
            case OutputEvent():
                return self._hear(event)
            case CallFinished():
                return self._finish(event)
            case LoopFinished():
                return self._add(Ended(event))

    def _add(self, entry: Entry) -> Entry:
        self.entries.append(entry)
        return entry

    def _say(self, turn: int, text: str) -> Entry:
        last = self.entries[-1] if self.entries else None
        if not isinstance(last, Said) or last.turn != turn:
            return self._add(Said(turn, text))
        last.text += text
        return last

    def _running(self) -> list[Called]:
        """The calls that run; the latest first, for an id may be used again."""
        return [call for call in reversed(self.calls) if call.reply is None]

    def _hear(self, event: OutputEvent) -> Entry | None:
        call = self._writer(event)
        if call is not None:
            call.hear(event)
        return call

    def _writer(self, event: OutputEvent) -> Called | None:
        """Find the call that wrote; None where it could be any of several."""
        running = self._running()
        for call in running:
            if event.call_id in (call.call_id, call.output_id):
                return call
        if not running:  # told by a call of its own, such as `stream_code`
            call = Called(event.call_id, UNNAMED, None)
            self.entries.append(call)
            return call
        if len(running) == 1 and running[0].output_id is None:
            # LlamaIndex tells a tool no id; of a call that runs alone it is.
            running[0].output_id = event.call_id
            return running[0]
        return None

    def _finish(self, event: CallFinished) -> Entry:
        for call in self._running():
            if (call.call_id, call.tool) == (event.call_id, event.tool):
                break
        else:
            call = Called(event.call_id, event.tool, None)
            self.entries.append(call)
        call.reply, call.duration_ms = event.reply, event.duration_ms
        return call
