"""Claims of the descriptions of the tools for files."""

from __future__ import annotations

import base64

from .claim import Claim, Live, Said, claim
from .place import END, fails, numbers, size_of, speaks_python
from .work import PIXEL


def edits_exactly(live: Live, said: Said) -> None:
    """Blanks and line ends count, once unless told, and nothing else changes."""
    data = b"\xef\xbb\xbfone\r\n  two\r\n\r\n  two\r\n"
    live.sandbox.write_file("e.txt", data)
    for old in ("two\n", " \ntwo", "  two\r\n  two", "Two"):
        assert (
            live.call("edit_file", path="e.txt", old=old, new="x").error == "no_match"
        )
    assert live.call("edit_file", path="e.txt", old="two", new="x").error == "ambiguous"
    assert live.sandbox.read_file("e.txt") == data
    every = {"old": "  two\r\n", "new": "  2\r\n", "replace_all": True}
    assert live.call("edit_file", path="e.txt", **every).error is None
    assert live.sandbox.read_file("e.txt") == data.replace(b"two", b"2")


def says_why(live: Live, said: Said) -> None:
    """A change is shown, and so is why there was none."""
    live.sandbox.write_file("e.txt", "one\ntwo words\none\n")
    shown = live.call("edit_file", path="e.txt", old="two words", new="2").text
    assert "-two words\n+2\n" in shown
    near = live.call("edit_file", path="e.txt", old="2\nonce", new="x").text
    assert near.startswith("error: no_match. ")
    assert "```\n2\none\n```" in near
    both = live.call("edit_file", path="e.txt", old="one", new="x").text
    assert both.startswith("error: ambiguous. ")
    assert "lines 1, 3" in both


def edits_up_to(live: Live, said: Said) -> None:
    """A larger file is refused, and so is one that is not UTF-8."""
    most = size_of(said["most"])
    for size, error in ((most, None), (most + 1, "too_large")):
        live.sandbox.write_file("e.txt", b"y" + b"x" * (size - 1))
        assert live.call("edit_file", path="e.txt", old="y", new="z").error == error
    live.sandbox.write_file("e.txt", b"\xff")
    assert live.call("edit_file", path="e.txt", old="y", new="z").error == "bad_data"


def relative(live: Live, said: Said) -> None:
    """A name is the same file to code and to the tool, also as a whole path."""
    live.sandbox.write_file("sub/r.txt", "hello")
    if speaks_python(live.facts):
        path = f"{said['where']}/sub/r.txt"
        read = f"print(open('sub/r.txt').read() == open({path!r}).read())"
        assert live.says(read, "python") == "True"
    for path in ("sub/r.txt", f"{said['where']}/sub/r.txt"):
        assert live.call("read_file", path=path).error is None


PATTERNS = {
    "*.py": {"a.py", "b.py"},
    "?.p[x-z]": {"a.py", "b.py"},
    "**/*.py": {"a.py", "b.py", "src/c.py", "src/deep/d.py"},
    "src/**": {"src/c.py", "src/deep/d.py", "src/x.md"},
    "{a,b}.py": {"a.py", "b.py"},
    "src/*": {"src/c.py", "src/x.md"},
    "c.py": set[str](),
    "**/config": set[str](),
    ".git/*": {".git/config"},
}


def finds(live: Live, said: Said) -> None:
    """Each pattern finds just what it is said to."""
    files = set[str]().union(*PATTERNS.values())
    with _only(live, *files):
        for pattern, expected in PATTERNS.items():
            text = live.call("find_files", glob=pattern).text
            assert {name for name in files if f"\n{name}\n" in text} == expected


class _only:
    """The workspace with some files and no others, as far as the tools can see."""

    def __init__(self, live: Live, *names: str) -> None:
        self.live, self.names = live, names

    def __enter__(self) -> None:
        for file in self.live.sandbox.list_files():
            (self.live.sandbox.workspace.root / file.path).unlink()
        for name in self.names:
            self.live.sandbox.write_file(name, "needle\n")

    def __exit__(self, *_: object) -> None:
        pass


def first_paths(live: Live, said: Said) -> None:
    """By name, with the whole count."""
    names = [f"f{number:03}" for number in range(201)]
    with _only(live, *names):
        text = live.call("find_files", glob="f*").text
        assert text.startswith("ok, 201 files match f*, the first ")
        shown = text.split("```")[1].split()
        assert shown == names[: len(shown)]


def lists(live: Live, said: Said) -> None:
    """All below, or all below one directory."""
    with _only(live, "a.txt", "sub/deep/b.txt"):
        assert live.call("list_files").text.startswith("ok, 2 files\n")
        text = live.call("list_files", path="sub").text
        assert "           7  sub/deep/b.txt" in text
        assert "a.txt" not in text


def reads(live: Live, said: Said) -> None:
    """Lines, or an image, or as much as fits."""
    live.sandbox.write_file("r.txt", "".join(f"line {n}\n" for n in range(1, 9000)))
    most = numbers(said["most"])
    assert most == live.facts.text_chars
    whole = live.call("read_file", path="r.txt").text
    assert most * 0.8 < len(whole) <= most
    assert "\nline 1\n" in whole
    assert "of 8,999 in r.txt" in whole
    part = live.call("read_file", path="r.txt", offset=3, limit=2).text
    assert "```\nline 3\nline 4\n```" in part
    live.sandbox.write_file("r.png", base64.b64decode(PIXEL))
    image = live.call("read_file", path="r.png")
    assert len(image.images) == min(1, live.facts.images)


def reads_spills(live: Live, said: Said) -> None:
    """The path in a reply that was cut leads to all of it."""
    text = live.call("run_code", code="print('x\\n' * 20_000)").text
    path = text.partition("all of it in ")[2].partition(")")[0]
    assert live.call("read_file", path=path, offset=15_000, limit=1).error is None


def searches_lines(live: Live, said: Said) -> None:
    """Rows have that form; a line break is never matched."""
    with _only(live, "b.txt", "a/x.txt"):
        live.sandbox.write_file("b.txt", "one\nneedle 12\n")
        text = live.call("search_files", pattern="needl(e|x) ?[0-9]*").text
        assert text.startswith("ok, 2 lines in 2 files match\n")
        assert {"a/x.txt:1: needle", "b.txt:2: needle 12"} <= set(text.split("\n"))
        assert "no line" in live.call("search_files", pattern="one.needle").text
        if said["engine"] == "Python's `re`":
            assert (
                "2 lines" in live.call("search_files", pattern=r"(?i)\bNEEDLE\b").text
            )


def searches_within(live: Live, said: Said) -> None:
    """A directory, a file, or `.git`; what cannot be text is passed over."""
    with _only(live, "a/x.txt", "b.txt", ".git/config"):
        live.sandbox.write_file("binary", b"needle\0")
        (live.sandbox.workspace.root / "link").symlink_to("b.txt")
        for path, found in {
            None: {"a/x.txt", "b.txt"},
            "a": {"a/x.txt"},
            "b.txt": {"b.txt"},
            ".git": {".git/config"},
        }.items():
            text = live.call("search_files", pattern="needle", path=path).text
            places = ("a/x.txt", "b.txt", ".git/config", "binary", "link")
            assert {name for name in places if f"\n{name}:1: needle" in text} == found
        (live.sandbox.workspace.root / "link").unlink()


def writes(live: Live, said: Said) -> None:
    """All of the file is as given, in directories that were not there."""
    live.sandbox.write_file("w.txt", "longer than what comes")
    for path in ("w.txt", "new/deep/w.txt"):
        text = "a\r\nb\ttab \n\n漢"
        assert live.call("write_file", path=path, content=text).error is None
        assert live.sandbox.read_file(path) == text.encode()


def holds(live: Live, said: Said) -> None:
    """The cap is the one that is set."""
    assert size_of(said["most"]) == live.facts.workspace_max_bytes


FILE_TOOLS: tuple[Claim, ...] = (
    claim(
        "Replace text in a file of the sandbox's workspace. `old` is the text to"
        " replace, exactly as it is in the file: indentation, blank lines and line ends"
        r" count\. It has to be there once; with `replace_all` every place is"
        r" replaced\."
        " All other bytes stay as they are" + END,
        "edit_file",
        probe=edits_exactly,
    ),
    claim(
        "The reply shows what changed, or says why nothing did: `no_match` with the"
        " nearest place, `ambiguous` with the lines where `old` is" + END,
        "edit_file",
        probe=says_why,
    ),
    claim(
        r"Files of up to (?P<most>\d+ MiB) in UTF-8" + END,
        "edit_file",
        probe=edits_up_to,
    ),
    claim(
        r"Paths are relative to (?P<where>\S+), as in code" + END,
        *("edit_file", "find_files", "list_files", "read_file"),
        *("search_files", "write_file"),
        probe=relative,
    ),
    claim(
        r"Find files of the sandbox's workspace by a pattern for their whole path:"
        r" `\*`,"
        r" `\?` and `\[a-z\]` match within a name, `\*\*` any directories, alternatives"
        r" stand in braces\. `\*\.py` is at the top only, `\*\*/\*\.py` everywhere,"
        r" `src/\*\*` all below `src`\. What is in `\.git` is passed over unless the"
        " pattern names it" + END,
        "find_files",
        probe=finds,
    ),
    claim(
        "The reply has the first paths by name, and how many there are in all" + END,
        "find_files",
        probe=first_paths,
    ),
    claim(
        "List the files of the sandbox's workspace, or of one directory of it, with all"
        " below: size in bytes and path" + END,
        "list_files",
        probe=lists,
    ),
    claim(
        "Read a file of the sandbox's workspace: text by lines, PNG and JPEG as an"
        r" image\. Without `offset` and `limit` it starts at the first line and goes on"
        r" as far as one reply holds \((?P<most>[\d,]+) characters\); the reply says"
        r" how"
        " many lines there are" + END,
        "read_file",
        probe=reads,
    ),
    claim(
        "Long output of a call that was cut can be read here under the path its reply"
        " gave" + END,
        "read_file",
        probe=reads_spills,
        where=speaks_python,
    ),
    claim(
        r"Search the files of the sandbox's workspace for a regular expression"
        r" \((?P<engine>.+?)\), line by line\. The reply has `path:line: text` of the"
        " first matches, and how many there are in all" + END,
        "search_files",
        probe=searches_lines,
        where=lambda f: f.looked_into and fails(f),
    ),
    claim(
        "`path` limits the search to a directory or a file. Binary files, links and"
        r" what is in `\.git` are passed over; to search `\.git`, name it in `path`"
        + END,
        "search_files",
        probe=searches_within,
        where=fails,
    ),
    claim(
        "Write a text file into the sandbox's workspace, replacing what was there."
        " `content` is the whole file, stored exactly as given; directories above it"
        " are made" + END,
        "write_file",
        probe=writes,
    ),
    claim(
        r"The workspace holds at most (?P<most>[\d.,]+ \w+)" + END,
        "write_file",
        when=lambda f: f.workspace_max_bytes is not None,
        probe=holds,
    ),
)
