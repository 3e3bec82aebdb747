"""Keep outputs and images in the workspace, where the tools of a model reach them."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice

from .descriptors import entry_mode, make_directory, open_directory
from .emptying import remove_entry
from .names import PRIVATE_DIR
from .writing import replace_file

KEPT_FILES = 20
"""How many outputs, and how many images, stay."""
_HOME = "home"
_PIECE_CHARS = 1 << 16
_LOOKED_AT = 1000
_ID_LIMIT = 64
_ATTEMPTS = 5
_SPILL = re.compile(r"out-[A-Za-z0-9_-]{1,64}\.txt")
_IMAGE = re.compile(r"img-[A-Za-z0-9_-]{1,64}-[0-9]{1,9}\.(?:png|jpg)")
_SUFFIXES = {"image/png": "png", "image/jpeg": "jpg"}


def write_spill(root: int, call_id: str, text: str) -> str:
    """Write one output and let the oldest go.

    Args:
        root: Descriptor of the workspace.
        call_id: Names the file.
        text: What to keep; lone surrogates are stored as escapes.

    Returns:
        The path, relative to the workspace.

    Raises:
        OSError: It cannot be written.
    """
    own = f"out-{plain_id(call_id)}."
    # Encoded as a whole, a large text would be in memory once more.
    starts = range(0, len(text), _PIECE_CHARS)
    pieces = (text[at : at + _PIECE_CHARS] for at in starts)
    content = (piece.encode("utf-8", "backslashreplace") for piece in pieces)
    return _write(root, f"{own}txt", content, kind=_SPILL, own=own)


def write_image(root: int, call_id: str, number: int, mime: str, data: bytes) -> str:
    """Write one image and let the oldest go, but none of the same call.

    Args:
        root: Descriptor of the workspace.
        call_id: Names the file, together with `number`.
        number: Which image of the call it is.
        mime: `image/png` or `image/jpeg`.
        data: The file as it is.

    Returns:
        The path, relative to the workspace.

    Raises:
        OSError: It cannot be written.
        ValueError: Images of that type are not kept.
    """
    suffix = _SUFFIXES.get(mime)
    if suffix is None:
        raise ValueError(f"mime={mime!r} is not kept: give {' or '.join(_SUFFIXES)}")
    own = f"img-{plain_id(call_id)}-"
    return _write(root, f"{own}{number}.{suffix}", data, kind=_IMAGE, own=own)


def make_home(root: int) -> str:
    """Make a directory for the settings and caches of tools, absent from listings.

    Args:
        root: Descriptor of the workspace.

    Returns:
        The path, relative to the workspace.

    Raises:
        OSError: It cannot be made.
    """
    directory = private_directory(root)
    try:
        make_directory(directory, _HOME)
    finally:
        os.close(directory)
    return f"{PRIVATE_DIR}/{_HOME}"


def plain_id(call_id: str) -> str:
    """Turn any id into 1 to 64 of `A-Za-z0-9_-`; different ids stay different."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", call_id)
    if plain == call_id and 0 < len(plain) <= _ID_LIMIT:
        return plain
    told_apart = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{plain[: _ID_LIMIT - 9]}-{told_apart[:8]}"


def _write(
    root: int,
    name: str,
    content: bytes | Iterable[bytes],
    *,
    kind: re.Pattern[str],
    own: str,
) -> str:
    directory = private_directory(root)
    try:
        _make_way(directory, name)
        replace_file(directory, name, content)
        _let_old_go(directory, kind, own)
    finally:
        os.close(directory)
    return f"{PRIVATE_DIR}/{name}"


def private_directory(root: int) -> int:
    """Open our directory, putting it in the place of anything else that is there."""
    for _ in range(_ATTEMPTS):
        make_directory(root, PRIVATE_DIR)
        try:
            return open_directory(root, PRIVATE_DIR)
        except FileNotFoundError:
            continue
        except NotADirectoryError:
            with suppress(FileNotFoundError):
                remove_entry(root, PRIVATE_DIR)
    return open_directory(root, PRIVATE_DIR)


def _make_way(directory: int, name: str) -> None:
    """Remove a directory of that name; a file there will be replaced."""
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(entry_mode(directory, name).st_mode):
            remove_entry(directory, name)


def _let_old_go(directory: int, kind: re.Pattern[str], own: str) -> None:
    """Remove the oldest files of a kind, none of those whose names begin with `own`."""
    again = open_directory(directory, ".")
    try:
        with os.scandir(again) as entries:
            found = [
                _age(entry)
                for entry in islice(entries, _LOOKED_AT)
                if kind.fullmatch(entry.name)
            ]
    finally:
        os.close(again)
    others = sorted(each for each in found if not each[1].startswith(own))
    for _, name in others[: max(len(found) - KEPT_FILES, 0)]:
        with suppress(OSError):
            remove_entry(directory, name)


def _age(entry: os.DirEntry[str]) -> tuple[int, str]:
    try:
        return entry.stat(follow_symlinks=False).st_mtime_ns, entry.name
    except OSError:
        return 0, entry.name
