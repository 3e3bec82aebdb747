"""A policy's watches, one for each conversation of a server's clients."""

from __future__ import annotations

from collections import OrderedDict

from kern_tools.faults import SandboxError
from kern_tools.policy import FaultPolicy, check_policy
from kern_tools.reply import Reply
from kern_tools.source import Source
from kern_tools.toolspec import Given
from kern_tools.watch import FaultWatch

KEPT = 1024
"""Conversations that are counted for; the one that called longest ago is forgotten."""


class Watches:
    """Finds the watch of each conversation; used in the server's event loop alone.

    A server is told nothing of a user's questions and cannot end a loop: what it can do
    is to refuse a call, and to count anew from then on.

    Args:
        policy: Whose bounds.
    """

    def __init__(self, policy: FaultPolicy) -> None:
        self._policy = check_policy("policy", policy)
        self._watches: OrderedDict[tuple[str, str], FaultWatch] = OrderedDict()

    async def of(self, source: Source, given: Given) -> FaultWatch:
        """Give the watch of a call's conversation; a new one where that has no id."""
        key = await _key(source, given)
        if key is None:
            return self._policy.start()
        found = self._watches.setdefault(key, self._policy.start())
        self._watches.move_to_end(key)
        while len(self._watches) > KEPT:
            self._watches.popitem(last=False)
        return found

    def note(self, watch: FaultWatch, reply: Reply) -> None:
        """Begin anew in a conversation that was told that its loop has ended."""
        if reply.error == "stopped":
            keys = [key for key, kept in self._watches.items() if kept is watch]
            for key in keys:
                del self._watches[key]


async def _key(source: Source, given: Given) -> tuple[str, str] | None:
    conversation = given.get("conversation")
    try:
        tenant = await source.atenant(conversation, given.get("offered"))
    except SandboxError:
        return None  # nothing will run, and the reply says why
    return None if conversation is None else (repr(tenant), repr(conversation))
