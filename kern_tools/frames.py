"""The host's side of the driver's protocol: bounded, and nothing taken on trust."""

from __future__ import annotations
import __future__

import binascii
import marshal
import os
from functools import cache
from importlib.resources import files
from types import CodeType
from typing import Any

from .result import RichResult

BOOT = """\
import posix,marshal
def r(n,b=b""):
 while len(b)<n:
  c=posix.read(0,n-len(b))
  if not c:posix._exit(0)
  b+=c
 return b
def g(**k):return k
d,v,m,s=marshal.loads(r(int.from_bytes(r(4),"little")))
exec(d,g(__name__="driver",GIVEN_VALUES=v,GIVEN_MODES=m,GIVEN_SETTING=s))
"""
_FUTURE = "from __future__ import annotations\n"
MAX_FRAME_BYTES = 17 << 20
MAX_INLINE_BYTES = 1 << 14
MAX_RESULTS_BYTES = 40 << 20
MAX_RESULTS = 300
MAX_FORMS = 32
MAX_MIME_BYTES = 256

# An interpreter that reads PYTHON* variables also puts the working folder on the path.
CLEAN_PATH = """\
import sys
sys.path[:]=[p for p in sys.path if p]
"""
INTERPRETER_VARIABLES = frozenset(
    f"PYTHON{name}"
    for name in (
        "DEVMODE",
        "DONTWRITEBYTECODE",
        "FAULTHANDLER",
        "HASHSEED",
        "INTMAXSTRDIGITS",
        "IOENCODING",
        "MALLOC",
        "NODEBUGRANGES",
        "OPTIMIZE",
        "TRACEMALLOC",
        "UNBUFFERED",
        "UTF8",
        "WARNINGS",
    )
)
"""What only an interpreter's start can heed, and what names no folder: code from the
workspace must not run before the driver."""


def driver_program(setting: dict[str, Any], *, same_python: bool) -> bytes:
    """Give the driver as it goes to the box, framed for `BOOT`.

    Args:
        setting: What the driver needs to know before its first call.
        same_python: The box runs this very Python, so bytecode spares it the parsing.
    """
    # The form of every Python >= 3.9 is 2; some code of this very one needs its own.
    version = marshal.version if same_python else 2
    body = marshal.dumps((*_programs(same_python), setting), version)
    return len(body).to_bytes(4, "little") + body


@cache
def _programs(compiled: bool) -> tuple[CodeType | str, ...]:
    names = ("driver", "driver_values", "driver_modes")
    return tuple(_compiled(name) if compiled else _source(name) for name in names)


def _source(name: str) -> str:
    return files("kern_tools").joinpath(f"{name}.py").read_text("utf-8")


def _compiled(name: str) -> CodeType:
    """Compile one, with a flag in place of the line that would import `__future__`."""
    flags = __future__.annotations.compiler_flag
    text = _source(name).replace(_FUTURE, "")
    program: CodeType = compile(
        text, f"<{name}>", "exec", flags, dont_inherit=True, optimize=2
    )
    return program


def request_bytes(call: dict[str, Any]) -> tuple[bytes, int]:
    """Give one call as the driver takes it, whatever its size.

    Returns:
        What goes over the control socket: one byte, four of length, and the call, in a
        form that every Python >= 3.9 reads; and -1. Of a call that could fill the
        socket the length is 0, and the descriptor is of a file in memory that holds it.
    """
    body = marshal.dumps(call, 2)
    if len(body) <= MAX_INLINE_BYTES:
        return b"c" + len(body).to_bytes(4, "little") + body, -1
    handle = os.memfd_create("call", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(handle), "wb") as file:
        file.write(body)
    return b"c\0\0\0\0", handle


class FrameReader:
    """Splits the control stream into frames; a stream that breaks the rules is over.

    Attributes:
        broken: The box sent what the driver never sends; nothing more is read.
    """

    def __init__(self) -> None:
        self.broken = False
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Add bytes; give the frames that are now whole."""
        if self.broken:
            return []
        source: bytes | bytearray = data
        if self._rest:
            self._rest += data
            source = self._rest
        frames, start = self._split(source)
        if source is self._rest:
            del self._rest[:start]
        else:
            self._rest += source[start:]
        return frames

    def _split(
        self, source: bytes | bytearray
    ) -> tuple[list[tuple[bytes, bytes]], int]:
        """Give the frames that are whole, and where they end."""
        frames: list[tuple[bytes, bytes]] = []
        start, length = 0, len(source)
        while length - start >= 5:
            size = int.from_bytes(source[start + 1 : start + 5], "little")
            if size > MAX_FRAME_BYTES:
                self.broken = True
                break
            end = start + 5 + size
            if end > length:
                break
            kind = bytes(source[start : start + 1])
            frames.append((kind, bytes(source[start + 5 : end])))
            start = end
        return frames, start


def rich_result(payload: bytes) -> RichResult | None:
    """Read one rich value; None where the payload is not one.

    A form that is not what it says is left out, the others are kept.
    """
    data: dict[str, str] = {}
    start = 0
    for _ in range(MAX_FORMS):
        if start >= len(payload):
            break
        middle = payload.find(b"\0", start, start + MAX_MIME_BYTES)
        end = payload.find(b"\0", middle + 1, middle + 12)
        size = payload[middle + 1 : end]
        if middle < 0 or end < 0 or not size.isdigit():
            break
        name = payload[start:middle].decode("utf-8", "replace")
        start = end + 1 + int(size)
        content = payload[end + 1 : start]
        if not is_binary(name) or _is_base64(content):
            data[name] = content.decode("utf-8", "replace")
    return RichResult(data=data) if data else None


def is_binary(mime: str) -> bool:
    """Whether a MIME type's content travels as base64."""
    return mime.startswith("image/") and mime != "image/svg+xml"


def _is_base64(content: bytes) -> bool:
    try:
        binascii.a2b_base64(content, strict_mode=True)
    except binascii.Error:
        return False
    return True
