"""A search by `find` and `grep`, for images that have no Python."""

from __future__ import annotations

import errno
import re
from typing import Any

SCRIPT = r"""
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


def read_lines(written: str) -> dict[str, Any]:
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
