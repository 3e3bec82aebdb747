"""kern's images: what is there, build, pull, remove."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypedDict

from .binary import run_kern
from .cache import cache_folder, made_cache_folder
from .faults import SandboxError, startup_fault
from .ownership import owned_folder, remove_folder

Progress = Callable[[str], None]

_MEMORY = Path("/dev/shm")
_BUILD_WAIT_S = 900.0
_WORDS_KEPT_CHARS = 2000


class ImageInfo(TypedDict):
    """What is known about an image that is present."""

    reference: str
    size_bytes: int
    """Of its own: an image on top of another does not count that one's bytes."""
    architecture: str
    labels: dict[str, str]


def image_info(reference: str) -> ImageInfo | None:
    """Return what kern knows about an image, or None where it is not present.

    Args:
        reference: As given to `--image`.

    Returns:
        Size, architecture and labels.

    Raises:
        HostError: There is no usable kern, or no place for its images.
    """
    cache_folder()
    found = _inspected(reference)
    if found is None:
        return None
    config: dict[str, Any] = found.get("Config") or {}
    return ImageInfo(
        reference=reference,
        size_bytes=int(found.get("Size") or 0),
        architecture=str(found.get("Architecture") or ""),
        labels=dict[str, str](config.get("Labels") or {}),
    )


def image_environment(reference: str) -> dict[str, str]:
    """Return the variables that an image sets; none where it is not present."""
    found = _inspected(reference) or {}
    config: dict[str, list[str]] = found.get("Config") or {}
    pairs = (line.partition("=") for line in config.get("Env") or [])
    return {name: value for name, _, value in pairs}


def image_user(reference: str) -> str | None:
    """Return the account that an image says it runs as, or None."""
    found = _inspected(reference) or {}
    config: dict[str, str | None] = found.get("Config") or {}
    return config.get("User") or None


def _inspected(reference: str) -> dict[str, Any] | None:
    answer = run_kern(["image", "inspect", reference, "--json"])
    return json.loads(answer.stdout)[0] if answer.returncode == 0 else None


def images_named(prefix: str) -> list[ImageInfo]:
    """Return what kern knows about the images whose references start with `prefix`."""
    cache_folder()
    listed: list[dict[str, Any]] = json.loads(run_kern(["images", "--json"]).stdout)
    references = [str(row["image"]) for row in listed]
    known = [image_info(name) for name in references if name.startswith(prefix)]
    return [info for info in known if info is not None]


def remove_image(reference: str) -> bool:
    """Remove an image; running boxes keep theirs.

    Args:
        reference: As given to `--image`.

    Returns:
        Whether there was one.

    Raises:
        SandboxError: kern refused; its words are in the notes.
    """
    if image_info(reference) is None:
        return False
    answer = run_kern(["rmi", reference])
    if answer.returncode != 0:
        raise _failed(f"the image {reference!r} could not be removed", answer)
    return True


def build_image(reference: str, recipe: str, context: Path) -> None:
    """Build an image from a Dockerfile text and the directory it copies from.

    Raises:
        SandboxError: The build failed; kern's words are in the notes.
    """
    (context / "Dockerfile").write_text(recipe, encoding="utf-8")
    try:
        answer = run_kern(
            ["build", "-t", reference, str(context)], timeout_s=_BUILD_WAIT_S
        )
    except subprocess.TimeoutExpired as error:
        raise image_error(
            f"building {reference!r} took longer than {_BUILD_WAIT_S:g} s"
        ) from error
    if answer.returncode != 0:
        raise _failed(
            f"the image {reference!r} could not be built: run `kern-tools doctor`",
            answer,
        )


def pull_image(reference: str, *, timeout_s: float) -> None:
    """Fetch an image from its registry.

    Raises:
        SandboxError: It failed or took too long; kern's words are in the notes.
    """
    cache_folder()
    try:
        answer = run_kern(["pull", reference, "-q"], timeout_s=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise image_error(
            f"the image {reference!r} was not pulled within {timeout_s:g} s:"
            " pull it beforehand with `kern pull`, or raise pull_timeout_s"
        ) from error
    if answer.returncode != 0:
        raise _failed(
            f"the image {reference!r} is not present and could not be pulled:"
            " check the reference and the network, or use image='host'",
            answer,
        )


def image_error(message: str) -> SandboxError:
    """Return the error for an image that no box can start from."""
    fault = startup_fault("image", message)
    return SandboxError(message, code="image", fault=fault)


@contextlib.contextmanager
def building(reference: str, progress: Progress | None = None) -> Generator[None]:
    """Hold the lock of one reference: a second builder waits, then finds it built."""
    folder = made_cache_folder()
    tag = reference.rpartition("/")[2].replace(":", "-")
    with (folder / f"{tag}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if progress is not None:
                progress(f"waiting for another process to build {reference}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def scratch_folder(need_bytes: int) -> Generator[Path]:
    """Give a directory for a build and remove it after; in memory where that is ample.

    Assembling on a busy disk costs seconds, most of them to delete the tree again.

    Raises:
        SandboxError: A file could not be read or written meanwhile.
    """
    parent = None
    if os.access(_MEMORY, os.W_OK):
        room = shutil.disk_usage(_MEMORY).free
        parent = _MEMORY if room > 4 * need_bytes else None
    try:
        folder = owned_folder("image", parent)
        try:
            yield folder
        finally:
            remove_folder(folder)
    except OSError as error:
        raise image_error(
            f"the image could not be assembled: {error}; make room there, or set TMPDIR"
            " to a directory with room"
        ) from error


def _failed(message: str, answer: subprocess.CompletedProcess[str]) -> SandboxError:
    error = image_error(message)
    words = (answer.stderr or answer.stdout).strip()[-_WORDS_KEPT_CHARS:]
    error.add_note(f"kern said (exit {answer.returncode}): {words}")
    return error
