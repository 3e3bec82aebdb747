"""Installed distributions in the image: the same versions, with no network."""

from __future__ import annotations

import json
import os
import py_compile
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from importlib.util import cache_from_source
from pathlib import Path
from py_compile import PycInvalidationMode

import pytest

from kern_tools.binary import find_kern
from kern_tools.faults import ConfigError
from kern_tools.image import ensure_image, image_info, remove_image
from kern_tools.packages import installed, key_of
from kern_tools.rootfs import Tree

CHART = """
import json, matplotlib, numpy, pandas
import matplotlib.pyplot as plt
pandas.DataFrame({"x": [1, 2]}).plot()
plt.savefig("/tmp/chart.png")
print(json.dumps([m.__version__ for m in (numpy, pandas, matplotlib)]))
"""


class Toy:
    """Distributions made by hand in a directory on `sys.path`."""

    def __init__(self, site: Path) -> None:
        self.site = site

    def install(
        self,
        name: str,
        files: dict[str, str | bytes],
        *,
        requires: tuple[str, ...] = (),
        record: bool = True,
        origin: dict[str, object] | None = None,
    ) -> None:
        """Write a distribution as an installer leaves it.

        Args:
            name: Its name; the version is 1.0.
            files: Its content by the paths that its RECORD gives.
            requires: What it needs.
            record: Whether there is a RECORD.
            origin: The content of `direct_url.json`.
        """
        info = self.site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        needs = "".join(f"Requires-Dist: {need}\n" for need in requires)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}"
        )
        if origin is not None:
            (info / "direct_url.json").write_text(json.dumps(origin))
        for inside, content in files.items():
            path = Path(os.path.normpath(self.site / inside))
            path.parent.mkdir(parents=True, exist_ok=True)
            data = content.encode() if isinstance(content, str) else content
            path.write_bytes(data)
        if record:
            rows = [f"{inside},,{len(content)}" for inside, content in files.items()]
            (info / "RECORD").write_text("\n".join(rows) + "\n")


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Toy:
    """An environment of its own for distributions made by hand."""
    site = tmp_path / "lib" / "python" / "site-packages"
    site.mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    return Toy(site)


@pytest.fixture
def toy_image(toy: Toy) -> Iterator[Callable[[], str]]:
    """Build the image that holds `toy`, and remove it after the test."""
    built: list[str] = []

    def build() -> str:
        assert toy.site.is_dir()
        built.append(ensure_image("host", packages=["toy"]).reference)
        return built[-1]

    yield build
    for reference in built:
        remove_image(reference)


@pytest.fixture(scope="module")
def charts() -> str:
    """The image that a data analyst's agent uses."""
    return ensure_image("host", packages=["pandas", "matplotlib"]).reference


def in_box(image: str, *argv: str) -> str:
    """Run a program in a box and return what it printed."""
    name = f"kt-test-{os.getpid()}"
    ended = subprocess.run(
        [
            *(find_kern(), "box", name, "--image", image, "--pull", "never", "--ro"),
            *("-q", "--tmpfs", "/tmp:64m", "--", *argv),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_chart_is_drawn_with_the_versions_of_the_host(charts: str) -> None:
    """What is tested here is what runs there."""
    printed = json.loads(in_box(charts, "python3", "-c", CHART))
    assert printed == [version(name) for name in ("numpy", "pandas", "matplotlib")]


@pytest.mark.verify
def test_compiled_code_comes_along(charts: str) -> None:
    """A read-only box could not keep what it compiles."""
    code = (
        "import os, sys, pandas, matplotlib.pyplot\n"
        "print([m.__name__ for m in list(sys.modules.values())"
        " if getattr(m, '__cached__', None) and not os.path.exists(m.__cached__)])"
    )
    assert in_box(charts, "python3", "-c", code) == "[]\n"


def test_a_packages_own_tests_stay_uncompiled(tmp_path: Path) -> None:
    """They are half of some packages, and seldom imported."""
    source = tmp_path / "source.py"
    source.write_text("1\n")
    tree = Tree(tmp_path / "tree")
    for name in ("a.py", "tests/b.py"):
        tree.copy_python(f"lib/site-packages/demo/{name}", source)
    tree.compile("lib", Path(sys.executable))
    (compiled,) = tree.root.rglob("*.pyc")
    assert compiled.name.startswith("a.")


def test_only_what_was_asked_for_comes_along(charts: str) -> None:
    """Code in a box does not see the rest of the developer's environment."""
    code = "import importlib.util; print(importlib.util.find_spec('pydantic'))"
    assert in_box(charts, "python3", "-c", code) == "None\n"


def test_order_and_spelling_do_not_matter(charts: str) -> None:
    """One image, however its packages are written."""
    again = ensure_image("host", packages=["Matplotlib", "pandas", "NumPy", "pandas"])
    assert again.reference == charts
    assert again.host_python


def test_the_image_says_what_is_in_it(charts: str) -> None:
    """For the operator who wonders what takes the room."""
    info = image_info(charts)
    assert info is not None
    listed = info["labels"]["dev.kern-tools.packages"].split()
    assert f"numpy=={version('numpy')}" in listed


@pytest.mark.verify
def test_modules_programs_and_data_are_copied(
    toy: Toy, toy_image: Callable[[], str]
) -> None:
    """Programs start with the image's Python, wherever the host's is."""
    toy.install(
        "toy",
        {
            "toy/__init__.py": "GREETING = 'hello'\n",
            "../../../bin/toy-say": f"#!{sys.executable}\nimport toy\n"
            "print(toy.GREETING)\n",
            "../../../share/toy/data.txt": "data",
        },
    )
    image = toy_image()
    script = "toy-say; cat /usr/local/share/toy/data.txt"
    assert in_box(image, "sh", "-c", script) == "hello\ndata"
    code = "import os, toy; print(os.path.exists(toy.__cached__))"
    assert in_box(image, "python3", "-c", code) == "True\n"


def test_what_lies_outside_the_environment_is_left_on_the_host(toy: Toy) -> None:
    """A RECORD may name any file of this machine, from the root or by the way up."""
    secret = toy.site.parents[2] / "secret.txt"
    files: dict[str, str | bytes] = {
        "toy/__init__.py": "",
        "../../../bin/toy-say": "#!/bin/sh\n",
        str(secret): "from the root",
        "../../../secret.txt": "by the way up",
        "../../../home/secret.txt": "in no folder of an environment",
        "../../../share": "a file in the place of such a folder",
    }
    toy.install("toy", files)
    (one,) = installed(["toy"])
    found = {(inside, in_site) for _, inside, in_site in one.files()}
    assert found == {("toy/__init__.py", True), ("bin/toy-say", False)}


def test_libraries_outside_the_distribution_are_found(
    toy: Toy, toy_image: Callable[[], str]
) -> None:
    """A native program finds what it loads, as it does on the host."""
    program = shutil.which("curl")
    assert program is not None, "kern itself needs curl"
    toy.install("toy", {"../../../bin/toy-curl": Path(program).read_bytes()})
    image = toy_image()
    assert in_box(image, "toy-curl", "--version").startswith("curl ")


def test_compiled_code_is_taken_where_python_would_take_it(tmp_path: Path) -> None:
    """Not that of another version, nor of an older source; never in place of one."""
    tree, source = Tree(tmp_path / "tree"), tmp_path / "toy.py"
    source.write_text("A = 1\n")
    compiled = Path(cache_from_source(str(source)))
    for mode in PycInvalidationMode:
        py_compile.compile(str(source), invalidation_mode=mode)
        tree.copy_python("toy.py", source)
        taken = tree.root / "__pycache__" / compiled.name
        assert taken.read_bytes() == compiled.read_bytes()
    assert tree.uncompiled == 0
    for header in (b"", b"\0\0\r\n" + compiled.read_bytes()[4:]):
        compiled.write_bytes(header)
        tree.copy_python("toy.py", source)
    assert tree.uncompiled == 2


def test_a_link_takes_no_name_of_a_file(tmp_path: Path) -> None:
    """What a tree holds already stays."""
    tree = Tree(tmp_path)
    tree.write("bin/python", b"")
    tree.link("bin/python", "python3")
    tree.link("bin/other", "python3")
    assert not (tmp_path / "bin/python").is_symlink()
    assert (tmp_path / "bin/other").readlink() == Path("python3")


def test_a_distribution_installed_anew_gets_a_new_key(toy: Toy) -> None:
    """Same name, same version, other files."""
    toy.install("toy", {"toy.py": "A = 1\n"})
    before = key_of(installed(["toy"]))
    assert key_of(installed(["toy"])) == before
    toy.install("toy", {"toy.py": "A = 10\n"})
    assert key_of(installed(["toy"])) != before


def test_what_a_distribution_needs_comes_with_it(toy: Toy) -> None:
    """Markers and extras decide as they do for an installer."""
    toy.install("leaf", {"leaf.py": ""})
    toy.install("more", {"more.py": ""}, requires=("toy",))
    toy.install(
        "toy",
        {"toy.py": ""},
        requires=(
            "leaf",
            "absent; python_version < '3'",
            "more; extra == 'full'",
        ),
    )
    assert [one.name for one in installed(["toy"])] == ["leaf", "toy"]
    assert [one.name for one in installed(["toy[full]"])] == ["leaf", "more", "toy"]


def test_one_that_is_not_installed_is_named_with_the_command() -> None:
    """Nothing is ever downloaded here: the developer installs it."""
    with pytest.raises(
        ConfigError, match=r"'no-such-thing' is not installed"
    ) as caught:
        ensure_image("host", packages=["no-such-thing"])
    assert caught.value.option == "packages"
    assert f"{sys.executable} -m pip install no-such-thing" in str(caught.value)


def test_one_that_lacks_what_it_needs_names_both(toy: Toy) -> None:
    """An environment that is broken on the host is not carried over."""
    toy.install("toy", {"toy.py": ""}, requires=("no-such-thing",))
    with pytest.raises(ConfigError, match="'no-such-thing', which 'toy' needs, is not"):
        installed(["toy"])


def test_an_editable_install_is_refused(toy: Toy) -> None:
    """Its files are in a source tree, and change with every edit."""
    toy.install(
        "toy",
        {"__editable__.toy.pth": "/src"},
        origin={"url": "file:///src", "dir_info": {"editable": True}},
    )
    with pytest.raises(ConfigError, match="'toy' is an editable install"):
        installed(["toy"])


def test_one_without_a_record_is_refused(toy: Toy) -> None:
    """Which files are its own is not known."""
    toy.install("toy", {"toy.py": ""}, record=False)
    with pytest.raises(ConfigError, match="'toy' has no RECORD"):
        installed(["toy"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("toy>=2", "not what is installed, 1.0"),
        ("toy @ https://example.org/toy.whl", "is a URL"),
        ("-r requirements.txt", "not the name of a distribution"),
        ("", "not the name of a distribution"),
    ],
)
def test_what_cannot_be_met_is_refused(text: str, message: str, toy: Toy) -> None:
    """A bound is checked, and nothing is installed to meet it."""
    toy.install("toy", {"toy.py": ""})
    with pytest.raises(ConfigError, match=message) as caught:
        installed([text])
    assert caught.value.option == "packages"
