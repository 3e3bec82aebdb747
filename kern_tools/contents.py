"""What an archive holds, judged member by member before anything is written."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field

from .names import (
    DEPTH_LIMIT,
    NAME_LIMIT_BYTES,
    PRIVATE_DIR,
    TEMPORARY_PREFIX,
    public_name,
    shown_name,
)
from .quantities import size

LIMIT_BYTES = 4 << 30
"""What the files of a snapshot may add up to where no `max_bytes` is given."""
LIMIT_ENTRIES = 250_000
_LIMIT_NAMES_BYTES = 64 << 20
_SHOWN_LENGTH = 200


class Refusal(Exception):
    """An archive, or a tree to make one of, cannot be used; the text says why."""

    def __init__(self, why: str, code: str = "bad_snapshot") -> None:
        super().__init__(why)
        self.code = code


class Tally:
    """Adds up the members of one archive, so that none fills the host's disk."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries = self._bytes = self._names_bytes = 0

    def add(self, name_bytes: int, content_bytes: int) -> None:
        """Count one more member.

        Raises:
            Refusal: `too_large`.
        """
        self._entries += 1
        self._names_bytes += name_bytes
        self._bytes += content_bytes
        if self._entries > LIMIT_ENTRIES:
            most = f"{LIMIT_ENTRIES:,} files and directories"
            raise Refusal(f"it holds more than {most}", "too_large")
        if self._names_bytes > _LIMIT_NAMES_BYTES:
            most = size(_LIMIT_NAMES_BYTES)
            raise Refusal(f"its names add up to more than {most}", "too_large")
        if self._bytes > self._max_bytes:
            most = size(self._max_bytes)
            why = f"its files add up to more than {most}; give a larger max_bytes"
            raise Refusal(why, "too_large")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One file or directory of an archive; `path` is its raw bytes, without `/`s."""

    path: bytes
    is_directory: bool
    mode: int
    mtime_s: int
    size: int


@dataclass(slots=True)
class Contents:
    """All members of an archive, and how they lie in each other.

    Attributes:
        members: By path.
        children: By the path of a directory, `b""` for the workspace, the names in it.
    """

    members: dict[bytes, Member | None] = field(default_factory=lambda: {})
    children: dict[bytes, list[bytes]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def add(self, member: Member) -> None:
        """Take in the next member.

        Raises:
            Refusal: Another member has the path, or is a file where this one needs a
                directory.
        """
        path = member.path
        if path in self.members:
            if self.members[path] is not None or not member.is_directory:
                raise Refusal(f"it has two members of the name {shown(path)!r}")
        else:
            self._enter(path)
        self.members[path] = member

    def is_directory(self, path: bytes) -> bool:
        """Tell directories, also those that are only implied, from files."""
        member = self.members[path]
        return member is None or member.is_directory

    @property
    def files(self) -> list[Member]:
        """The members that are files."""
        return [m for m in self.members.values() if m and not m.is_directory]

    @property
    def directories(self) -> list[Member]:
        """The members that are directories, the deepest first."""
        found = [m for m in self.members.values() if m and m.is_directory]
        return sorted(found, key=lambda member: -member.path.count(b"/"))

    def _enter(self, path: bytes) -> None:
        while True:
            above, _, name = path.rpartition(b"/")
            self.children[above].append(name)
            if not above:
                return
            if above in self.members:
                if not self.is_directory(above):
                    raise Refusal(f"its file {shown(above)!r} is used as a directory")
                return
            self.members[above] = None
            path = above


def checked_path(raw: bytes) -> bytes:
    """Refuse a path that leads out of the workspace, or that no walk would give.

    Args:
        raw: The bytes that the archive has, without the `/` that ends a directory's.

    Returns:
        The same bytes.

    Raises:
        Refusal: It is absolute, has a part `..` or an empty one, or is ours.
    """
    if raw.startswith(b"/"):
        raise Refusal(f"its member {shown(raw)!r} is an absolute path")
    parts = raw.split(b"/")
    if b".." in parts:
        raise Refusal(f"its member {shown(raw)!r} leads out by '..'")
    if b"" in parts or b"." in parts or b"\0" in raw:
        raise Refusal(f"its member {shown(raw)!r} has an odd name")
    if len(parts) > DEPTH_LIMIT or max(map(len, parts)) > NAME_LIMIT_BYTES:
        raise Refusal(f"its member {shown(raw)!r} has too long a name")
    if parts[0] == _PRIVATE or any(part.startswith(_TEMPORARY) for part in parts):
        raise Refusal(f"its member {shown(raw)!r} has a name that is kept for the host")
    return raw


_PRIVATE = PRIVATE_DIR.encode()
_TEMPORARY = TEMPORARY_PREFIX.encode()


def shown(raw: bytes) -> str:
    """Spell a raw path for a message, its end cut off where it is very long."""
    text = shown_name(public_name(os.fsdecode(raw[:_SHOWN_LENGTH])))
    return text if len(raw) <= _SHOWN_LENGTH else f"{text}..."
