"""How names are spelled: on disk, in results, on a screen, and back."""

from __future__ import annotations

import os
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kern_tools.faults import WorkspaceError
from kern_tools.names import file_names, parts_of, public_name, shown_name

raw_names = (
    st.one_of(
        st.binary(min_size=1, max_size=40),
        st.text(min_size=1, max_size=20).map(lambda t: t.encode("utf-8", "replace")),
        st.lists(
            st.sampled_from(["\\", "x", "5c", "80", "u", "202e", "ff", "0a", "U0001"]),
            min_size=1,
        ).map(lambda pieces: "".join(pieces).encode()),
    )
    .map(lambda raw: raw.replace(b"/", b"_").replace(b"\0", b"0")[:255])
    .filter(lambda raw: raw not in {b".", b".."})
)

SAME_FILE = {
    "x": (b"x",),
    "./x": (b"x",),
    "a//b": (b"a", b"b"),
    "a/../b": (b"b",),
    "a/b/../../c": (b"c",),
    "/workspace/x": (b"x",),
    "//workspace//x": (b"x",),
    "/workspace/a/../x": (b"x",),
    "/./workspace/x": (b"x",),
    "workspace/x": (b"workspace", b"x"),
    " x ": (b" x ",),
    "...": (b"...",),
    "~/x": (b"~", b"x"),
    "C:\\x": (b"C:\\x",),
    "n" * 255: (b"n" * 255,),
}

REFUSED = {
    "": "bad_path",
    "..": "outside",
    "../x": "outside",
    "a/../../x": "outside",
    "/": "outside",
    "/etc/passwd": "outside",
    "/workspace/../etc/passwd": "outside",
    "/workspaces/x": "outside",
    "/workspace": "is_directory",
    "/workspace/": "is_directory",
    ".": "is_directory",
    "a/": "is_directory",
    "a/.": "is_directory",
    "a/b/..": "is_directory",
    "a\0b": "bad_path",
    "\\x00": "bad_path",
    "a\ud800": "bad_path",
    "caf\udce9": "bad_path",
    "n" * 256: "bad_path",
    "é" * 128: "bad_path",
    "a/" * 3000 + "b": "bad_path",
}

SHOWN = {
    "plain ünïcode 😀.txt": "plain ünïcode 😀.txt",
    "a\nb": "a\\x0ab",
    "\x1b[31mred": "\\x1b[31mred",
    "del\x7f": "del\\x7f",
    "c1\x9b": "c1\\u009b",
    "gpj\u202eexe": "gpj\\u202eexe",
    "line\u2028end": "line\\u2028end",
    "tag\U000e0041": "tag\\U000e0041",
    "byte\udce9": "byte\\xe9",
    "half\ud83d": "half\\ud83d",
}


@pytest.mark.parametrize(("spelled", "names"), SAME_FILE.items())
def test_a_path_is_split_into_names(spelled: str, names: tuple[bytes, ...]) -> None:
    """Every accepted spelling leads to one place below the workspace."""
    assert file_names(spelled) == names


@pytest.mark.parametrize(("spelled", "code"), REFUSED.items())
def test_a_path_that_cannot_be_used_is_refused(spelled: str, code: str) -> None:
    """The error carries a code, the path, and text that can be shown."""
    with pytest.raises(WorkspaceError) as caught:
        file_names(spelled)
    assert caught.value.code == code
    assert caught.value.path == spelled
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 2000


def test_the_workspace_itself_has_no_names() -> None:
    """Listings may name the top in each of its spellings."""
    spelled = ["", ".", "/workspace", "/workspace/", "a/.."]
    assert {parts_of(path) for path in spelled} == {()}


@pytest.mark.parametrize(("name", "shown"), SHOWN.items())
def test_a_name_is_shown_on_one_line_in_one_direction(name: str, shown: str) -> None:
    """Controls, bidi marks and broken bytes are escaped, the rest is as it was."""
    assert shown_name(name) == shown


@given(raw_names)
@example(b"caf\xe9")
@example(b"\\x80")
@example(b"\\\xff")
@example(b"\\x5cx80")
@example(b"caf\\xc3\\xa9")
@example("\u202e\\u202e\n\\x0a".encode())
@example(b"\\ud800")
@example(b"\\U00110000")
@example(b"\\Uffffffff")
def test_every_name_on_disk_can_be_spelled_and_found_again(raw: bytes) -> None:
    """The public and the shown spelling are UTF-8 and lead back to the same bytes."""
    public = public_name(os.fsdecode(raw))
    public.encode("utf-8")
    assert file_names(public) == (raw,)
    assert file_names(shown_name(public)) == (raw,)


@pytest.mark.parametrize("path", ["\\ud800", "\\U00110000", "\\Uffffffff"])
def test_an_escape_of_no_character_is_a_name_as_it_stands(path: str) -> None:
    """A model may write it, and a file may be called so."""
    assert file_names(path) == (path.encode(),)


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_what_is_shown_has_no_controls(text: str) -> None:
    """Whatever comes in, nothing that moves a cursor or turns text comes out."""
    shown = shown_name(text)
    shown.encode("utf-8")
    hidden = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert not hidden & {unicodedata.category(char) for char in shown}


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30))
def test_a_usual_name_is_spelled_as_it_is(text: str) -> None:
    """Only broken bytes and backslash escapes have a spelling of their own."""
    name = text.replace("\\", "")
    assert public_name(os.fsdecode(name.encode("utf-8"))) == name
