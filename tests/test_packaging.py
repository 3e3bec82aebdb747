"""What the two archives hold, and what the installed wheel does."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = {
    "kern_tools": "kern_tools",
    "adapters": "kern_tools/adapters",
    "prompts": "kern_tools/prompts",
    "cookbooks/data": "kern_tools/data",
}
FRAMEWORKS = {"langchain_core", "langchain", "llama_index", "openai"}


@dataclass(frozen=True)
class Archives:
    """The distribution in its two forms, and the files that its rooms held."""

    modules: frozenset[str]
    wheel: Path
    sdist: Path

    def in_wheel(self) -> set[str]:
        """Return the members of the wheel outside its `.dist-info`."""
        names = zipfile.ZipFile(self.wheel).namelist()
        return {name for name in names if ".dist-info/" not in name}

    def in_sdist(self) -> set[str]:
        """Return the files of the sdist, relative to its only folder."""
        with tarfile.open(self.sdist) as archive:
            files = [member.name for member in archive if member.isfile()]
        return {name.partition("/")[2] for name in files}


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Archives:
    """Sdist and wheel, built as for a release from a clean copy of the checkout.

    A build in place would reuse `build/` and ship files that are gone.
    """
    folder = tmp_path_factory.mktemp("packaging")
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    names = shutil.ignore_patterns(".git", *(name.rstrip("/") for name in ignored))
    source, dist = folder / "source", folder / "dist"
    shutil.copytree(ROOT, source, ignore=names, symlinks=True)
    modules = frozenset(room_files(source))
    run("-m", "build", "--no-isolation", "--outdir", dist, source)
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    return Archives(modules, wheel, sdist)


@pytest.fixture(scope="module")
def installed(archives: Archives, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that holds the wheel, not the checkout.

    A path line lends it the dependencies; the hook of the editable install lives in
    a `.pth` file, and those count in an environment's own folder only.
    """
    home = tmp_path_factory.mktemp("installed")
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    run("-m", "pip", "--python", python, "install", "-q", "--no-deps", archives.wheel)
    (site,) = home.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return python


def run(*words: object, python: Path | None = None) -> str:
    """Run Python on `words` outside the checkout and return what it printed."""
    command = [str(python or sys.executable), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def room_files(source: Path) -> Iterator[str]:
    """Name every file that the wheel must hold, by its place in the wheel."""
    for room, home in ROOMS.items():
        for path in (source / room).rglob("*"):
            if path.is_file():
                yield f"{home}/{path.relative_to(source / room).as_posix()}"


def test_the_wheel_holds_the_rooms_and_nothing_else(archives: Archives) -> None:
    """Modules, templates, data and the typing marker ship; tests do not."""
    assert archives.in_wheel() == archives.modules


def test_the_sdist_holds_what_a_build_needs(archives: Archives) -> None:
    """A wheel can be built from it, and tests and links for type checkers stay out."""
    shipped = archives.in_sdist()
    needed = {"pyproject.toml", "LICENSE", "README.md", "kern_tools/py.typed"}
    needed |= {"adapters/__init__.py", "prompts/__init__.py"}
    assert needed <= shipped
    assert [n for n in shipped if n.startswith(("tests/", ".typings/", ".venv"))] == []


def test_the_licence_travels_with_the_wheel(archives: Archives) -> None:
    """The metadata names the licence and its text is inside."""
    (home,) = {n for n in zipfile.ZipFile(archives.wheel).namelist() if "LICENSE" in n}
    metadata = home.partition("/")[0] + "/METADATA"
    text = zipfile.ZipFile(archives.wheel).read(metadata).decode()
    assert "License-Expression: Apache-2.0" in text


def test_the_installed_package_is_not_the_checkout(installed: Path) -> None:
    """The tests below look at the wheel's own files."""
    home = run("-c", "import kern_tools; print(kern_tools.__file__)", python=installed)
    assert Path(home).is_relative_to(installed.parent.parent)


def test_the_installed_package_imports_no_framework(installed: Path) -> None:
    """Frameworks come in with their own adapter only."""
    code = "import kern_tools, sys; kern_tools.Sandbox; print(*sys.modules)"
    heads = {n.partition(".")[0] for n in run("-c", code, python=installed).split()}
    assert heads & FRAMEWORKS == set()


def test_the_installed_package_carries_the_data_of_the_demo(installed: Path) -> None:
    """The demo runs from a wheel, without the checkout."""
    code = (
        "from importlib.resources import files;"
        "print(files('kern_tools.data').joinpath('seattle_weather.csv').read_text())"
    )
    assert run("-c", code, python=installed).startswith("date,precipitation,")


def test_the_installed_command_runs(installed: Path) -> None:
    """`kern-tools` is on the path of the environment."""
    assert "doctor" in run(installed.parent / "kern-tools", "--help", python=installed)


def test_the_installed_command_tries_what_is_promised(installed: Path) -> None:
    """Clauses and manifest ship, and need no checkout around them."""
    words = ("--adapter", "none", "--mode", "fresh", "-k", "claimed", "--json")
    said = run(installed.parent / "kern-tools", "conformance", *words, python=installed)
    (clause,) = json.loads(said)["clauses"]
    assert clause["modes"]["fresh"][0]["state"] == "holds"
    assert "SECURITY, What this layer holds" in clause["sources"]


@pytest.mark.parametrize(
    ("adapter", "framework", "extra"),
    [
        ("langchain", "langchain_core", "langchain"),
        ("llama_index", "llama_index.core", "llama-index"),
    ],
)
def test_a_missing_framework_names_the_command_to_type(
    adapter: str, framework: str, extra: str
) -> None:
    """The import error of an adapter ends with the pip command of its extra."""
    code = (
        f"import sys; sys.modules[{framework!r}] = None\n"
        f"try: import kern_tools.adapters.{adapter}\n"
        "except ImportError as error: print(error)"
    )
    assert run("-c", code).strip().endswith(f"pip install 'kern-tools[{extra}]'")


def test_the_openai_adapter_needs_no_client() -> None:
    """Its tools and answers are plain dicts, so that any client of that API will do."""
    code = "import sys; sys.modules['openai'] = None; import kern_tools.adapters.openai"
    assert run("-c", code) == ""
