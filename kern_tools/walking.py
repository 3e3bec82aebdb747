"""Walk a tree that changes under the walk, never following a link.

At most `_KEPT_OPEN` directories are open at a time, however deep a tree was made.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from .descriptors import open_directory
from .names import DEPTH_LIMIT, PRIVATE_DIR, TEMPORARY_PREFIX

_KEPT_OPEN = 8
_CHUNK_ENTRIES = 4096


class Found(NamedTuple):
    """Some entries of one directory, while its descriptor is open."""

    prefix: str
    descriptor: int
    entries: list[os.DirEntry[str]]
    first: bool


class Walk:
    """One pass over the directories below a descriptor.

    Iterating gives every entry that is not a directory, in chunks. `enter` is called
    with the prefix and the descriptor of each directory before its entries are read.

    Attributes:
        complete: False once an entry was left out, for its depth, its owner, or because
            more than `limit` were met: code in the box can make them without end.
    """

    def __init__(
        self,
        root: int,
        prefix: str = "",
        *,
        limit: int,
        everything: bool = False,
        enter: Callable[[str, int], None] | None = None,
    ) -> None:
        self.complete = True
        self._left = limit
        self._chain = _Chain(root)
        self._pending: list[tuple[int, str, str]] = [(0, ".", prefix)]
        self._depth_limit = DEPTH_LIMIT - prefix.count("/")
        self._everything = everything
        self._on_enter = enter

    def close(self) -> None:
        """Let go of the directories that are open."""
        self._chain.cut(0)

    def __iter__(self) -> Iterator[Found]:
        while self._pending and self._left > 0:
            depth, name, prefix = self._pending.pop()
            descriptor = self._enter(depth, name)
            if descriptor is not None:
                if self._on_enter is not None:
                    self._on_enter(prefix, descriptor)
                yield from self._read(depth, prefix, descriptor)
        self.complete = self.complete and not self._pending

    def _enter(self, depth: int, name: str) -> int | None:
        try:
            return self._chain.enter(depth, name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError:
            self.complete = False
            return None

    def _read(self, depth: int, prefix: str, descriptor: int) -> Iterator[Found]:
        first = True
        with os.scandir(descriptor) as entries:
            while chunk := list(islice(entries, min(_CHUNK_ENTRIES, self._left))):
                self._left -= len(chunk)
                plain = self._sorted_out(depth, prefix, chunk)
                yield Found(prefix, descriptor, plain, first)
                first = False
            if self._left <= 0 and next(entries, None) is not None:
                self.complete = False
        if first:
            yield Found(prefix, descriptor, [], first)

    def _sorted_out(
        self, depth: int, prefix: str, chunk: list[os.DirEntry[str]]
    ) -> list[os.DirEntry[str]]:
        plain: list[os.DirEntry[str]] = []
        for entry in chunk:
            name = entry.name
            if name[0] == "." and self._is_hidden(name, prefix):
                continue
            if not entry.is_dir(follow_symlinks=False):
                plain.append(entry)
            elif depth < self._depth_limit:
                self._pending.append((depth + 1, name, f"{prefix}{name}/"))
            else:
                self.complete = False
        return plain

    def _is_hidden(self, name: str, prefix: str) -> bool:
        return not self._everything and is_hidden(name, prefix)


def is_hidden(name: str, prefix: str) -> bool:
    """Whether an entry of the directory `prefix` is ours, and no file of the code's."""
    own = not prefix and name == PRIVATE_DIR
    return own or name.startswith(TEMPORARY_PREFIX)


class _Chain:
    """The directories from the root to where the walk is; only the last stay open.

    A directory let go is reached again from the root, step by step.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._names: list[str] = []
        self._open: list[int] = []
        self._lost = False

    def enter(self, depth: int, name: str) -> int:
        self.cut(depth)
        if self._lost:
            raise FileNotFoundError
        descriptor = open_directory(self._last(), name)
        self._names.append(name)
        self._open.append(descriptor)
        self._let_go(len(self._open) - _KEPT_OPEN - 1)
        return descriptor

    def cut(self, depth: int) -> None:
        if len(self._open) > depth:
            self._lost = False
        while len(self._open) > depth:
            self._names.pop()
            self._close(self._open.pop())

    def _last(self) -> int:
        if not self._open:
            return self._root
        if self._open[-1] < 0:
            self._reach_again()
        return self._open[-1]

    def _reach_again(self) -> None:
        self._lost = True
        above = self._root
        for position, name in enumerate(self._names):
            self._open[position] = open_directory(above, name)
            above = self._open[position]
            self._let_go(position - _KEPT_OPEN)
        self._lost = False

    def _let_go(self, position: int) -> None:
        if position >= 0:
            self._close(self._open[position])
            self._open[position] = -1

    @staticmethod
    def _close(descriptor: int) -> None:
        if descriptor >= 0:
            os.close(descriptor)
