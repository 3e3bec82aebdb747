"""What a reply costs to read, here and elsewhere, and what it leaves unsaid.

    python -m tests.bench.tokens

Each outcome of `tests/outcomes.py` comes about in our tool and in those of others, and
their texts are counted: characters, and tokens of two vocabularies of OpenAI's. A text
that leaves a fact unsaid is no bargain, so the bar is the shortest that says them all.
The record is kept in `results/tokens.json`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from pydantic import TypeAdapter

from kern_tools import Sandbox
from kern_tools.adapters.langchain import as_tools
from kern_tools.config import Budget
from kern_tools.rendering import render
from kern_tools.reply import TextPart
from tests.outcomes import OUTCOMES, Outcome

from .vocabulary import tokens_in

KEPT = Path(__file__).parent / "results" / "tokens.json"
OURS = "kern-tools"
_WORDS_KEPT_CHARS = 2_000
Say = Callable[[Outcome], str | None]
"""Has an outcome come about and gives the text; None where it cannot be had there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """What one tool says of one outcome.

    Attributes:
        of: Whose tool it is.
        missing: The facts that it leaves unsaid.
        tokens: By the name of the vocabulary.
        words: Its beginning.
    """

    of: str
    characters: int
    tokens: dict[str, int]
    missing: list[str]
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One outcome, as each tool tells it; ours is first."""

    outcome: str
    facts: list[str]
    texts: list[Text]

    @property
    def ours(self) -> Text:
        """Our text."""
        return self.texts[0]

    @property
    def bar(self) -> Text | None:
        """The shortest of the others' texts that says it all, if one does."""
        whole = [text for text in self.texts[1:] if not text.missing]
        return min(whole, key=lambda text: sum(text.tokens.values()), default=None)

    @property
    def is_met(self) -> bool:
        """Whether ours says it all, in no more tokens and no more characters."""
        return not self.ours.missing and (self.bar is None or self._within(self.bar))

    def _within(self, bar: Text) -> bool:
        counts = (self.ours.tokens[name] <= n for name, n in bar.tokens.items())
        return all(counts) and self.ours.characters <= bar.characters


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRecord:
    """One run: every outcome in every tool, and who could not run here."""

    began: str
    absent: dict[str, str]
    compared: list[Compared]

    def write(self, path: Path) -> None:
        """Keep it as JSON."""
        path.write_bytes(_RECORDS.dump_json(self, indent=1) + b"\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read one that was kept."""
        return _RECORDS.validate_json(path.read_bytes())  # type: ignore[return-value]


_RECORDS = TypeAdapter(TokenRecord)


# -- who is compared


@contextmanager
def ours() -> Generator[Say]:
    """Give our tool for LangChain; results that no box shows are rendered."""
    with Sandbox() as sandbox:

        def say(outcome: Outcome) -> str:
            if outcome.result is not None:
                return _rendered(sandbox, outcome)
            if outcome.options is None:
                return _called(sandbox, outcome)
            with Sandbox(**outcome.options) as own:
                return _called(own, outcome)

        yield say


def _rendered(sandbox: Sandbox, outcome: Outcome) -> str:
    assert outcome.result is not None
    (part,) = render(outcome.result, facts=sandbox.describe(), budget=Budget())
    assert isinstance(part, TextPart)
    return part.text


def _called(sandbox: Sandbox, outcome: Outcome) -> str:
    (tool,) = as_tools(sandbox, "run_code")
    given = {"code": outcome.code, "timeout_s": outcome.timeout_s}
    call = {"type": "tool_call", "id": "call_1", "name": tool.name}
    message: Any = tool.invoke({**call, "args": dict(outcome.arguments or given)})
    blocks = message.content
    return blocks if isinstance(blocks, str) else str(blocks[0]["text"])


@contextmanager
def binding_tool() -> Generator[Say]:
    """Give the LangChain tool of kern's own binding."""
    from kern_sandbox.langchain import (  # pyright: ignore[reportMissingTypeStubs]
        kern_code_tool,
    )

    from .rival import binding

    def say(outcome: Outcome) -> str | None:
        if outcome.result is not None:
            return None
        options: dict[str, Any] = dict(outcome.options or {})
        with binding(timeout_s=outcome.timeout_s or 30, **options) as sandbox:
            language: Any = (outcome.arguments or {}).get("language", "python")
            tool: Any = kern_code_tool(sandbox, language=language)
            if "code" in (outcome.arguments or {}) and not outcome.code:
                return None  # LangChain raises: nothing of the tool is read.
            return str(tool.invoke({"code": outcome.code}))

    yield say


@contextmanager
def llm_sandbox_tool() -> Generator[Say]:
    """Give the tool that llm-sandbox offers models, on its bubblewrap backend."""
    rival: Any = import_module("llm_sandbox")
    result_type: Any = import_module("llm_sandbox.data").ExecutionResult
    opened: list[Any] = []

    def session() -> Any:
        if not opened:
            backend = rival.SandboxBackend.BUBBLEWRAP
            made = rival.SandboxSession(lang="python", backend=backend)
            opened.append(made.__enter__())
        return opened[0]

    def say(outcome: Outcome) -> str | None:
        given = outcome.result or outcome.options or outcome.arguments
        if given or not outcome.code:
            return None
        # As its own server: an error is a result, and ends the session.
        try:
            result = session().run(outcome.code, timeout=outcome.timeout_s)
        except Exception as error:
            opened.pop().__exit__(None, None, None)
            result = result_type(exit_code=1, stderr=str(error))
        return str(result.to_json(include_plots=False))

    logging.disable(logging.ERROR)
    yield say
    for left in opened:
        left.__exit__(None, None, None)
    logging.disable(logging.NOTSET)


@contextmanager
def interpreter() -> Generator[Say]:
    """Give LlamaIndex's interpreter, which runs on this machine itself."""
    rival: Any = import_module("llama_index.tools.code_interpreter")
    harmless = ("printed", "value", "silent", "warning", "exception", "exit code")

    def say(outcome: Outcome) -> str | None:
        if outcome.name not in (*harmless, "truncated"):
            return None
        return str(rival.CodeInterpreterToolSpec().code_interpreter(outcome.code))

    yield say


CONTESTANTS: Mapping[str, Callable[[], Any]] = {
    OURS: ours,
    "kern's binding": binding_tool,
    "llm-sandbox": llm_sandbox_tool,
    "LlamaIndex's": interpreter,
}


# -- the run


def compare(
    names: Sequence[str] = tuple(CONTESTANTS), outcomes: Sequence[Outcome] = OUTCOMES
) -> TokenRecord:
    """Have every outcome told by everyone, and count.

    Args:
        names: Whose tools; ours is first.
        outcomes: Of which.

    Returns:
        The texts and their counts; who cannot run here, and why.
    """
    absent: dict[str, str] = {}
    with ExitStack() as opened:
        says: dict[str, Say] = {}
        for name in names:
            try:
                says[name] = opened.enter_context(CONTESTANTS[name]())
            except ImportError as error:
                absent[name] = str(error)
        compared = [_compared(outcome, says) for outcome in outcomes]
    began = datetime.now(UTC).isoformat(timespec="seconds")
    return TokenRecord(began=began, absent=absent, compared=compared)


def _compared(outcome: Outcome, says: Mapping[str, Say]) -> Compared:
    told = ((name, say(outcome)) for name, say in says.items())
    return Compared(
        outcome=outcome.name,
        facts=list(outcome.facts),
        texts=[_text(name, text, outcome) for name, text in told if text is not None],
    )


def _text(name: str, text: str, outcome: Outcome) -> Text:
    return Text(
        of=name,
        characters=len(text),
        tokens=tokens_in(text),
        missing=outcome.missing(text),
        words=text[:_WORDS_KEPT_CHARS],
    )


def table(record: TokenRecord) -> str:
    """Show tokens by outcome and tool; in brackets how many facts are unsaid."""
    names = [name for name in CONTESTANTS if name not in record.absent]
    rows = [["outcome", "facts", *names, ""], ["---", *["--:"] * (len(names) + 1), ""]]
    for each in record.compared:
        found = {text.of: text for text in each.texts}
        cells = [_cell(found.get(name)) for name in names]
        said = "" if each.is_met else "**over**"
        rows.append([each.outcome, str(len(each.facts)), *cells, said])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(text: Text | None) -> str:
    if text is None:
        return ""
    count = f"{text.tokens['o200k_base']:,}"
    return f"{count} (-{len(text.missing)})" if text.missing else f"**{count}**"


def main() -> None:
    """Compare, print, keep."""
    record = compare()
    print(table(record))
    for name, why in record.absent.items():
        print(f"{name} is not here: {why}", file=sys.stderr)
    if not record.absent:
        record.write(KEPT)


if __name__ == "__main__":
    main()
