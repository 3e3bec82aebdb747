"""The format of snapshots: a gzip-compressed tar of regular files and directories.

The first member is `.kern/snapshot.json`, which tells what made the rest. Any tar
program can unpack one; only what `Writer` could have written is read back.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from .contents import Member, Refusal, Tally, checked_path, shown
from .faults import SnapshotError
from .names import PRIVATE_DIR

if TYPE_CHECKING:
    from os import stat_result

CHUNK_BYTES = 1 << 20
INFO_LIMIT_BYTES = 4 << 20
_INFO_PATH = f"{PRIVATE_DIR}/snapshot.json"
_LEVEL = 3  # A third of the time of zlib's default, for archives a tenth larger.
_BLOCK_BYTES = tarfile.BLOCKSIZE
_ENDING = bytes(2 * _BLOCK_BYTES)
_ENDING_LIMIT_BYTES = 1 << 20
_EXTENSION_LIMIT_BYTES = 1 << 20
_TIME_LIMIT_S = 8**11 - 1  # What a tar header holds without an extension.
_MODE_BITS = 0o777

_KINDS = {
    tarfile.LNKTYPE: "a hard link",
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a named pipe",
}
_PLAIN = {tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE}


class Writer:
    """Writes one archive, member by member, to a file that it leaves open."""

    def __init__(self, file: BinaryIO, info: bytes) -> None:
        # No name and no time in the head: equal trees differ by their info alone.
        self._gzip = gzip.GzipFile("", "wb", _LEVEL, file, mtime=0)
        self._pieces: list[bytes] = []
        self._kept_bytes = 0
        self._write(
            _header(_INFO_PATH.encode(), len(info), 0o600, 0), info, _padding(len(info))
        )

    def add_directory(self, path: bytes, found: stat_result) -> None:
        """Add a directory, with its permissions and time."""
        self._write(_header(path, None, found.st_mode, found.st_mtime))

    def add_file(
        self, path: bytes, found: stat_result, size: int, content: Iterable[bytes]
    ) -> None:
        """Add a file; the pieces of `content` must add up to `size`."""
        self._write(_header(path, size, found.st_mode, found.st_mtime))
        for piece in content:
            self._write(piece)
        self._write(_padding(size))

    def finish(self) -> None:
        """Write the end of the archive."""
        self._write(_ENDING)
        self._flush()
        self._gzip.close()

    def _write(self, *pieces: bytes) -> None:
        self._pieces += pieces
        self._kept_bytes += sum(map(len, pieces))
        if self._kept_bytes >= CHUNK_BYTES:
            self._flush()

    def _flush(self) -> None:
        self._gzip.write(b"".join(self._pieces))
        self._pieces, self._kept_bytes = [], 0


class Reader:
    """One pass over an archive that anybody may have made; members come in order.

    Args:
        file: The archive, seekable.
        max_bytes: What its files may add up to.

    Raises:
        Refusal: From any method: this is no snapshot, or one that cannot be used.
    """

    def __init__(self, file: BinaryIO, max_bytes: int) -> None:
        file.seek(0)
        self._gzip = gzip.GzipFile(fileobj=file, mode="rb")
        self._tally = Tally(max_bytes)
        self._left = 0
        self._padding = 0

    def info(self) -> bytes:
        """Read the first member, before any other."""
        header = self._header()
        if header is None or header[1].name != _INFO_PATH:
            raise Refusal(f"it is not a snapshot: its first member is no {_INFO_PATH}")
        size = header[2]
        if not header[1].isreg() or not 0 <= size <= INFO_LIMIT_BYTES:
            raise Refusal(f"its {_INFO_PATH} is not a small file")
        content = self._exactly(size)
        self._exactly(len(_padding(size)))
        return content

    def __iter__(self) -> Iterator[Member]:
        while (header := self._header()) is not None:
            member = _member(*header)
            self._tally.add(len(member.path), member.size)
            self._left, self._padding = member.size, len(_padding(member.size))
            yield member
            for _ in self.content():
                pass
            self._exactly(self._padding)
        self._check_ending()

    def content(self) -> Iterator[bytes]:
        """Give what is left of the current member, in pieces."""
        while self._left:
            piece = self._exactly(min(self._left, CHUNK_BYTES))
            self._left -= len(piece)
            yield piece

    def _header(self) -> tuple[bytes, tarfile.TarInfo, int] | None:
        """Read a header and its extension: the raw path, the rest, the size."""
        head = _parsed(self._exactly(_BLOCK_BYTES))
        if head is None:
            return None
        extension: dict[bytes, bytes] = {}
        if head.type == tarfile.XHDTYPE:
            extension = self._extension(head.size)
            head = _parsed(self._exactly(_BLOCK_BYTES))
            if head is None:
                raise Refusal("it ends after an extended header")
        path = extension.get(b"path")
        size = extension.get(b"size", b"")
        if size and not (size.isdigit() and len(size) < 20):
            raise Refusal(f"it has the odd size {size[:40]!r}")
        raw = head.name.encode("utf-8", "surrogateescape") if path is None else path
        return raw, head, int(size) if size else head.size

    def _extension(self, size: int) -> dict[bytes, bytes]:
        """Read the fields that extend the next header."""
        if not 0 <= size <= _EXTENSION_LIMIT_BYTES:
            raise Refusal(f"it has an extended header of {size} bytes")
        content = self._exactly(size)
        self._exactly(len(_padding(size)))
        fields: dict[bytes, bytes] = {}
        while content:
            digits, _, _ = content[:20].partition(b" ")
            length = int(digits) if digits.isdigit() else 0
            line, content = content[len(digits) + 1 : length], content[length:]
            name, equals, value = line.partition(b"=")
            if not equals or not value.endswith(b"\n") or b"sparse" in name:
                raise Refusal("it has an extended header that cannot be used")
            fields[name] = value[:-1]
        return fields

    def _exactly(self, size: int) -> bytes:
        content = self._gzip.read(size) if size else b""
        if len(content) != size:
            raise Refusal("it ends too early")
        return content

    def _check_ending(self) -> None:
        """Read to the end, where gzip's own check of all of it stands."""
        rest = self._gzip.read(_ENDING_LIMIT_BYTES)
        if rest.strip(b"\0") or self._gzip.read(1):
            raise Refusal("there is more after its end")


@contextmanager
def explained_damage(verb: str, location: str) -> Generator[None]:
    """Turn what a damaged or hostile archive causes into a `SnapshotError`."""
    try:
        yield
    except Refusal as error:
        why, code = f"{error}; nothing was changed", error.code
    except (EOFError, zlib.error, gzip.BadGzipFile, tarfile.HeaderError) as error:
        why = f"it is damaged or not a .tar.gz ({error}); nothing was changed"
        code = "bad_snapshot"
    else:
        return
    raise SnapshotError(
        f"cannot {verb} the snapshot {location!r}: {why}", code=code, location=location
    )


def _header(path: bytes, size: int | None, mode: int, mtime_s: float) -> bytes:
    head = tarfile.TarInfo(path.decode("utf-8", "surrogateescape"))
    head.type = tarfile.DIRTYPE if size is None else tarfile.REGTYPE
    head.size = size or 0
    head.mode = mode & _MODE_BITS
    head.mtime = min(max(int(mtime_s), 0), _TIME_LIMIT_S)
    return head.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _padding(size: int) -> bytes:
    return bytes(-size % _BLOCK_BYTES)


def _parsed(block: bytes) -> tarfile.TarInfo | None:
    if not block.strip(b"\0"):
        return None
    return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")


def _member(raw: bytes, head: tarfile.TarInfo, size: int) -> Member:
    path = checked_path(raw.removesuffix(b"/") if head.isdir() else raw)
    if head.type not in _PLAIN:
        kind = _KINDS.get(head.type, f"of the unknown type {head.type!r}")
        raise Refusal(f"its member {shown(path)!r} is {kind}")
    if size < 0 or (head.isdir() and size):
        raise Refusal(f"its member {shown(path)!r} has the odd size {size}")
    if not 0 <= head.mtime <= _TIME_LIMIT_S:
        raise Refusal(f"its member {shown(path)!r} has the odd time {head.mtime}")
    return Member(
        path=path,
        is_directory=head.isdir(),
        mode=head.mode & _MODE_BITS,
        mtime_s=int(head.mtime),
        size=size,
    )
