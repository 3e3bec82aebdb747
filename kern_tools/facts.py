"""What is true of one sandbox, for the words that are written about it."""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Literal, Self

from .inventory import Inventory, image_inventory
from .mounts import DEPS
from .options import one_of
from .toolsets import tool_names

if TYPE_CHECKING:
    from .config import SandboxConfig
    from .deps import Deps
    from .image import ImageRef

TOOLS = tool_names()
HOST_LANGUAGES = ("python", "bash", "sh")
LANGUAGES = (*HOST_LANGUAGES, "node")

_UNIT_BYTES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxFacts:
    """What is true of one sandbox, as plain values; all that templates may use.

    Attributes:
        mode: What survives a call: `fresh` files, `resident` also /tmp and processes,
            `kernel` also Python names.
        image: The reference of the image.
        host_python: The image is made from the Python that runs this process.
        looked_into: What the image has is known, and not only hoped for.
        python_version: Of the image, `3.12.4`; None where there is none, or where that
            is not known.
        packages: Name and version of the Python packages that code can import.
        languages: What `run_code` can run here; all it takes, where not looked into.
        programs: Further programs worth naming, of the image and of `setup`.
        node_packages: Names of the packages for Node that `setup` installed.
        unlisted: What `setup` installs is not in these lists: nothing is open yet.
        timeout_s: The limit of a call that asks for none.
        timeout_max_s: The highest limit a call may ask for.
        memory_mb: The cap asked for, in MiB; None for no cap.
        cpus: The cap asked for.
        pids: The cap asked for.
        limits_enforced: Whether caps bind on this machine; None where not known.
        network: `off`, `on`, or the only domains that can be reached.
        workspace: Where the workspace is in the box.
        tmpfs: Path and bytes of each scratch directory that a box has of its own.
        mounts: Path of each further mount, and whether it can be written.
        deps: Where `setup` installed things, if code may change them there; else None.
        home: `HOME` is a directory that is kept from call to call.
        env: Names of the environment variables that the code is given.
        workspace_max_bytes: The cap on the workspace; None for no cap.
        max_output_bytes: How much of a stream is kept.
        text_chars: How many characters a reply may have.
        images: How many images a reply may carry.
        tools: The names of the tools offered.
    """

    mode: Literal["fresh", "resident", "kernel"] = "fresh"
    image: str
    host_python: bool
    looked_into: bool = True
    python_version: str | None
    packages: tuple[tuple[str, str], ...] = ()
    languages: tuple[str, ...] = HOST_LANGUAGES
    programs: tuple[str, ...] = ()
    node_packages: tuple[str, ...] = ()
    unlisted: bool = False
    timeout_s: float = 30
    timeout_max_s: float = 30
    memory_mb: int | None = 512
    cpus: float | None = None
    pids: int | None = 256
    limits_enforced: bool | None = None
    network: Literal["off", "on"] | tuple[str, ...] = "off"
    workspace: str = "/workspace"
    tmpfs: tuple[tuple[str, int], ...] = ()
    mounts: tuple[tuple[str, bool], ...] = ()
    deps: str | None = None
    home: bool = False
    env: tuple[str, ...] = ()
    workspace_max_bytes: int | None = None
    max_output_bytes: int = 1 << 20
    text_chars: int = 8000
    images: int = 4
    tools: tuple[str, ...] = TOOLS

    @classmethod
    def of(
        cls,
        config: SandboxConfig,
        image: ImageRef,
        *,
        limits_enforced: bool | None = None,
        tools: Sequence[str] = TOOLS,
        deps: Deps | None = None,
    ) -> Self:
        """Read the facts off a sandbox that is open.

        Args:
            config: Its options.
            image: The image its boxes are made of.
            limits_enforced: What kern last said about the caps.
            tools: The names of the tools offered.
            deps: What `setup` installed.
        """
        found = _inventory(config, image)
        has = found or Inventory(languages=LANGUAGES)
        packages, programs = dict(has.packages), has.programs
        if deps is not None:
            packages |= dict(deps.packages())
            programs = tuple(dict.fromkeys([*deps.programs(), *programs]))
        return cls(
            mode=config.mode,
            image=config.image,
            host_python=image.host_python,
            looked_into=found is not None,
            python_version=has.python_version,
            packages=tuple(packages.items()),
            languages=has.languages,
            programs=programs,
            node_packages=() if deps is None else deps.node_packages(),
            unlisted=config.setup is not None and deps is None,
            timeout_s=config.timeout_s,
            timeout_max_s=config.timeout_max_s or config.timeout_s,
            memory_mb=config.memory_mb,
            cpus=config.cpus,
            pids=config.pids,
            limits_enforced=limits_enforced,
            network="on" if config.network else tuple(config.egress_allow) or "off",
            tmpfs=tuple((path, _bytes(size)) for path, size in config.scratch.items()),
            mounts=tuple((bind.target, not bind.read_only) for bind in config.binds),
            deps=None if deps is None or deps.read_only else DEPS,
            home=config.toolchain and "HOME" not in config.env,
            env=tuple(sorted(config.env)),
            workspace_max_bytes=config.workspace_max_bytes,
            max_output_bytes=config.max_output_bytes,
            text_chars=config.budget.text_chars,
            images=config.budget.images,
            tools=tuple(tools),
        )

    @property
    def spoken(self) -> tuple[str, ...]:
        """What `run_code` may be asked for: all that cannot be ruled out."""
        if not self.looked_into or self.unlisted:
            return LANGUAGES
        there = (*self.languages, *self.programs)
        return tuple(each for each in LANGUAGES if each in there) or LANGUAGES

    def offering(
        self,
        tools: str | Sequence[str],
        *,
        images: Literal["parts", "none"] = "parts",
    ) -> Self:
        """Give the same facts with other tools offered.

        Args:
            tools: Names of sets or of single tools.
            images: With `none` the model is given no image.

        Raises:
            ConfigError: A name is neither a set nor a tool, or `images` is no choice.
        """
        shown = one_of("parts", "none")("images", images) == "parts"
        return replace(
            self, tools=tool_names(tools), images=self.images if shown else 0
        )


def _inventory(config: SandboxConfig, image: ImageRef) -> Inventory | None:
    if not image.host_python:
        return image_inventory(image.reference)
    return Inventory(
        python_version=platform.python_version(),
        packages=_versions(tuple(config.packages)),
        languages=HOST_LANGUAGES,
    )


@cache
def _versions(packages: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    if not packages:
        return ()
    from .packages import installed

    asked = [re.sub(r"[-_.]+", "-", name).lower() for name in packages]
    found = {one.name: one.version for one in installed(packages)}
    first = {name: found[name] for name in asked}
    return tuple((first | found).items())


def _bytes(size: str) -> int:
    return int(size[:-1]) * _UNIT_BYTES[size[-1].lower()]
