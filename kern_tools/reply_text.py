"""Replies of text alone, and the lines that are put into replies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .escaping import escape, escape_line
from .reply import Reply, TextPart


def bad_arguments(name: str, problem: str, call_id: str | None = None) -> Reply:
    """Tell the model that its arguments cannot be used, and what to send.

    Args:
        name: The tool that was called.
        problem: What was wrong and what to send.
        call_id: The framework's id of the call.

    Returns:
        The reply, with `error="bad_arguments"`.
    """
    return text_reply(
        name,
        f"bad arguments: nothing was run or changed.\n{escape(problem)}",
        call_id,
        error="bad_arguments",
    )


def text_reply(
    name: str, text: str, call_id: str | None, *, error: str | None = None
) -> Reply:
    """Make a reply of text alone, for a call that ran no code."""
    return Reply(name=name, parts=(TextPart(text),), error=error, call_id=call_id)


def with_notes(reply: Reply, notes: Sequence[str]) -> Reply:
    """State in a reply what was changed about its call.

    Args:
        reply: The reply; its first part is text, whose first line is the verdict.
        notes: Clauses, each to become a line under the verdict.

    Returns:
        The reply with those lines, or itself where there are none.
    """
    if not notes:
        return reply
    first, *others = reply.parts
    assert isinstance(first, TextPart)
    verdict, *rest = first.text.split("\n", 1)
    lines = [verdict, *note_lines(notes), *rest]
    return replace(reply, parts=(TextPart("\n".join(lines)), *others))


def note_lines(notes: Sequence[str]) -> list[str]:
    """Write clauses as the lines that `with_notes` puts into a reply."""
    return [f"note: {escape_line(note)}." for note in notes]
