"""What the tools for files share: how a path is taken, and how an error is answered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Annotated, Any
from weakref import WeakKeyDictionary

from pydantic import AfterValidator

from .escaping import escape_line
from .faults import WorkspaceError
from .names import shown_name
from .reply import Reply
from .reply_text import text_reply
from .sandbox import Sandbox
from .toolspec import Arguments, ToolSpec
from .workspace import Workspace

_SHOWN_MAX_CHARS = 160
_LOCKS: WeakKeyDictionary[Workspace, threading.Lock] = WeakKeyDictionary()

Do = Callable[[Sandbox, Any, str | None], Reply]


def without_nul(path: str) -> str:
    """Refuse a NUL, which no file name has."""
    position = path.find("\0")
    if position >= 0:
        raise ValueError(
            f"holds a NUL at character {position + 1}, which no file name has"
        )
    return path


FilePath = Annotated[str, AfterValidator(without_nul)]


def file_tool(
    name: str, arguments: type[Arguments], do: Do, *, in_thread: bool = True
) -> ToolSpec:
    """Make a tool that uses files on the host's side, without a box.

    Args:
        name: The tool.
        arguments: Its argument model.
        do: Does it; `WorkspaceError` is answered here.
        in_thread: The async way leaves the event loop free; not for what writes, since
            a thread would go on writing after its call was cancelled.
    """

    def run(
        sandbox: Sandbox, given: Any, call_id: str | None, _: object = None
    ) -> Reply:
        try:
            return do(sandbox, given, call_id)
        except WorkspaceError as error:
            return refused(name, error, call_id)

    async def arun(
        sandbox: Sandbox, given: Any, call_id: str | None, _: object = None
    ) -> Reply:
        if in_thread:
            return await asyncio.to_thread(run, sandbox, given, call_id)
        return run(sandbox, given, call_id)

    return ToolSpec(name=name, arguments=arguments, run=run, arun=arun)


def only_writer(workspace: Workspace) -> threading.Lock:
    """Give the lock for writing: calls run side by side, none may undo another."""
    return _LOCKS.setdefault(workspace, threading.Lock())


def refused(name: str, error: WorkspaceError, call_id: str | None) -> Reply:
    """Answer with what cannot be done and why, in one line."""
    said = str(error)
    text = f"error: {error.code}. {said[0].upper()}{said[1:]}."
    return text_reply(name, escape_line(text), call_id, error=error.code)


def shown_path(path: str) -> str:
    """Spell what a model gave as a path, in one line of bounded length."""
    shown = shown_name(path)
    if len(shown) <= _SHOWN_MAX_CHARS:
        return shown
    half = _SHOWN_MAX_CHARS // 2
    return f"{shown[:half]}...{shown[-half:]}"
