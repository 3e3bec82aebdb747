"""`kern-tools image`: the images that are made from the running Python."""

from __future__ import annotations

from typing import Annotated

import typer

from . import flags
from .image import ImageInfo, built_images, ensure_image, remove_image
from .quantities import size
from .screen import print_json, progress, show_table

image_app = typer.Typer(
    help="Make, list and remove the images of this Python.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@image_app.command()
def build(packages: flags.Packages = None) -> None:
    """Make the image if it is missing; print its reference."""
    with progress() as tell:
        ref = ensure_image(packages=flags.split(packages or ""), progress=tell)
    print(ref.reference)


@image_app.command()
def show(as_json: flags.AsJson = False) -> None:
    """List the images that were made here."""
    images = built_images()
    if as_json:
        print_json(images)
    else:
        show_table(("image", "size", "packages"), [(_row(one), None) for one in images])


def _row(image: ImageInfo) -> tuple[str, ...]:
    packages = image["labels"].get("dev.kern-tools.packages", "-")
    return image["reference"], size(image["size_bytes"]), packages


@image_app.command()
def remove(
    references: Annotated[
        list[str] | None,
        typer.Argument(metavar="REFERENCE", help="As `image show` prints it."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All that were made here.")
    ] = False,
) -> None:
    """Remove images that were made here; running boxes keep theirs."""
    if bool(references) == everything:
        raise typer.BadParameter("name one or more images, or give --all")
    built = [image["reference"] for image in built_images()]
    for reference in references or []:
        if reference not in built:
            raise typer.BadParameter(
                f"{reference!r} was not made here: `kern-tools image show` lists what"
                " was, and `kern rmi` removes any other image"
            )
    for reference in references or built:
        remove_image(reference)
        print(f"removed {reference}")
