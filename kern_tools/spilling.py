"""Keep whole outputs in the workspace, where the tools of a model can read them."""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from itertools import islice

from .descriptors import make_directory, open_directory
from .names import PRIVATE_DIR
from .removal import remove_entry
from .writing import replace_file

SPILLS_KEPT = 20
_LOOKED_AT = 1000
_ID_LIMIT = 64
_ATTEMPTS = 5
_SPILL = re.compile(r"out-[A-Za-z0-9_-]{1,64}\.txt")


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
    name = f"out-{plain_id(call_id)}.txt"
    directory = _private_directory(root)
    try:
        content = text.encode("utf-8", "backslashreplace")
        try:
            replace_file(directory, name, content)
        except IsADirectoryError:
            remove_entry(directory, name)
            replace_file(directory, name, content)
        _let_old_go(directory, keep=name)
    finally:
        os.close(directory)
    return f"{PRIVATE_DIR}/{name}"


def plain_id(call_id: str) -> str:
    """Turn any id into 1 to 64 of `A-Za-z0-9_-`; different ids stay different."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", call_id)
    if plain == call_id and 0 < len(plain) <= _ID_LIMIT:
        return plain
    told_apart = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{plain[: _ID_LIMIT - 9]}-{told_apart[:8]}"


def _private_directory(root: int) -> int:
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


def _let_old_go(directory: int, keep: str) -> None:
    again = open_directory(directory, ".")
    try:
        with os.scandir(again) as entries:
            dated = sorted(
                _age(entry)
                for entry in islice(entries, _LOOKED_AT)
                if entry.name != keep and _SPILL.fullmatch(entry.name)
            )
    finally:
        os.close(again)
    for _, name in dated[: -(SPILLS_KEPT - 1)]:
        with suppress(OSError):
            remove_entry(directory, name)


def _age(entry: os.DirEntry[str]) -> tuple[int, str]:
    try:
        return entry.stat(follow_symlinks=False).st_mtime_ns, entry.name
    except OSError:
        return 0, entry.name
