r"""How files of the workspace are spelled: by models, by the kernel, on a screen.

A name on disk is bytes, and code in a box may choose any. Three spellings exist:

- *raw*: the bytes, or the `surrogateescape` text that `os.scandir` makes of them;
- *public*: what `FileInfo.path` holds. It is the name itself, except that a byte that
  is not UTF-8 reads `\xNN`, and a backslash that would read as an escape reads `\x5c`;
- *shown*: the public spelling with control, format and bidi characters escaped too,
  so that it stays on one line and reads in one direction.

`parts_of` takes the public and the shown spelling back to the bytes.
"""

from __future__ import annotations

import os
import re
import unicodedata

from .faults import WorkspaceError

BOX_ROOT = "/workspace"
"""Where code in the box sees the workspace."""
PRIVATE_DIR = ".kern"
"""Our own directory at the top of the workspace, absent from every listing."""
TEMPORARY_PREFIX = ".kern-tmp-"
"""Names of files being written, absent from every listing."""
DEPTH_LIMIT = 2048
"""Directories nested deeper than any one path can name are not entered."""
NAME_LIMIT_BYTES = 255

_ESCAPE = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def parts_of(path: str) -> tuple[bytes, ...]:
    """Split what somebody wrote into the names to walk, from the top down.

    `/workspace/x` is `x`, since code in the box sees that path; `.` and empty parts are
    dropped and `..` takes back the part before it.

    Args:
        path: A path relative to the workspace, or below `/workspace`.

    Returns:
        The raw names, none of them `..`; empty for the workspace itself.

    Raises:
        WorkspaceError: `outside` or `bad_path`.
    """
    kept: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if not kept:
                raise _outside(path)
            kept.pop()
        elif part not in {"", "."}:
            kept.append(part)
    if path.startswith("/"):
        if kept[:1] != [BOX_ROOT[1:]]:
            raise _outside(path)
        del kept[0]
    if len(kept) > DEPTH_LIMIT:
        raise _bad(path, f"it has more than {DEPTH_LIMIT} parts; use fewer directories")
    return tuple(_raw(part, path) for part in kept)


def file_names(path: str) -> tuple[bytes, ...]:
    """Split the path of a file, which names at least one part and no directory.

    Args:
        path: A path relative to the workspace, or below `/workspace`.

    Returns:
        The raw names.

    Raises:
        WorkspaceError: `outside`, `bad_path` or `is_directory`.
    """
    if not path:
        raise _bad(path, "it is empty; name a file, such as 'data/x.csv'")
    names = parts_of(path)
    if not names or path.rsplit("/", 1)[-1] in {"", ".", ".."}:
        raise WorkspaceError(
            f"{path[:200]!r} names a directory: name a file in it",
            code="is_directory",
            path=path,
        )
    return names


def public_name(name: str) -> str:
    """Spell a name or path from `os.scandir` so that it can be encoded as UTF-8.

    Args:
        name: Text with broken bytes as lone surrogates.

    Returns:
        The public spelling; the same text for all but very odd names.
    """
    if name.isascii() and "\\" not in name:
        return name
    text = os.fsencode(name).decode("utf-8", "surrogateescape")
    if "\\" in text:
        text = _ESCAPE.sub(lambda found: "\\x5c" + found[0][1:], text)
    return re.sub("[\udc80-\udcff]", lambda found: _escaped(found[0]), text)


def shown_name(path: str) -> str:
    r"""Spell a path for a screen or a prompt: one line, one direction, no controls.

    Control and format characters (line breaks, terminal escapes, bidi marks), line
    separators and lone surrogates read `\xNN`, `\uNNNN` or `\UNNNNNNNN`. What it
    gives for a `FileInfo.path` is accepted by `Workspace.read_file`.

    Args:
        path: Any text; usually `FileInfo.path`.

    Returns:
        Text without line breaks that can be encoded as UTF-8.
    """
    if path.isprintable():
        return path
    return "".join(
        _escaped(char) if unicodedata.category(char) in _HIDDEN_CATEGORIES else char
        for char in path
    )


def _escaped(char: str) -> str:
    point = ord(char)
    if 0xDC80 <= point <= 0xDCFF:
        return f"\\x{point - 0xDC00:02x}"
    if point < 0x80:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"


def _raw(part: str, path: str) -> bytes:
    try:
        literal = part.encode("utf-8")
    except UnicodeEncodeError:
        remedy = "write a byte that is not UTF-8 as \\xNN, as list_files does"
        raise _bad(path, f"it holds a lone surrogate; {remedy}") from None
    raw = _unescaped(part, literal) if "\\" in part else literal
    if b"\0" in raw:
        raise _bad(path, "it holds a NUL character; leave that out")
    if len(raw) > NAME_LIMIT_BYTES:
        remedy = f"use at most {NAME_LIMIT_BYTES} bytes between two slashes"
        raise _bad(path, f"one of its names is too long; {remedy}")
    return raw


def _unescaped(part: str, literal: bytes) -> bytes:
    """Undo the public or shown spelling; text that is neither is meant literally."""
    try:
        pieces = _ESCAPE.sub(_surrogate_form, part).encode("utf-8", "surrogateescape")
    except (UnicodeEncodeError, ValueError, OverflowError):
        return literal
    public = public_name(os.fsdecode(pieces))
    return pieces if part in {public, shown_name(public)} else literal


def _surrogate_form(found: re.Match[str]) -> str:
    point = int(found[0][2:], 16)
    if found[0][1] == "x" and point >= 0x80:
        return chr(point + 0xDC00)
    return chr(point)


def _outside(path: str) -> WorkspaceError:
    return WorkspaceError(
        f"{path[:200]!r} is outside the workspace: give a path relative to it, such as "
        f"'data/x.csv', or one below {BOX_ROOT}",
        code="outside",
        path=path,
    )


def _bad(path: str, why: str) -> WorkspaceError:
    return WorkspaceError(
        f"{path[:200]!r} is not a usable path: {why}", code="bad_path", path=path
    )
