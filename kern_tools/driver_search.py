"""The program of a search in the box: looks at files line by line, answers in JSON.

Run by any Python of the image, as a command of its own, with one argument: JSON of what
is wanted. Paths are bytes, spelled as Latin-1 on the way.
"""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, BinaryIO

_HEAD_BYTES = 8192
_PIECE_BYTES = 1 << 20
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_SHOWN_BEFORE_CHARS = 60


class Late(Exception):
    """The time for the search is over."""


class Unfit(Exception):
    """Neither a file nor a directory; holds the mode."""


class Search:
    """One search; what was found so far is good whenever it ends."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.asked = asked
        self.pattern = re.compile(asked["pattern"])
        self.rows: list[tuple[str, int, str]] = []
        self.room = int(asked["room_chars"])
        self.lines = self.files = self.binary = self.unread = 0
        self.at = ("", 0)

    def run(self) -> bool:
        """Search everything below the path; tell whether there was time for all."""
        path = self.asked["path"].encode("latin-1")
        mode = os.lstat(path or b".").st_mode
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            raise Unfit(mode)
        try:
            for name in self.below(path, is_folder=stat.S_ISDIR(mode)):
                self.at = (name.decode("latin-1"), 0)
                self.try_to_look_into(name)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Late:
            return False
        return True

    def below(self, top: bytes, *, is_folder: bool) -> Iterator[bytes]:
        """Give the regular files, in the order of their names."""
        pending = [(top, is_folder)]
        while pending:
            path, is_folder = pending.pop()
            if not is_folder:
                yield path
                continue
            try:
                with os.scandir(path or b".") as entries:
                    found = [entry for entry in entries if self.wanted(path, entry)]
            except OSError:
                self.unread += 1
                continue
            found.sort(key=lambda entry: entry.name, reverse=True)
            start = path + b"/" if path else b""
            pending += [
                (start + entry.name, entry.is_dir(follow_symlinks=False))
                for entry in found
            ]

    def wanted(self, folder: bytes, entry: os.DirEntry[bytes]) -> bool:
        """Leave out links, pipes and the like, and what the sandbox keeps itself."""
        name = entry.name
        if name == b".git" or name.startswith(self.asked["temporary"].encode()):
            return False
        if not folder and name == self.asked["private"].encode():
            return False
        return entry.is_dir(follow_symlinks=False) or entry.is_file(
            follow_symlinks=False
        )

    def try_to_look_into(self, path: bytes) -> None:
        """Search one file; what goes wrong is the file's own."""
        try:
            self.look_into(path)
        except OSError:
            self.unread += 1

    def look_into(self, path: bytes) -> None:
        """Search one file, a piece of a line at a time where lines are long."""
        with os.fdopen(os.open(path, _OPEN), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return
            if b"\0" in file.read(_HEAD_BYTES):
                self.binary += 1
                return
            file.seek(0)
            self.look_at_lines(path, file)

    def look_at_lines(self, path: bytes, file: BinaryIO) -> None:
        """Count the lines that match, and keep those that there is room for."""
        name = path.decode("latin-1")
        number, matched, begins = 0, 0, True
        while piece := file.readline(_PIECE_BYTES):
            number += begins
            begins = piece.endswith(b"\n")
            self.at = (name, number)
            text = piece.decode("utf-8", "replace").rstrip("\r\n")
            found = self.pattern.search(text)
            if found and matched != number:
                self.files += not matched
                matched = number
                self.lines += 1
                self.keep(name, number, text, found.start())

    def keep(self, name: str, number: int, text: str, start: int) -> None:
        """Keep a line, or the part of a long one where the match begins."""
        if len(self.rows) >= self.asked["most"] or self.room <= 0:
            return
        length = self.asked["line_chars"]
        first = max(start - _SHOWN_BEFORE_CHARS, 0) if len(text) > length else 0
        shown = text[first : first + length]
        before, after = first > 0, first + length < len(text)
        shown = ("..." if before else "") + shown + ("..." if after else "")
        self.room -= len(name) + len(shown) + 12
        if self.room > 0:
            self.rows.append((name, number, shown))

    def answer(self, *, stopped: bool) -> dict[str, Any]:
        """Say what was found."""
        return {
            "rows": self.rows,
            "lines": self.lines,
            "files": self.files,
            "binary": self.binary,
            "unread": self.unread,
            "stopped": self.at if stopped else None,
        }


def on_alarm(signum: int, frame: object) -> None:
    """End the search, also in the middle of a match."""
    raise Late


def answered(asked: dict[str, Any]) -> dict[str, Any]:
    """Search, and say what came of it."""
    os.chdir(asked["folder"])
    signal.signal(signal.SIGALRM, on_alarm)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
    try:
        signal.setitimer(signal.ITIMER_REAL, asked["limit_s"])
        search = Search(asked)
        return search.answer(stopped=not search.run())
    except Late:
        return {"bad": "it takes too long to read"}
    except (re.error, RecursionError, OverflowError, MemoryError) as error:
        return {"bad": str(error) or type(error).__name__}
    except Unfit as error:
        return {"mode": error.args[0]}
    except OSError as error:
        return {"errno": error.errno}


def main() -> None:
    """Answer on stdout."""
    answer = answered(json.loads(sys.argv[1]))
    sys.stdout.buffer.write(json.dumps(answer, ensure_ascii=False).encode())


main()
