"""The image built from the host's own Python, with no registry."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from .elf import Libraries, is_elf, libraries_of
from .host_python import HostPython, host_python
from .image_store import (
    Progress,
    build_image,
    building,
    image_info,
    scratch_folder,
)
from .rootfs import Tree

# `localhost/`: a miss can never be pulled from a public hub.
REPOSITORY = "localhost/kern-tools/host-python"
_LAYOUT = 1
"""Part of the key: raise it when the layout below changes."""
_NEED_BYTES = 200 << 20

_FOLDERS = (
    "usr/bin usr/lib usr/lib64 usr/sbin usr/local/bin etc root proc sys dev run var/tmp"
    " workspace home"
)
_MERGED = ("bin", "lib", "lib64", "sbin")
_TOOLS = (
    "bash sh cat ls cp mv rm mkdir rmdir ln touch chmod chown stat du df head tail wc"
    " sort uniq cut tr tee echo printf env pwd sleep true false test [ date uname id"
    " whoami seq basename dirname readlink realpath mktemp mkfifo nproc od paste split"
    " tac timeout yes sha256sum md5sum base64 xargs find grep sed awk gzip tar diff"
    " which"
)
_TOOL_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
# What wheels may load without carrying it.
# Source: PEP 600 and the manylinux policies, plus the stubs of older C libraries.
_WHEEL_LIBRARIES = (
    "libgcc_s.so.1 libstdc++.so.6 libpthread.so.0 libdl.so.2 librt.so.1 libutil.so.1"
    " libm.so.6 libz.so.1 libnss_files.so.2 libnss_dns.so.2 libresolv.so.2"
)
_LOCALES = ("/usr/lib/locale/C.utf8", "/usr/lib/locale/C.UTF-8")
_CERTIFICATES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
)
_CERTIFICATES_INSIDE = "etc/ssl/certs/ca-certificates.crt"
_ETC = {
    "passwd": "root:x:0:0:root:/root:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/:/bin/false\n",
    "group": "root:x:0:\nnogroup:x:65534:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "os-release": 'ID=kern-tools-host\nPRETTY_NAME="kern-tools host image"\n',
}
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    # The home directory is read-only in a box.
    "MPLCONFIGDIR": "/tmp/mpl",
    "SSL_CERT_FILE": f"/{_CERTIFICATES_INSIDE}",
}


def host_reference(python: HostPython | None = None) -> str:
    """Return the reference of the image of the running interpreter, built or not."""
    python = python or host_python()
    key = hashlib.sha256(f"{_LAYOUT} {python.key()}".encode()).hexdigest()
    return f"{REPOSITORY}:{python.version}-{key[:12]}"


def ensure_host_image(progress: Progress | None = None) -> str:
    """Return the reference of the host's image, building it where it is absent.

    Args:
        progress: Told in one line what is going on, when it takes longer.

    Returns:
        The reference to give to `--image`.

    Raises:
        HostError: This host's Python cannot be carried into an image.
        SandboxError: The build failed.
    """
    python = host_python()
    reference = host_reference(python)
    if image_info(reference) is not None:
        return reference
    with building(reference, progress):
        if image_info(reference) is None:
            if progress is not None:
                progress(f"building {reference} from {python.executable}")
            _build(reference, python)
    return reference


def host_libraries() -> Libraries:
    """Return every library that the host's image holds."""
    native = [*host_python().native(), *_tools().values()]
    libraries = libraries_of([path for path in native if is_elf(path)])
    trusted = libraries.trusted
    places = (trusted, Path("/usr") / trusted.relative_to("/"), Path("/usr/lib64"))
    extra: dict[str, Path] = {}
    for name in _WHEEL_LIBRARIES.split():
        for place in places:
            if (place / name).exists():
                extra.setdefault(name, place / name)
    needed = libraries_of(list(extra.values()))
    by_name = {**needed.by_name, **extra, **libraries.by_name}
    return Libraries(by_name, libraries.loaders | needed.loaders)


def add_libraries(tree: Tree, libraries: Libraries, folder: Path) -> None:
    """Copy libraries into the one directory that the image's loader trusts."""
    for name, path in sorted(libraries.by_name.items()):
        tree.copy(_merged(folder / name), path.resolve(), 0o755)
    for loader in sorted(libraries.loaders):
        tree.copy(_merged(loader), loader.resolve(), 0o755)


def _build(reference: str, python: HostPython) -> None:
    with scratch_folder(_NEED_BYTES) as scratch:
        tree = Tree(scratch / "rootfs")
        _assemble(tree, python)
        build_image(reference, _recipe(tree, python), scratch)


def _assemble(tree: Tree, python: HostPython) -> None:
    libraries = host_libraries()
    for folder in _FOLDERS.split():
        tree.folder(folder)
    tree.folder("tmp", 0o1777)
    for name in _MERGED:
        tree.link(name, f"usr/{name}")
    python.copy_into(tree)
    python.copy_pip_into(tree)
    _add_tools(tree)
    add_libraries(tree, libraries, libraries.trusted)
    _add_settings(tree)
    tree.compile(python.home, python.executable)
    tree.strip()


def _add_tools(tree: Tree) -> None:
    """Copy the tools; names of one program, such as busybox, become links to it."""
    known: dict[tuple[int, int], str] = {}
    for name, path in _tools().items():
        stat = path.stat()
        first = known.setdefault((stat.st_dev, stat.st_ino), name)
        if first == name:
            tree.copy(f"usr/bin/{name}", path, 0o755)
        else:
            tree.link(f"usr/bin/{name}", first)


def _tools() -> dict[str, Path]:
    found = {name: shutil.which(name, path=_TOOL_PATH) for name in _TOOLS.split()}
    return {name: Path(path).resolve() for name, path in found.items() if path}


def _add_settings(tree: Tree) -> None:
    for name, text in _ETC.items():
        tree.write(f"etc/{name}", text.encode())
    for locale in map(Path, _LOCALES):
        if locale.is_dir():
            tree.copy_folder(str(locale).lstrip("/"), locale)
            break
    for path in (os.environ.get("SSL_CERT_FILE", ""), *_CERTIFICATES):
        if path and Path(path).is_file():
            tree.copy(_CERTIFICATES_INSIDE, Path(path).resolve(), 0o644)
            break


def _merged(path: Path) -> str:
    inside = str(path).lstrip("/")
    return f"usr/{inside}" if inside.partition("/")[0] in _MERGED else inside


def _recipe(tree: Tree, python: HostPython) -> str:
    environment = dict(_ENVIRONMENT)
    if not (tree.root / _CERTIFICATES_INSIDE).exists():
        del environment["SSL_CERT_FILE"]
    lines = [
        "FROM scratch",
        "COPY rootfs/ /",
        *(f"ENV {name}={value}" for name, value in environment.items()),
        f'LABEL dev.kern-tools.host="{python.version}"',
        'CMD ["python3"]',
    ]
    return "\n".join(lines) + "\n"
