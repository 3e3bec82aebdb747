"""Find the `kern` binary, and know that it is kern."""

from __future__ import annotations

import base64
import functools
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

from .faults import HostError

_VERSION_WAIT_S = 10.0
_INSTALL = "install it with: pip install kern-sandbox"


def find_kern() -> Path:
    """Return the `kern` that runs boxes here.

    The order is `$KERN_BIN`, beside the running Python, the script that the
    `kern-sandbox` wheel installed, then `$PATH`.

    Returns:
        An absolute path to a program that answered as kern.

    Raises:
        HostError: `code` is `not_linux`, `no_kern`, or `not_kern` where the file found
            is another program.
    """
    if sys.platform != "linux":
        raise HostError(
            f"kern needs a Linux kernel, and this is {sys.platform!r}: run this program"
            " inside a Linux VM, or under WSL2 on Windows",
            code="not_linux",
        )
    path = _named() or _installed()
    if path is None:
        raise HostError(
            "kern was not found beside Python or on PATH:"
            f" {_INSTALL}, or set KERN_BIN to its path",
            code="no_kern",
        )
    kern_version(path)
    return path


def kern_version(path: Path) -> str:
    """Return the version that the binary at `path` reports, such as `0.33.0`.

    Args:
        path: The binary; it is asked once for as long as the file stays the same.

    Returns:
        The version without the leading `kern`.

    Raises:
        HostError: `code` is `not_kern`: the file is another program.
    """
    try:
        stat = path.stat()
    except OSError as error:
        raise _not_kern(path, error.strerror or "it cannot be read") from error
    return _asked(path, stat.st_mtime_ns, stat.st_size, stat.st_ino)


def run_kern(
    arguments: Sequence[str], *, timeout_s: float | None = 60.0
) -> subprocess.CompletedProcess[str]:
    """Run `kern` with `arguments` to its end and return what it printed.

    Args:
        arguments: Everything after the program's own name.
        timeout_s: After this long it is killed.

    Returns:
        The exit code and both streams as text, invalid bytes replaced.

    Raises:
        HostError: There is no usable kern.
        subprocess.TimeoutExpired: It took longer than `timeout_s`.
    """
    command = [str(find_kern()), *arguments]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _named() -> Path | None:
    value = os.environ.get("KERN_BIN")
    if not value:
        return None
    path = Path(value)
    if not path.exists():
        raise HostError(
            f"KERN_BIN={value!r} does not exist: correct it, or unset it",
            code="no_kern",
        )
    return path.absolute()


def _installed() -> Path | None:
    for path in _places():
        if path.is_file() and os.access(path, os.X_OK):
            return path
    on_path = shutil.which("kern")
    return None if on_path is None else Path(on_path).absolute()


def _places() -> Iterator[Path]:
    yield Path(sys.executable).parent / "kern"
    yield Path(sysconfig.get_path("scripts")) / "kern"
    carried = _carried_by_wheel()
    if carried is not None:
        yield carried


def _carried_by_wheel() -> Path | None:
    """The script of the wheel, wherever pip put it, known by the hash in its RECORD."""
    # Slow to import, and rarely needed: pip puts scripts beside Python.
    from importlib import metadata

    try:
        files = metadata.files("kern-sandbox") or []
    except metadata.PackageNotFoundError:
        return None
    for entry in files:
        if entry.parts[-2:] != ("bin", "kern") or entry.hash is None:
            continue
        for path in (entry.locate(), entry.dist.locate_file("bin/kern")):
            found = Path(os.path.normpath(str(path)))
            if found.is_file() and _digest(found) == entry.hash.value:
                return found
    return None


def _digest(path: Path) -> str:
    stat = path.stat()
    return _hashed(path, stat.st_mtime_ns, stat.st_size, stat.st_ino)


@functools.lru_cache(maxsize=16)
def _hashed(path: Path, mtime_ns: int, size: int, inode: int) -> str:
    digest = hashlib.sha256(path.read_bytes()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


@functools.lru_cache(maxsize=16)
def _asked(path: Path, mtime_ns: int, size: int, inode: int) -> str:
    try:
        answer = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_WAIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _not_kern(path, "it did not answer `--version`") from error
    except OSError as error:
        raise _not_kern(path, error.strerror or "it cannot be run") from error
    line = answer.stdout.decode("utf-8", "replace").partition("\n")[0].strip()
    if answer.returncode != 0 or not line.startswith("kern "):
        raise _not_kern(path, f"it answered `--version` with {line[:80]!r}")
    return line.removeprefix("kern ").strip()


def _not_kern(path: Path, why: str) -> HostError:
    return HostError(
        f"{str(path)!r} is not kern: {why}; set KERN_BIN to the right file, or"
        f" {_INSTALL}",
        code="not_kern",
    )
