"""From a language and its code to the work a box does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from .call import Work
from .faults import ConfigError

Language = Literal["python", "bash", "sh", "node"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

_OPTION = {"bash": "-c", "sh": "-c", "node": "-e"}
_ARGUMENT_BYTES = 100_000
"""Linux takes 128 KiB an argument; a longer script goes through a file in memory."""
_NODE_FROM_FILE = (
    "globalThis.require=require;require('vm').runInThisContext("
    "require('fs').readFileSync(process.argv[1],'utf8'),{filename:'[eval]'})"
)


def code_work(code: object, language: str) -> Work:
    """Give the work of running `code`.

    Raises:
        ConfigError: The language is not one of ours, or the code is not text that a
            process can be given.
    """
    if language not in LANGUAGES:
        raise ConfigError(
            f"language={language!r} is not one of {', '.join(LANGUAGES)}; use `run` for"
            " any other program of the image",
            option="language",
        )
    if not isinstance(code, str):
        raise ConfigError(
            f"code must be a str, not {type(code).__name__}", option="code"
        )
    if language == "python":
        return Work(language="python", code=code)
    _check_text("code", code)
    if len(code.encode("utf-8")) <= _ARGUMENT_BYTES:
        return Work(language=language, argv=(language, _OPTION[language], code))
    if language == "node":
        return Work(language=language, argv=("node", "-e", _NODE_FROM_FILE), code=code)
    return Work(language=language, argv=(language,), code=code)


def command_work(argv: Sequence[object]) -> Work:
    """Give the work of running one command.

    Raises:
        ConfigError: `argv` is not a non-empty sequence of texts.
    """
    if isinstance(argv, str) or not argv:
        raise ConfigError(
            f"argv={argv!r} is not a list of words; write ['ls', '-l'], or"
            " ['sh', '-c', 'a shell line']",
            option="argv",
        )
    if not argv[0]:
        raise ConfigError("argv begins with '', which names no program", option="argv")
    words: list[str] = []
    for word in argv:
        if not isinstance(word, str):
            raise ConfigError(f"argv holds {word!r}, which is not a str", option="argv")
        _check_text("argv", word)
        words.append(word)
    return Work(language="command", argv=tuple(words))


def _check_text(option: str, text: str) -> None:
    position = text.find("\0")
    if position >= 0:
        raise ConfigError(
            f"{option} holds a NUL at position {position}; no process can be given it",
            option=option,
        )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"{option} holds a lone surrogate at position {error.start}; replace it,"
            " for example with text.encode('utf-8', 'replace').decode()",
            option=option,
        ) from None
