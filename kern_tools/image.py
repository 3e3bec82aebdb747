"""The image a sandbox's boxes start from, present before the first call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .faults import ConfigError
from .host_image import ensure_host_image
from .image_store import (
    ImageInfo,
    Progress,
    image_error,
    image_info,
    images_named,
    pull_image,
    remove_image,
)

__all__ = [
    "ImageInfo",
    "ImageRef",
    "built_images",
    "ensure_image",
    "image_info",
    "remove_image",
]

HOST = "host"
"""The name of the image that is built from the running interpreter."""

_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]*")


@dataclass(frozen=True, slots=True)
class ImageRef:
    """An image that is present."""

    reference: str
    """To give to `--image`."""
    host_python: bool
    """Its Python is the running one: same version, same bytecode."""


def ensure_image(
    image: str = HOST,
    *,
    packages: Sequence[str] = (),
    offline: bool = False,
    pull_timeout_s: float = 900.0,
    progress: Progress | None = None,
) -> ImageRef:
    """Return an image that is present, building or pulling it where it is not.

    Args:
        image: `"host"`, or any OCI reference, also by digest.
        packages: Installed distributions to add to `"host"`, with what they need.
        offline: Never pull; an absent image is an error at once.
        pull_timeout_s: How long a pull may take.
        progress: Told in one line what is going on, when it takes longer.

    Returns:
        The reference to start boxes from.

    Raises:
        ConfigError: `image` or `packages` cannot be used.
        HostError: This host has no kern, or its Python cannot be carried over.
        SandboxError: The image is absent and could not be made or pulled; `fault` is
            `startup_failed` with the reason `image`.
    """
    if not _REFERENCE.fullmatch(image):
        raise ConfigError(
            f"image={image!r} is not an image reference: use 'host', or one such as"
            " 'python:3.12-slim'",
            option="image",
        )
    if packages and image != HOST:
        raise ConfigError(
            f"packages={list(packages)!r} can be added to image='host' alone, not to"
            f" {image!r}: leave one of the two out",
            option="packages",
        )
    if packages:
        # Reading the environment's metadata costs more than all of `import kern_tools`.
        from .package_image import ensure_package_image

        return ImageRef(ensure_package_image(packages, progress), host_python=True)
    if image == HOST:
        return ImageRef(ensure_host_image(progress), host_python=True)
    if image_info(image) is None:
        if offline:
            raise image_error(
                f"the image {image!r} is not present and offline=True forbids to pull"
                f" it: run `kern pull {image}` beforehand"
            )
        if progress is not None:
            progress(f"pulling {image}")
        pull_image(image, timeout_s=pull_timeout_s)
    return ImageRef(image, host_python=False)


def built_images() -> list[ImageInfo]:
    """Return the images that were built here, of earlier Pythons and packages too."""
    return images_named("localhost/kern-tools/")
