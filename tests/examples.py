"""The code in docstrings, run as it is printed."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from types import CodeType
from typing import Any


def examples_of(thing: object) -> list[str]:
    """Give the indented blocks of a docstring, in order.

    Args:
        thing: A module, class or function. Its sections, such as `Args:`, are text.
    """
    return list(_blocks((inspect.getdoc(thing) or "").splitlines()))


async def run_examples(thing: object, names: dict[str, Any]) -> int:
    """Run the examples of one docstring after each other.

    Args:
        thing: What has the docstring.
        names: What a reader brings along; what the examples define is added.

    Returns:
        How many there were.
    """
    found = examples_of(thing)
    for code in found:
        flag = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        compiled: CodeType = compile(code, "<example>", "exec", flags=flag)
        waiting = eval(compiled, names)
        if inspect.isawaitable(waiting):
            await waiting
    return len(found)


def _blocks(lines: list[str]) -> Iterator[str]:
    block: list[str] = []
    begun, before = False, ""
    for line in [*lines, ""]:
        if line.startswith("    ") and (begun or not before):
            begun = True
            block.append(line)
        elif begun and line:
            yield textwrap.dedent("\n".join(block)).strip() + "\n"
            block, begun = [], False
        elif begun:
            block.append(line)
        before = line
    if begun:
        yield textwrap.dedent("\n".join(block)).strip() + "\n"
