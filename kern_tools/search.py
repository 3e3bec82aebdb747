"""A search inside the box: what is run there, and its answer read without trust.

A pattern can take for ever, on a thread that nothing stops; in the box there is a
deadline. What comes back is bounded and checked like anything a box says.
"""

from __future__ import annotations

import errno
import json
import os
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .config import SandboxConfig
from .descriptors import Request
from .faults import WorkspaceError
from .names import BOX_ROOT, PRIVATE_DIR, TEMPORARY_PREFIX, parts_of, public_name

ROWS_MAX = 200
LINE_MAX_CHARS = 300
PATH_MAX_BYTES = 4000

_SHARE = 0.7
"""Of the call's limit goes to the search, which then tells what it has."""

_SCRIPT = r"""
cd /workspace || exit
pattern=$1 path=$2 most=$3
if [ -L "$path" ] || [ ! -e "$path" ]; then echo e; exit; fi
why=$(echo | grep -E -e "$pattern" 2>&1 >/dev/null)
if [ $? -gt 1 ]; then echo "x$why"; exit; fi
find "$path" \( -path ./.kern ! -path "$path" -o -name '.kern-tmp-*' \
    -o -name .git ! -path "$path" \) -prune \
    -o -type f -exec grep -lE -e "$pattern" -- {} + 2>/dev/null |
while IFS= read -r file; do
    head=$(head -c 8192 "$file" | wc -c)
    if [ "$(head -c 8192 "$file" | tr -d '\000' | wc -c)" -ne "$head" ]; then
        echo b
    else
        echo f
        grep -nE -e "$pattern" -- "$file" | sed "s/^/m/"
    fi
    echo "n$file"
done |
awk -v most="$most" '
/^m/ { lines++; if (lines <= most) held[++n] = substr($0, 2, 300); next }
/^n/ { for (i = 1; i <= n; i++) print substr($0, 2) ":" held[i]; n = 0; next }
/^f/ { files++ }
/^b/ { binary++ }
END { print "=" lines + 0, files + 0, binary + 0 }
'
"""
"""Takes a pattern, a path and how many lines to print. `e` where there is no such path,
`x` and grep's words where the pattern is bad; else `PATH:LINE:TEXT` and the totals."""

_ROW = re.compile(r"(?:\./)?(.*?):(\d{1,12}):(.*)")
_TOTALS = re.compile(r"=(\d{1,12}) (\d{1,12}) (\d{1,12})")


class BadPattern(Exception):
    """The pattern cannot be used; the message is the regular expression engine's."""


class Unanswered(Exception):
    """The box gave something that is no answer of ours."""


Count = Annotated[int, Field(ge=0, le=10**12)]


class Answer(BaseModel):
    """What a search found."""

    model_config = ConfigDict(strict=True, frozen=True)

    rows: list[tuple[str, Count, str]] = Field(default=[], max_length=ROWS_MAX)
    """Path, line number and text of the first lines that match; `public` paths."""
    lines: Count = 0
    """How many lines match."""
    files: Count = 0
    """In how many files."""
    binary: Count = 0
    """Files passed over, since they are not text."""
    unread: Count = 0
    """Files and directories that could not be read."""
    stopped: tuple[str, Count] | None = None
    """Path and line where the time was over; None where the search is complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """One search, before it runs.

    Attributes:
        pattern: A regular expression.
        path: As the model gave it.
        inside: The same, in raw bytes, relative to the workspace.
        room_chars: How much text there is room for.
        limit_s: When to stop and tell what there is.
    """

    pattern: str
    path: str
    inside: bytes
    room_chars: int
    limit_s: float

    @classmethod
    def of(cls, config: SandboxConfig, pattern: str, path: str) -> Search:
        """Take a search as a model asked for it.

        Raises:
            WorkspaceError: The path cannot be one of the workspace.
        """
        inside = b"/".join(parts_of(path))
        if len(inside) > PATH_MAX_BYTES:
            why = f"it has more than {PATH_MAX_BYTES:,} bytes; search a directory above"
            raise Request("search", path).error("bad_path", why)
        # Quoted, a character takes six bytes; the answer has to arrive whole.
        room = min(config.budget.text_chars, config.max_output_bytes // 16)
        limit_s = config.timeout_s * _SHARE
        return cls(
            pattern=pattern, path=path, inside=inside, room_chars=room, limit_s=limit_s
        )

    def python(self) -> list[str]:
        """Give the command for an image with Python."""
        asked = {
            "pattern": self.pattern,
            "path": self.inside.decode("latin-1"),
            "folder": BOX_ROOT,
            "private": PRIVATE_DIR,
            "temporary": TEMPORARY_PREFIX,
            "most": ROWS_MAX,
            "line_chars": LINE_MAX_CHARS,
            "room_chars": self.room_chars,
            "limit_s": self.limit_s,
        }
        return ["python3", "-I", "-S", "-c", _program(), json.dumps(asked)]

    def shell(self) -> list[str]:
        """Give the command for an image without, whose `grep` has other patterns."""
        path = f"./{os.fsdecode(self.inside)}" if self.inside else "."
        try:
            path.encode()
        except UnicodeEncodeError:
            why = "its name is not UTF-8; search the directory above"
            raise Request("search", self.path).error("bad_path", why) from None
        return ["sh", "-c", _SCRIPT, "sh", self.pattern, path, str(ROWS_MAX)]

    def answer(self, program: str, written: str) -> Answer:
        """Read what a command wrote.

        Args:
            program: `python3` or `sh`.
            written: Its stdout, whole.

        Raises:
            BadPattern: The pattern is no regular expression.
            WorkspaceError: Nothing at the path can be searched.
            Unanswered: It is no answer.
        """
        try:
            told = json.loads(written) if program == "python3" else _read_lines(written)
        except (ValueError, RecursionError):
            raise Unanswered from None
        match told:
            case {"bad": str(why)}:
                raise BadPattern(why[:LINE_MAX_CHARS])
            case {"errno": int(number)} if 0 < number < 1 << 12:
                raise self._refused(number)
            case {"mode": int(mode)} if 0 < mode < 1 << 16:
                raise Request("search", self.path).refusal(mode)
            case _:
                return _checked(told)

    def _refused(self, number: int) -> WorkspaceError:
        if number == errno.ENOTDIR:  # a file stands where a directory would
            number = errno.ENOENT
        return Request("search", self.path).from_os(OSError(number, ""))


def _checked(told: object) -> Answer:
    try:
        answer = Answer.model_validate_json(json.dumps(told))
    except (ValidationError, ValueError, RecursionError):
        raise Unanswered from None
    rows = [(_public(path), line, text) for path, line, text in answer.rows]
    stopped = answer.stopped and (_public(answer.stopped[0]), answer.stopped[1])
    return answer.model_copy(update={"rows": rows, "stopped": stopped})


def _public(path: str) -> str:
    try:
        return public_name(os.fsdecode(path.encode("latin-1")))
    except UnicodeEncodeError:
        raise Unanswered from None


def _read_lines(written: str) -> dict[str, Any]:
    """Read what the script wrote.

    Raises:
        ValueError: It wrote something else.
    """
    *lines, last = written.removesuffix("\n").split("\n")
    if last == "e":
        return {"errno": errno.ENOENT}
    if written.startswith("x"):
        return {"bad": written[1:].strip()}
    totals = _TOTALS.fullmatch(last)
    if totals is None:
        raise ValueError
    found, in_files, binary = map(int, totals.groups())
    rows = [
        (_latin(row[1]), int(row[2]), row[3])
        for row in map(_ROW.fullmatch, lines)
        if row
    ]
    return {"rows": rows, "lines": found, "files": in_files, "binary": binary}


def _latin(path: str) -> str:
    return path.encode().decode("latin-1")


@cache
def _program() -> str:
    return files("kern_tools").joinpath("driver_search.py").read_text("utf-8")
