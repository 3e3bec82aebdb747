"""What an agent does that analyses data: large imports, tables, charts, many files."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kern_tools import Sandbox

from .harness import Contestant, Figure, Workload

PACKAGES = ("numpy", "pandas", "matplotlib")
CELLS = {
    "json and re": "import json, re\nprint(json.dumps(re.findall('a', 'banana')))",
    "numpy": "import numpy as np\nprint(np.random.default_rng(1).random(10**6).sum())",
    "pandas": "import pandas as pd\nprint(pd.DataFrame({'a': range(1000)}).describe())",
    "a chart": "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nprint('drawn')",
}
FILES, FOLDERS = 50_000, 100
TRACE = [
    *["import pandas as pd\nprint(pd.DataFrame({'a': range(99)}).a.sum())"] * 10,
    *["open('notes.txt', 'a').write('x')\nprint(open('notes.txt').read())"] * 8,
    *["import json, re\nprint(json.dumps({'n': 1}))"] * 6,
    *["1/0"] * 4,
    *["print('x' * 100_000)"] * 2,
]


def unsandboxed(code: str, folder: str) -> None:
    """Run a cell in a new Python on the host, as a tool without a sandbox would."""
    environ = {**os.environ, "MPLBACKEND": "Agg"}
    argv = [sys.executable, "-I", "-c", code]
    subprocess.run(argv, capture_output=True, env=environ, cwd=folder, check=False)


@contextmanager
def imports_ahead(name: str) -> Generator[Workload]:
    """Compare a cell that imports a library with the same in a new Python."""
    cell = CELLS[name]
    with (
        tempfile.TemporaryDirectory() as folder,
        Sandbox(packages=PACKAGES) as sandbox,
    ):

        def ours() -> None:
            result = sandbox.run_code(cell)
            assert result.success, result

        ours()

        def ready() -> None:
            assert sandbox.wait_ready(60)

        yield Workload(
            name=f"cell with {name}",
            about=f"A cell that uses {name} after one like it, in `fresh` mode with a"
            " box ready, against a new `python -I -c` with no sandbox.",
            contestants=[
                Contestant("no sandbox", lambda: unsandboxed(cell, folder)),
                Contestant("ours", ours, before=ready),
            ],
            figures=[
                Figure(
                    f"cell with {name} / `python -I -c`, no sandbox",
                    lambda r: r["ours"].wall_s / r["no sandbox"].wall_s,
                ),
            ],
            rounds=8,
        )


@contextmanager
def trace(calls: Sequence[str] = TRACE) -> Generator[Workload]:
    """Compare an agent's thirty calls, as fast as they go, with new Pythons."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Sandbox(packages=PACKAGES) as fresh,
        Sandbox(packages=PACKAGES, mode="kernel") as kernel,
    ):

        def ours(sandbox: Sandbox) -> None:
            for code in calls:
                assert sandbox.run_code(code).fault is None

        def theirs() -> None:
            for code in calls:
                unsandboxed(code, folder)

        yield Workload(
            name="trace",
            about=f"{len(calls)} mixed calls of an agent, one after the other without"
            " pauses: pandas, files, short cells, errors, 100 kB of output; in a"
            " sandbox of each mode, against a new `python -I -c` for each.",
            contestants=[
                Contestant("no sandbox", theirs),
                Contestant("fresh", lambda: ours(fresh)),
                Contestant("kernel", lambda: ours(kernel)),
            ],
            figures=[
                Figure(
                    "trace of 30 calls: `fresh` / new Pythons, no sandbox",
                    lambda r: r["fresh"].wall_s / r["no sandbox"].wall_s,
                ),
                Figure(
                    "trace of 30 calls: `kernel` / new Pythons, no sandbox",
                    lambda r: r["kernel"].wall_s / r["no sandbox"].wall_s,
                ),
            ],
            rounds=3,
            warm_up=1,
        )


def fill(root: Path, files: int) -> None:
    """Make many files."""
    for folder in range(FOLDERS):
        path = root / str(folder)
        path.mkdir()
        for number in range(files // FOLDERS):
            (path / str(number)).touch()


@contextmanager
def tracking(files: int = FILES) -> Generator[Workload]:
    """Compare calls that tell which files changed with calls that do not."""
    with (
        Sandbox(mode="kernel") as tracked,
        Sandbox(mode="kernel", track_files=False) as other,
    ):
        for sandbox in (tracked, other):
            fill(sandbox.workspace.root, files)

        def write(sandbox: Sandbox, told: list[str]) -> None:
            result = sandbox.run_code("open('0/0', 'a').write('x')")
            assert [file.path for file in result.files] == told, result

        yield Workload(
            name="tracking",
            about=f"A cell that changes one of {files:,} files, in `kernel` mode, with"
            " `track_files` and without; the first look at the files is not counted.",
            contestants=[
                Contestant("untracked", lambda: write(other, [])),
                Contestant("tracked", lambda: write(tracked, ["0/0"])),
            ],
            figures=[
                Figure(
                    "file tracking at 50,000 files / none",
                    lambda r: r["tracked"].wall_s / r["untracked"].wall_s,
                    goal=1.2,
                ),
            ],
            rounds=100,
        )
