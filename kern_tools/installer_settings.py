"""How the host's own installers reach their index, for the one box that installs.

Behind a mirror or a proxy an installer works only with the settings of its host: pip's
configuration files and `PIP_*`, npm's, proxies, certificates. Only what says where to
fetch from and what may be fetched is taken, never where to install.
"""

from __future__ import annotations

import configparser
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from .faults import MountRefused, SandboxError
from .mounts import Mount, check_mount

# Source: https://pip.pypa.io/en/stable/cli/pip_install/ (options) and
# https://pip.pypa.io/en/stable/topics/configuration/ (files, and which one wins).
# fmt: off
_PIP_NAMES = (
    "index-url", "extra-index-url", "find-links", "no-index", "trusted-host", "proxy",
    "cert", "client-cert", "timeout", "default-timeout", "retries", "constraint",
    "only-binary", "no-binary", "prefer-binary", "pre", "use-feature",
    "use-deprecated",
)
_BUNDLES = (
    "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
    "npm_config_cafile",
)
# fmt: on
_PIP_FILES = ("cert", "client-cert", "constraint")
_PIP_PLACES = ("find-links", "index-url", "extra-index-url")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_NPM = "npm_config_"
_NPM_NAMES = ("registry", "strict_ssl", "https_proxy", "proxy", "noproxy", "cafile")


@dataclass(frozen=True, slots=True)
class InstallerSettings:
    """What the box that installs is given.

    Attributes:
        variables: Its environment; some values are secrets.
        mounts: Folders of the host that they name.
    """

    variables: Mapping[str, str]
    mounts: tuple[Mount, ...]


def installer_settings(copies: Path, inside: str) -> InstallerSettings:
    """Read the settings of this host.

    Args:
        copies: A private folder; the files that settings name are copied there.
        inside: Where the box sees that folder.

    Raises:
        SandboxError: A configuration file of pip's cannot be read.
    """
    variables: dict[str, str] = {}
    mounts: dict[str, Mount] = {}
    for name, value in _pip_options().items():
        words = value.split()
        if name in _PIP_FILES:
            words = [_copied(word, copies, inside) for word in words]
        if name in _PIP_PLACES:
            mounts |= {m.target: m for word in words for m in _local(word)}
        variables["PIP_" + name.replace("-", "_").upper()] = " ".join(words)
    for name, value in os.environ.items():
        if name in _BUNDLES:
            variables[name] = _copied(value, copies, inside)
        elif name.lower() in _PROXIES or _is_npm(name):
            variables[name] = value
    usable = {n: v for n, v in variables.items() if not set(v) & set("\0\r\n")}
    return InstallerSettings(usable, tuple(mounts.values()))


def _is_npm(name: str) -> bool:
    name = name.lower()
    return name.startswith(_NPM) and name.removeprefix(_NPM) in _NPM_NAMES


def _pip_options() -> dict[str, str]:
    """Merge pip's files and variables as pip does: the most specific one wins."""
    general: dict[str, str] = {}
    install: dict[str, str] = {}
    for path in _pip_files():
        for section, options in (("global", general), ("install", install)):
            options.update(_section(path, section))
    named = {
        name.removeprefix("PIP_").replace("_", "-").lower(): value
        for name, value in os.environ.items()
        if name.startswith("PIP_")
    }
    merged = {**general, **install, **named}
    return {name: merged[name] for name in _PIP_NAMES if merged.get(name)}


def _pip_files() -> Iterator[Path]:
    chosen = os.environ.get("PIP_CONFIG_FILE")
    if chosen == os.devnull:
        return
    folders = os.environ.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    yield from (Path(folder) / "pip/pip.conf" for folder in folders.split(":"))
    yield Path("/etc/pip.conf")
    home = os.environ.get("HOME")
    if home:
        own = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
        yield from (Path(home) / ".pip/pip.conf", Path(own) / "pip/pip.conf")
    yield Path(sys.prefix) / "pip.conf"
    if chosen:
        yield Path(chosen)


def _section(path: Path, section: str) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError) as error:
        raise SandboxError(
            f"pip's configuration {str(path)!r} cannot be read: correct it, or set"
            f" PIP_CONFIG_FILE={os.devnull}",
            code="setup",
        ) from error
    if not parser.has_section(section):
        return {}
    return {
        name.replace("_", "-").removeprefix("--"): value
        for name, value in parser.items(section)
    }


def _copied(path: str, copies: Path, inside: str) -> str:
    """Copy a file for the box and give its path there; what is none stays as it is."""
    if not path.startswith("/") or not Path(path).is_file():
        return path
    name = f"{len(list(copies.iterdir()))}-{Path(path).name}"
    shutil.copyfile(path, copies / name)
    return f"{inside}/{name}"


def _local(place: str) -> Iterator[Mount]:
    """Give the folder of this host that an index or a list of links lies in, if any.

    What the mount policy refuses is left out: the installer then says what it misses.
    """
    path = place if place.startswith("/") else ""
    if place.startswith("file:"):
        path = unquote(urlsplit(place).path)
    if not path:
        return
    # The pages of an index link to files beside it.
    folder = Path(path).parent if place.startswith("file:") else Path(path)
    try:
        yield check_mount(folder, str(folder), read_only=True)
    except MountRefused:
        return
