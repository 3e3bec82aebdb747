"""Results cut down to what an artifact may hold."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kern_tools.config import Budget
from kern_tools.reply import Reply, TextPart, bounded, result_of_artifact
from kern_tools.result import ExecutionResult, FileInfo, RichResult

FIGURE = RichResult(data={"text/plain": "<Figure>", "image/png": "A" * 4000})
TABLE = RichResult(data={"text/html": "<td>1" * 100, "text/plain": "1"})


def test_a_result_that_fits_is_kept_as_it_is() -> None:
    """Most are small, and then nothing is copied."""
    result = ExecutionResult(stdout="x" * 64_000, results=[FIGURE, TABLE])
    assert bounded(result, Budget()) is result


def test_streams_keep_their_head_and_their_true_size() -> None:
    """The flag that a cut stream always has is set; the other stream is whole."""
    result = ExecutionResult(
        stdout="0123456789" * 10, code_stderr="warn\n", stdout_bytes=100
    )
    smaller = bounded(result, Budget(artifact_chars=15))
    assert (smaller.stdout, smaller.code_stderr) == ("012345678901234", "warn\n")
    assert (smaller.truncated, smaller.stdout_bytes) == (True, 100)
    assert len(result.stdout) == 100


def test_an_image_goes_before_the_text_of_its_value() -> None:
    """What says most in the fewest bytes stays, and what is missing is counted."""
    result = ExecutionResult(results=[FIGURE, TABLE], results_omitted=2)
    smaller = bounded(result, Budget(artifact_bytes=600))
    assert [value.formats() for value in smaller.results] == [
        ["text/plain"],
        ["text/html", "text/plain"],
    ]
    assert smaller.results_omitted == 3
    nothing = bounded(result, Budget(artifact_bytes=0))
    assert (nothing.results, nothing.results_omitted) == ([], 4)


def test_a_value_after_one_that_is_too_large_is_kept() -> None:
    """One huge value does not take the small ones with it."""
    huge = RichResult(data={"text/plain": "\u00e9" * 1000})
    smaller = bounded(
        ExecutionResult(results=[huge, TABLE]), Budget(artifact_bytes=1500)
    )
    assert smaller.results == [TABLE]
    assert smaller.results_omitted == 1


def test_files_with_endless_names_are_counted() -> None:
    """Code chooses the names, and a thousand long ones would be megabytes."""
    files = [FileInfo(path=f"{n:04}" * 1000, size=n) for n in range(1000)]
    smaller = bounded(ExecutionResult(files=files), Budget())
    assert smaller.files == files[:16]
    assert smaller.files_omitted == 984


def test_the_verdict_is_never_cut() -> None:
    """Code branches on it, whatever the budget."""
    result = ExecutionResult(stdout="x", exit_code=3, call_id="c1", runtime_notes=["n"])
    smaller = bounded(result, Budget(artifact_chars=0, artifact_bytes=0))
    assert (smaller.exit_code, smaller.call_id) == (3, "c1")
    assert (smaller.stdout, smaller.stderr, smaller.truncated) == ("", "", True)


TEXTS = st.text(max_size=60)
VALUES = st.builds(
    RichResult,
    data=st.dictionaries(st.sampled_from(["a/b", "text/plain", "image/png"]), TEXTS),
)
FILES = st.builds(FileInfo, path=TEXTS, size=st.integers(0, 9))
RESULTS = st.builds(
    ExecutionResult,
    stdout=TEXTS,
    code_stderr=TEXTS,
    runtime_notes=st.lists(TEXTS, max_size=3),
    results=st.lists(VALUES, max_size=4),
    files=st.lists(FILES, max_size=4),
)


@given(result=RESULTS, chars=st.integers(0, 80), most_bytes=st.integers(0, 200))
def test_the_bounds_hold_and_what_is_stored_reads_back(
    result: ExecutionResult, chars: int, most_bytes: int
) -> None:
    """No part is over its bound, and the artifact is the bounded result."""
    stored = bounded(result, Budget(artifact_chars=chars, artifact_bytes=most_bytes))
    assert max(map(len, (stored.stdout, stored.code_stderr))) <= chars
    assert sum(len(note) for note in stored.runtime_notes) <= chars
    assert sum(len(file.path) for file in stored.files) <= chars
    pieces = [m + text for value in stored.results for m, text in value.data.items()]
    assert sum(len(piece.encode()) for piece in pieces) <= most_bytes
    assert len(stored.files) + stored.files_omitted == len(result.files)
    reply = Reply(name="x", parts=(TextPart("x"),), result=result, stored=stored)
    assert result_of_artifact(reply.artifact) == stored
