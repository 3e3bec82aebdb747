"""What an actor is asked, and what it answers: a value, or an error as data.

Ray pickles exceptions by calling their class with the message alone, which loses what
ours carry beside it: `code`, `fault`, `option`, `path`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Whose = Literal["sandbox", "files", "held"]


@dataclass(frozen=True, slots=True)
class RemoteCall:
    """One call, on its way to an actor.

    Attributes:
        is_command: It runs a program; else code.
        given: Code and language, or the words of a command.
        timeout_s: Its limit in seconds, or None.
        call_id: Its id.
        is_heard: What it writes is to be told while it runs.
    """

    is_command: bool
    given: tuple[str, ...]
    timeout_s: float | None
    call_id: str
    is_heard: bool


@dataclass(frozen=True, slots=True)
class RemoteAsk:
    """A method of something that the actor has.

    Attributes:
        of: Whose method: the sandbox's, its workspace's, or of the files held open.
        method: Its name.
        arguments: Those by position.
        options: Those by name.
    """

    of: Whose
    method: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Told:
    """An answer.

    Attributes:
        value: Where all went well.
        error: Class, arguments and attributes of what was raised.
    """

    value: Any = None
    error: tuple[type[BaseException], tuple[Any, ...], dict[str, Any]] | None = None

    @classmethod
    def of(cls, error: BaseException) -> Told:
        """Take an error apart; its traceback and cause stay behind."""
        return cls(error=(type(error), error.args, dict(vars(error))))

    def opened(self) -> Any:
        """Give the value, or raise the error.

        Raises:
            BaseException: What was raised on the node.
        """
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
    except Exception as error:
        return Told.of(error)
