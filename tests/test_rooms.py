"""The rooms of the house: who may import whom, and what the front door shows."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

import pytest

from kern_tools import __all__ as public_names
from kern_tools import __version__

ROOT = Path(__file__).parent.parent
# What each adapter may import, besides pydantic: its framework, whose core is first.
FRAMEWORKS = {
    "deepagents": ("deepagents", "langchain_core"),
    "langchain": ("langchain_core", "langchain", "langgraph"),
    "llama_index": ("llama_index", "workflows"),
    "mcp": ("mcp", "mcp_types", "anyio"),
    "openai": ("openai",),
    "openai_agents": ("agents", "openai"),
}

# The levels of the core, lowest first: each imports itself and lower ones.
LEVELS = {
    "words": "ansi escaping extras faults fences globs names quantities refusals"
    " toolsets",
    "options": "config mounts option_table options scratch",
    "results": "artifact_schema events markup observing picture reply reply_text"
    " result",
    "folders": "cache descriptors emptying ownership removal uses",
    "images": "binary elf host host_image host_python image image_store inventory"
    " package_image packages rootfs",
    "files": "archive contents export listing locations origin snapshot spilling"
    " staging tracking walking watching workspace workspace_cap writing",
    "boxes": "accounts backlog box call capture conduct deps dispatch driver"
    " driver_modes driver_search driver_values engine expiry frames fresh holdings"
    " imports installer_settings languages launch lending opened outcome processes"
    " prune service session setup shortcut streaming streams supervisor turns underway"
    " verdict vitals waiting",
    "reading": "edits excerpt facts hints nearest pages prompting rendering saying"
    " values",
    "sandboxes": "one_shot sandbox sandbox_calls sandbox_files",
    "pools": "conversations evicting keeping lease pool pool_options seats turnover",
    "tools": "apart arguments code_tools codetext edit_tool file_tools filespec"
    " function_arguments jsontext ledger loop_calls loop_events loop_result once"
    " other_tools policy"
    " properties retold runspec schema search search_tools shell_output shell_tool"
    " source stop tools toolspec turn watch wire wire_definitions wire_history",
    "displays": "notebook run_record run_view terminal transcript transcript_page",
    "telemetry": "meters span_attributes telemetry",
    "testing": "conformance conformance_plugin conformance_record"
    " conformance_subjects contract contract_adapter contract_backend contract_calls"
    " contract_ending contract_limits contract_place contract_view contract_walls"
    " promises sandbox_contract scripted scripted_app scripted_wire stand_in testing",
    "screens": "cli conformance_command conformance_table demo doctor flags frameworks"
    " image_commands mcp_command opening prompt_command prune_command running screen"
    " tool_forms",
}
LEVEL = {name: n for n, names in enumerate(LEVELS.values()) for name in names.split()}

# Where each dependency may be imported, besides pydantic; the demo shows frameworks.
ONLY_IN = {
    "fsspec": {"locations"},
    "jinja2": {"prompting", "transcript_page"},
    "llama_index": {"stand_in"},
    "llmock": {"scripted", "scripted_app"},
    "openai": {"frameworks"},
    "opentelemetry": {"meters", "telemetry"},
    "packaging": {"packages"},
    "pytest": set(LEVELS["testing"].split()),
    "rich": {"screen", "terminal"},
    "starlette": {"scripted_app"},
    "typer": {
        *("cli", "conformance_command", "flags", "image_commands", "mcp_command"),
        *("prompt_command", "prune_command", "running"),
    },
}

CORE = {p.stem: p for p in sorted((ROOT / "kern_tools").glob("[!_]*.py"))}
ADAPTERS = {
    p.relative_to(ROOT / "adapters").as_posix(): p
    for p in sorted((ROOT / "adapters").glob("*/*.py"))
}


def statements(node: ast.AST, *, types: bool) -> Iterator[ast.AST]:
    """Walk a module, with or without what only type checkers read."""
    for child in ast.iter_child_nodes(node):
        for_types = isinstance(child, ast.If) and (
            ast.unparse(child.test) == "TYPE_CHECKING"
        )
        if types or not for_types:
            yield child
            yield from statements(child, types=types)


@cache
def imports(path: Path, package: str, *, types: bool = True) -> frozenset[str]:
    """Return the full names that a module imports, at any depth of the file."""
    found: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in statements(tree, types=types):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            home = resolve_name("." * node.level + (node.module or ""), package)
            found |= {f"{home}.{alias.name}" for alias in node.names}
    return frozenset(found)


def siblings(name: str, *, types: bool = True) -> set[str]:
    """Return what a module of the core imports from the core."""
    found = imports(CORE[name], "kern_tools", types=types)
    inner = {n.split(".")[1] for n in found if n.startswith("kern_tools.")}
    return inner - {"adapters", "data", "prompts", "__version__"}


def adapters_of(path: Path, package: str) -> set[str]:
    """Return the adapters that a module imports."""
    parts = (name.split(".") for name in imports(path, package))
    return {p[2] for p in parts if p[:2] == ["kern_tools", "adapters"] and p[2:]}


def foreign(path: Path, package: str) -> set[str]:
    """Return the top-level packages from outside the standard library and ours."""
    heads = {name.partition(".")[0] for name in imports(path, package)}
    return heads - sys.stdlib_module_names - {"kern_tools"}


def project() -> Any:
    """Return the project file."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def loaded(code: str) -> set[str]:
    """Return the top-level modules that a new interpreter holds after `code`."""
    script = f"{code}\nimport sys\nprint(*{{m.partition('.')[0] for m in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_every_module_of_the_core_has_a_level() -> None:
    """A new module is entered in the table before it is used."""
    assert set(CORE) == set(LEVEL)


def test_a_module_imports_no_higher_level() -> None:
    """Arrows point down, for types too, so that a level reads without those above."""
    top = len(LEVELS)
    pairs = {(name, other) for name in CORE for other in siblings(name)}
    assert {p for p in pairs if LEVEL.get(p[1], top) > LEVEL.get(p[0], top)} == set()


def test_the_core_has_no_import_cycle() -> None:
    """Within a level there is an order too; only types may look back."""
    graph = {name: siblings(name, types=False) for name in CORE}
    TopologicalSorter(graph).prepare()


def test_the_core_knows_no_framework() -> None:
    """Only declared dependencies are imported, each where it belongs."""
    pairs = {
        (dist, name) for name in CORE for dist in foreign(CORE[name], "kern_tools")
    }
    everywhere = ("pydantic", "pydantic_core")
    strange = {p for p in pairs if p[1] not in ONLY_IN.get(p[0], ())}
    assert {p for p in strange if p[0] not in everywhere} == set()


def test_the_core_knows_no_adapter() -> None:
    """Only the demo and the command line show adapters."""
    low = set(CORE) - set(LEVELS["screens"].split())
    assert {name for name in low if adapters_of(CORE[name], "kern_tools")} == set()


@pytest.mark.parametrize("name", [name for name in CORE if name.startswith("driver")])
def test_what_runs_in_the_box_needs_only_the_standard_library(name: str) -> None:
    """The driver travels alone into images that have none of our packages."""
    ours = siblings(name, types=False)
    assert ours | foreign(CORE[name], "kern_tools") == set()


def test_an_adapter_knows_one_framework() -> None:
    """An adapter imports pydantic and the framework it is named for, no other."""
    for name, path in ADAPTERS.items():
        room = name.partition("/")[0]
        own = {*FRAMEWORKS[room], "pydantic"}
        assert foreign(path, f"kern_tools.adapters.{room}") <= own, name


def test_an_adapter_knows_no_other_adapter() -> None:
    """Any one adapter can be deleted and nothing else changes."""
    for name, path in ADAPTERS.items():
        room = name.partition("/")[0]
        assert adapters_of(path, f"kern_tools.adapters.{room}") <= {room}, name


def test_every_package_on_disk_is_declared() -> None:
    """An editable install hides a package that the wheel would lack."""
    setuptools = project()["tool"]["setuptools"]
    rooms = ("kern_tools", "adapters", "prompts", "cookbooks")
    inits = (init for room in rooms for init in (ROOT / room).rglob("__init__.py"))
    declared = {setuptools["package-dir"][name] for name in setuptools["packages"]}
    assert {init.parent.relative_to(ROOT).as_posix() for init in inits} == declared


def test_type_checkers_see_the_mapped_rooms() -> None:
    """The links for mypy and pyright lead to the rooms they stand for."""
    links = {p.name: p.resolve() for p in (ROOT / ".typings/kern_tools").iterdir()}
    assert links == {room: ROOT / room for room in ("adapters", "prompts")}


def test_the_public_names_are_sorted() -> None:
    """Each name stands once, in plain sorted order."""
    assert public_names == sorted(set(public_names))


def test_each_public_name_can_be_had_and_is_shown_by_dir() -> None:
    """Names load on first use, and completion finds them before that."""
    package = import_module("kern_tools")
    assert set(public_names) <= set(dir(package))
    for name in public_names:
        assert getattr(package, name) is getattr(package, name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A misspelt name fails as it does in any module."""
    assert not hasattr(import_module("kern_tools"), "Sandobx")


def test_the_version_is_that_of_the_project_file() -> None:
    """The number is written once, in pyproject.toml."""
    assert __version__ == project()["project"]["version"]


def test_import_brings_in_no_framework_and_no_screen() -> None:
    """The sandbox comes without what it does not use, telemetry included."""
    frameworks = {name for names in FRAMEWORKS.values() for name in names}
    heavy = {*frameworks, "jinja2", "opentelemetry", "typer", "rich"}
    assert loaded("from kern_tools import Sandbox") & heavy == set()
