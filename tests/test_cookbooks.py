"""The cookbooks: each runs in a kernel of its own, on real boxes, without a key.

Where `OPENAI_API_KEY` or `OPENAI_BASE_URL` is set, the same cells ask a model; a test
does that with a server of its own.
"""

from __future__ import annotations

import ast
import html
import os
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from kern_tools.scripted import ScriptedCall, ScriptedServer, Step
from tests.depth import partly

FOLDER = Path(__file__).parent.parent / "cookbooks"

# Words that each has to show, in this order.
SHOWN = {
    "01_responses_loop": (
        *("turn 1", "is_prime", "exit 1", "NameError", "exit 0", "76127", "76,127"),
        *("ended: done, 3 turns", "done - The primes below 1,000 add up to 76,127."),
        *("run_code None 1", "run_code None 0", "timeout - That would take too"),
        *("done - Ann lives in Utrecht.", "It printed 42."),
    ),
    "02_chat_loop": (
        *("write_file", "ok, wrote n.csv", "4950", "ended: done, 2 turns"),
        "['user', 'assistant', 'tool', 'tool', 'assistant']",
        *("<img", "I was shown 1 chart", "It printed 1.", "note:", "fence"),
    ),
    "03_langchain_chart": (
        *("turn 1", "run_code", "exit 0", "groupby", "<img"),
        *("I was shown 1 chart", "success 0 [['text/plain', 'image/png']]"),
        *("I was shown 1 chart", "I was shown 1 chart"),
    ),
    "04_langgraph_approval": (
        *("{'run': ['print(sum(range(10**12)))']}", "That took too long."),
        *("{'run': ['n = 10**12", "ran: timeout", "ran: exit 0"),
        "The sum is 499,999,999,999,500,000,000,000.",
    ),
    "05_llama_index": (
        *("turn 1", "run_code", "exit 0", "The squares are 0, 1 and 4."),
        *("run_code 0 None", "timeout: stopped at the 1 s limit"),
        "499999999999500000000000",
    ),
    "06_code_act_agent": (
        *("I read the file first.", "execute", "exit 0", "2012/12/17"),
        *("The windiest day was 2012-12-17.", "0 None {'date'", "0 None 2012/12/17"),
    ),
    "07_data_analysis": (
        *("precipitation", "<img", "['text/plain', 'image/png']", "by_year.csv"),
        *("2012,3.3,15.3", "counts", "<img", "Most days were sunny or rainy"),
        *("no attribute 'humidity'", "timeout names lost: False", "(True, 1461)"),
        *("timeout names lost: True", "False pandas", "new kernel: True"),
    ),
    "08_many_conversations": (
        *("ann's", "2 open; bob's: None", "bob's", "anew: True - files lost: False"),
        *("ann's and more", "path='x'", "[]"),
        *("['1 so far', '1 so far'", "2 so far", "reason='conversation'", "True 7"),
    ),
    "09_options_and_sharp_edges": (
        *("What holds there", "memory_mb=0 is out of range", "did you mean"),
        *("fine", "its own error, exit 1", "its own error, exit 3", "signal 11"),
        *("timeout, for the model", "exec_failed, for the model", "escape_blocked"),
        *("['kept'] [] False", "Network is unreachable", "from the host"),
        *("Read-only file system", "6", "False", "10000 of 100001 - truncated: True"),
        *("workspace_full", "cancelled; and now: hello"),
    ),
    "10_your_framework": ("It printed 42.", "['42\\n']", "passed"),
}


# Kernels import whole frameworks, and some cells wait for a deadline.
pytestmark = pytest.mark.timeout(400)


def stored(name: str) -> Any:
    """Read a cookbook."""
    return nbformat.read(FOLDER / f"{name}.ipynb", nbformat.NO_CONVERT)  # type: ignore[no-untyped-call]


async def outputs(notebook: Any, folder: Path, **env: str) -> list[Any]:
    """Execute a notebook in a new kernel, in a folder of its own; stop at an error."""
    known = {k: v for k, v in os.environ.items() if not k.startswith("OPENAI_")}
    place = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=300, resources=place)
    await client.async_execute(env={**known, **env})
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def text_of(output: Any) -> str:
    """Give what an output shows: HTML without its tags, but for images."""
    if output.output_type == "stream":
        return str(output.text)
    data = output.data
    page = re.sub(r"<style>.*?</style>", "", data.get("text/html", ""), flags=re.DOTALL)
    shown = re.sub(r"<(?!img)[^>]*>", " ", page)
    return f"{html.unescape(shown)}\n{data.get('text/plain', '')}"


def test_every_cookbook_is_run_here() -> None:
    """A new one is entered in the table, with what it has to show."""
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(SHOWN)


@pytest.mark.parametrize("name", SHOWN)
def test_a_cookbook_is_stored_without_outputs(name: str) -> None:
    """Valid, no output, no count: a change of it is a change of its text."""
    notebook = stored(name)
    nbformat.validate(notebook)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    for cell in notebook.cells:
        assert cell.metadata == {}
        assert (cell.get("outputs", []), cell.get("execution_count")) == ([], None)


# A client and the core: a kernel that imports a framework takes many seconds. The
# fifth and sixth run in the second environment of `make verify`.
QUICK = ("01_responses_loop",)


@pytest.mark.parametrize("name", SHOWN)
def test_what_a_cookbook_imports_is_there(name: str) -> None:
    """Its cells are Python, and each name that they import of ours is one."""
    cells = [cell.source for cell in stored(name).cells if cell.cell_type == "code"]
    top = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST
    for cell in cells:
        code = re.sub(r"\A%%writefile .*", "", cell)
        for node in ast.walk(compile(code, name, "exec", flags=top)):
            if isinstance(node, ast.ImportFrom) and "kern_tools" in str(node.module):
                module = import_module(str(node.module))
                assert [a.name for a in node.names if not hasattr(module, a.name)] == []


@pytest.mark.parametrize("name", partly(SHOWN, QUICK.__contains__))
async def test_a_cookbook_runs(name: str, tmp_path: Path) -> None:
    """From top to bottom, with no error, no warning, and what it promises in order."""
    found = await outputs(stored(name), tmp_path)
    printed = [output.text for output in found if output.get("name") == "stderr"]
    assert printed == []
    shown = "\n".join(map(text_of, found))
    for words in SHOWN[name]:
        _, seen, rest = shown.partition(words)
        assert seen, f"{words!r} is not in what follows:\n{shown}"
        shown = rest


@pytest.mark.verify
async def test_the_same_cells_ask_the_model_of_the_environment(tmp_path: Path) -> None:
    """With `OPENAI_BASE_URL` set nothing of the notebook's script is said."""
    notebook = stored("01_responses_loop")
    notebook.cells = notebook.cells[:6]  # up to its first answer
    turns: list[Step] = [
        ScriptedCall("run_code", {"code": "print(6 * 7)"}),
        "Your model speaks.",
    ]
    with ScriptedServer(turns) as server:
        place = {"OPENAI_BASE_URL": server.url, "OPENAI_MODEL": "yours"}
        found = await outputs(notebook, tmp_path, **place)
        asked = [request.body["model"] for request in server.requests]
    assert asked == ["yours", "yours"]
    assert "Your model speaks." in "\n".join(map(text_of, found))


async def test_a_run_is_drawn_while_it_goes_on(tmp_path: Path) -> None:
    """Each entry is one output of the cell, drawn again as it grows."""
    notebook: Any = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]
    code = """
import threading

from kern_tools import OutputEvent, Transcript
from kern_tools.loop_events import CallStarted, TextPiece, TurnStarted

transcript = Transcript()
transcript(TurnStarted(turn=1))
for text in ("one ", "two"):
    transcript(TextPiece(turn=1, text=text))
transcript(CallStarted(turn=1, call_id="a", tool="run_code", arguments="print(1)"))
transcript(OutputEvent("a", "stdout", "while it runs"))
for thread in threading.enumerate():  # what is drawn a little later
    if isinstance(thread, threading.Timer):
        thread.join()
transcript(TurnStarted(turn=2))
transcript(TextPiece(turn=2, text="whole"))  # at once: no more may come
"""
    sources = [code, "transcript"]
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in sources]  # type: ignore[no-untyped-call]
    found = await outputs(notebook, tmp_path)
    kinds = [output.output_type for output in found]
    assert kinds == [*["display_data"] * 3, "execute_result"]
    pages = [output.data["text/html"] for output in found]
    assert "one two" in pages[0]
    assert "while it runs" in pages[1]
    assert "running" in pages[1]
    assert "whole" in pages[2]
    assert "one two" in pages[3]
