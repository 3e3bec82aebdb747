"""The names of the tools, in sets that belong together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .faults import ConfigError

_CODE = ("run_code",)
_FILES = ("read_file", "write_file", "list_files")

TOOL_SETS: Mapping[str, tuple[str, ...]] = {
    "code": _CODE,
    "files": _FILES,
    "coding": (
        *(*_CODE, *_FILES),
        *("run_command", "edit_file", "search_files", "find_files"),
    ),
}
"""The tools of each set, by its name."""

DEFAULT_SETS = ("code", "files")
TOOL_NAMES = tuple(
    dict.fromkeys(name for names in TOOL_SETS.values() for name in names)
)


def tool_names(tools: str | Sequence[str] = DEFAULT_SETS) -> tuple[str, ...]:
    """Give the names of the tools that are meant, in order, each once.

    Args:
        tools: Names of sets or of single tools.

    Raises:
        ConfigError: A name is neither a set nor a tool.
    """
    named = [tools] if isinstance(tools, str) else tools
    _check_names(named)
    return tuple(dict.fromkeys(each for name in named for each in _meant(name)))


def _check_names(tools: object) -> None:
    if not isinstance(tools, Iterable):
        raise ConfigError(
            f"tools={tools!r} is no list of names; give names of sets or of tools",
            option="tools",
        )


def _meant(name: str) -> tuple[str, ...]:
    if name in TOOL_SETS:
        return TOOL_SETS[name]
    if name in TOOL_NAMES:
        return (name,)
    raise ConfigError(
        f"tools: {name!r} is neither a set nor a tool; the sets are "
        f"{', '.join(TOOL_SETS)}, the tools {', '.join(TOOL_NAMES)}",
        option="tools",
    )
