"""A box that waits has imported what the last cell did, and no call can tell."""

from __future__ import annotations

import pytest

from kern_tools import Sandbox
from kern_tools.imports import MOST_MODULES, imported_modules

IS_LOADED = "import sys; print('decimal' in sys.modules, 'this' in sys.modules)"


def ready(sandbox: Sandbox) -> Sandbox:
    """Wait until a box has done what it does while it waits."""
    assert sandbox.wait_ready(60)
    return sandbox


@pytest.mark.parametrize(
    ("code", "modules"),
    [
        ("import json", ["json"]),
        ("import os.path as p, re", ["os.path", "re"]),
        ("from a.b import c", ["a.b"]),
        ("import json # import re\nimport json", ["json"]),
        ("if x:\n    import heavy", []),
        ("from . import c\nfrom .a import b", []),
        ("import json; import re", ["json"]),
        ("important = 1\nimport", []),
        ("import \u00fcber", ["\u00fcber"]),
        ("import a-b", []),
    ],
)
def test_the_modules_a_cell_imports_are_read(code: str, modules: list[str]) -> None:
    """Imports outside of blocks are found; what is not one is not."""
    assert imported_modules(code) == tuple(modules)


def test_only_the_first_imports_are_read() -> None:
    """A cell of imports without end makes no list without end."""
    code = "\n".join(f"import m{number}" for number in range(1000))
    assert len(imported_modules(code)) == MOST_MODULES


def test_the_next_box_has_imported_what_the_last_cell_did() -> None:
    """The import is done before its call comes, and forgotten when cells stop it."""
    with Sandbox() as sandbox:
        assert ready(sandbox).run_code(IS_LOADED).stdout == "False False\n"
        ready(sandbox).run_code("import decimal")
        assert ready(sandbox).run_code(IS_LOADED).stdout == "True False\n"
        assert ready(sandbox).run_code(IS_LOADED).stdout == "False False\n"


def test_a_module_that_prints_prints_in_every_call() -> None:
    """What an import says is part of the call, so such a module is left to it."""
    with Sandbox() as sandbox:
        said = [ready(sandbox).run_code("import this").stdout for _ in range(3)]
        assert said[0].startswith("The Zen of Python")
        assert said == said[:1] * 3


def test_a_module_of_the_workspace_is_found_first() -> None:
    """A file written after its namesake was imported ahead still wins."""
    cell = "import decimal\nprint(decimal.__file__)"
    with Sandbox() as sandbox:
        assert "/lib/" in ready(sandbox).run_code(cell).stdout
        ready(sandbox).write_file("decimal.py", "")
        assert sandbox.run_code(cell).stdout == "/workspace/decimal.py\n"


def test_a_module_of_the_workspace_is_read_anew() -> None:
    """What a cell imports from the workspace is as it stands when it runs."""
    with Sandbox() as sandbox:
        for version in ("1", "2"):
            sandbox.write_file("own_module.py", f"version = {version}")
            cell = "import own_module\nprint(own_module.version)"
            assert ready(sandbox).run_code(cell).stdout == f"{version}\n"


def test_a_module_that_ends_the_process_ends_its_call_only() -> None:
    """A box lost while it waits is replaced by one that imports nothing."""
    setup = "echo 'import os; os._exit(7)' > $KERN_DEPS/ending.py"
    with Sandbox(setup=setup) as sandbox:
        for _ in range(3):
            assert ready(sandbox).run_code("import ending").exit_code == 7
        assert ready(sandbox).run_code("print(1)").stdout == "1\n"


def test_a_module_of_the_setup_hides_one_of_the_image() -> None:
    """What is imported ahead is what a call would import."""
    setup = "echo 'mine = True' > $KERN_DEPS/decimal.py"
    with Sandbox(setup=setup) as sandbox:
        for _ in range(2):
            cell = "import decimal\nprint(decimal.mine)"
            assert ready(sandbox).run_code(cell).stdout == "True\n"


def test_a_path_of_the_callers_leaves_imports_to_the_call() -> None:
    """With PYTHONPATH a module may come from where calls write."""
    with Sandbox(env={"PYTHONPATH": "/workspace/lib"}) as sandbox:
        ready(sandbox).run_code("import decimal")
        assert ready(sandbox).run_code(IS_LOADED).stdout == "False False\n"
