"""What an actor answers: a value, or an error as data.

Ray pickles exceptions by calling their class with the message alone, which loses what
ours carry beside it: `code`, `fault`, `option`, `path`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RemoteCall:
    """One call, on its way to an actor.

    Attributes:
        token: Names it between this process and the actor.
        is_command: It runs a program; else code.
        given: Code and language, or the words of a command.
        timeout_s: Its limit in seconds, or None.
        call_id: Its id.
    """

    token: int
    is_command: bool
    given: tuple[str, ...]
    timeout_s: float | None
    call_id: str | None


@dataclass(frozen=True, slots=True)
class Told:
    """An answer.

    Attributes:
        value: Where all went well.
        error: Class, arguments and attributes of what was raised.
        stopped: The call was ended because this process asked for it.
    """

    value: Any = None
    error: tuple[type[BaseException], tuple[Any, ...], dict[str, Any]] | None = None
    stopped: bool = False

    @classmethod
    def of(cls, error: BaseException) -> Told:
        """Take an error apart; its traceback and cause stay behind."""
        if isinstance(error, asyncio.CancelledError):
            return cls(stopped=True)
        return cls(error=(type(error), error.args, dict(vars(error))))

    def opened(self) -> Any:
        """Give the value, or raise the error.

        Raises:
            BaseException: What was raised on the node.
        """
        if self.stopped:
            raise asyncio.CancelledError
        if self.error is None:
            return self.value
        kind, arguments, attributes = self.error
        error = kind.__new__(kind, *arguments)
        vars(error).update(attributes)
        raise error


async def told(answer: Awaitable[object]) -> Told:
    """Await an answer, and say how it went."""
    try:
        return Told(await answer)
    except (Exception, asyncio.CancelledError) as error:
        return Told.of(error)
