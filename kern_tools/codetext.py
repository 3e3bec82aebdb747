"""Model-written code: unwrapped where it plainly came wrapped, else left as it is."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace

from .fences import Fence, find_fence

PARSED_MAX_CHARS = 16_384
"""Longer code is not parsed on the host, so what needs that is not repaired."""

LANGUAGES_MEANT = {
    "python": "python",
    "python3": "python",
    "py": "python",
    "bash": "bash",
    "sh": "sh",
    "node": "node",
    "nodejs": "node",
    "javascript": "node",
    "js": "node",
}
"""What models call a language, and our name for it."""

SEVERAL_FENCES = (
    "the code is wrapped in more than one markdown fence, and it is not clear which "
    "part to run"
)

_PAIR = re.compile(r"\\(.)", re.DOTALL)
_QUIET_ESCAPES = frozenset("\\'\"abfnrtv\n")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|[\"'\\/bfnrt])")
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True, slots=True)
class Code:
    """Code to run, after its repairs.

    Attributes:
        text: The code.
        language: Its language, or None where neither caller nor fence said.
        repairs: What was changed, each a clause for the model.
        problem: Why it cannot be told what to run, or None.
    """

    text: str
    language: str | None = None
    repairs: tuple[str, ...] = ()
    problem: str | None = None

    def repaired(self, text: str, how: str) -> Code:
        """Replace the text, and say how."""
        return replace(self, text=text, repairs=(*self.repairs, how))


def repair_code(text: str, language: str | None = None) -> Code:
    """Take code out of a markdown fence, or undo one escaping too many.

    Code that parses is never changed, nor is a part of code that is not wholly wrapped.

    Args:
        text: What stands where the code belongs.
        language: The language asked for; None means Python, unless a fence says else.

    Returns:
        The code, with what was changed.
    """
    return _unescaped(_unfenced(Code(text, language)))


def parses(source: str) -> bool | None:
    """Say whether `source` has the grammar of Python, without compiling it.

    Args:
        source: Text of any origin.

    Returns:
        None where it is too long, or too deeply nested, to be tried on the host.
    """
    if len(source) > PARSED_MAX_CHARS:
        return None
    try:
        ast.parse(_PAIR.sub(_quiet, source), "<code>")
    except SyntaxError:
        return False
    except (ValueError, RecursionError, MemoryError, OverflowError):
        return None
    return True


def _quiet(pair: re.Match[str]) -> str:
    # An unknown escape such as "\d" would warn on the host; doubled, it parses alike.
    return pair[0] if pair[1] in _QUIET_ESCAPES else f"\\{pair[0]}"


def _unfenced(code: Code) -> Code:
    fence = find_fence(code.text)
    if fence is None:
        return code
    named = LANGUAGES_MEANT.get(fence.info.lower())
    inner = replace(code, language=code.language or named or "python")
    if fence.alone:
        return inner.repaired(fence.content, "took the code out of its markdown fence")
    if _is_python(code) and _holds_code(fence, inner, code):
        return inner.repaired(fence.content, _how(fence))
    if not fence.before and code.text.lstrip().startswith("```"):
        return _left_open(fence, inner) or replace(code, problem=SEVERAL_FENCES)
    return code


def _holds_code(fence: Fence, inner: Code, whole: Code) -> bool:
    """Tell prose around code from code that has a fence in one of its strings."""
    if not fence.closed or any(q in fence.before for q in ('"""', "'''")):
        return False
    if parses(whole.text) is not False:
        return False
    if _is_python(inner):
        return parses(fence.content) is True
    return not fence.several


def _how(fence: Fence) -> str:
    if fence.before or fence.after:
        return "ran only the fenced code, without the text around it"
    return "took the code out of its markdown fence"


def _left_open(fence: Fence, inner: Code) -> Code | None:
    if fence.closed or fence.several:
        return None
    return inner.repaired(
        fence.content, "dropped a markdown fence line that nothing closes"
    )


def _unescaped(code: Code) -> Code:
    if not _is_python(code) or code.problem or "\n" in code.text.strip():
        return code
    if "\\n" not in code.text and '\\"' not in code.text:
        return code
    if parses(code.text) is not False:
        return code
    plain = code.repaired(
        _ESCAPE.sub(_unescape, code.text),
        "undid one escaping too many: the code came with \\n where lines end",
    )
    unwrapped = _unfenced(plain)
    return unwrapped if parses(unwrapped.text) else code


def _unescape(found: re.Match[str]) -> str:
    escaped = found[1]
    if escaped[0] == "u" and len(escaped) > 1:
        return chr(int(escaped[1:], 16))
    return _ESCAPED.get(escaped, escaped)


def _is_python(code: Code) -> bool:
    return code.language in (None, "python")
