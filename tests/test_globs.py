"""Patterns for paths: what they mean, and that none of them can be slow."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kern_tools.globs import ALTERNATIVES_MAX, GLOB_MAX_CHARS, BadGlob, Glob


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*.py", "a.py", True),
        ("*.py", "x/a.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "x/y/a.py", True),
        ("src/**", "src/a", True),
        ("src/**", "src/a/b", True),
        ("src/**", "src", False),
        ("src/", "src/a/b", True),
        ("src", "src/a", False),
        ("a/**/b", "a/b", True),
        ("a/**/**/b", "a/x/y/b", True),
        ("a/**/b", "ab", False),
        ("**", "x/y", True),
        ("**/test/**/*.py", "a/test/b/c.py", True),
        ("**/test/**/*.py", "a/b/c.py", False),
        ("./a/./b", "a/b", True),
        ("/workspace/a", "a", True),
        ("{a,b}/*.{ts,tsx}", "b/x.tsx", True),
        ("{a,b}/*.{ts,tsx}", "c/x.ts", False),
        ("{a}", "{a}", True),
        ("?[!x-z]", "ab", True),
        ("?[!x-z]", "ay", False),
        ("*", ".hidden", True),
        ("**/*", ".git/config", False),
        (".git/**", ".git/config", True),
        ("**/.git/*", "a/.git/config", True),
        ("**/.gitignore", ".gitignore", True),
        ("*.PY", "a.py", False),
        ("a\nb*", "a\nbc", True),
        ("[", "[", True),
    ],
)
def test_a_pattern_means_this(pattern: str, path: str, matches: bool) -> None:
    """Names by `*`, directories by `**`."""
    assert Glob(pattern).matches(path) is matches


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("/etc/*", "is outside /workspace"),
        ("/workspaces/a", "is outside /workspace"),
        ("a/../b", "leads out of the workspace"),
        ("/workspace/", "names nothing"),
        ("x" * (GLOB_MAX_CHARS + 1), "501 characters, more than 500"),
        ("{a,b}" * 7, f"more than {ALTERNATIVES_MAX} patterns"),
    ],
)
def test_a_pattern_that_cannot_be_used_says_why(pattern: str, why: str) -> None:
    """The words go to a model."""
    with pytest.raises(BadGlob, match=why):
        Glob(pattern)


@pytest.mark.parametrize("pattern", ["*a" * 200 + "b", "**/*a/" * 70 + "b", "?*" * 200])
def test_no_pattern_takes_for_ever(pattern: str) -> None:
    """Each of these would outlive the test if it were tried way by way."""
    glob = Glob(pattern)
    for path in ("a" * 255, "/".join(["a" * 50] * 300), "/".join("a" * 2000)):
        glob.matches(path)


NAMES = st.text("ab.[]!*?-^&~|\\", min_size=1, max_size=4)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


@given(pattern=PATHS, path=PATHS)
def test_any_text_is_a_pattern_or_refused(pattern: str, path: str) -> None:
    """Nothing but `BadGlob` is raised, and no warning."""
    try:
        glob = Glob(pattern)
    except BadGlob:
        return
    glob.matches(path)


PLAIN = st.lists(
    st.text("ab", min_size=1, max_size=3) | st.sampled_from(["*", "a*", "?b", "[ab]"]),
    min_size=1,
    max_size=4,
).map("/".join)
PLAIN_PATHS = st.lists(
    st.text("ab", min_size=1, max_size=3), min_size=1, max_size=4
).map("/".join)


@given(pattern=PLAIN, path=PLAIN_PATHS)
def test_without_stars_in_pairs_it_is_the_glob_of_pathlib(
    pattern: str, path: str
) -> None:
    """A pattern for the whole path means what it does elsewhere."""
    same_depth = pattern.count("/") == path.count("/")
    expected = same_depth and PurePosixPath(path).match(pattern)
    assert Glob(pattern).matches(path) is expected
