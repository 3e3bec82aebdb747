"""A run as HTML: escaped, in one file, with nothing to load from anywhere."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from .escaping import escape, escape_line
from .markup import SVG, coloured, image, svg
from .run_record import Called, Ended, Entry, Said
from .run_view import Drawn, ending, view_of

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATE = "transcript.html.j2"


def entry_html(entry: Entry) -> str:
    """Give one entry as HTML; it looks right inside `fragment` only."""
    match entry:
        case Said():
            return _macro("said", entry)
        case Called():
            return _macro("called", view_of(entry))
        case Ended():
            return _macro("ended", ending(entry))


def fragment(entries: Iterable[Entry], title: str = "") -> str:
    """Give entries as HTML that stands inside a page, such as a notebook's output."""
    return _macro("fragment", title, list(map(entry_html, entries)))


def document(entries: Iterable[Entry], title: str = "") -> str:
    """Give entries as an HTML page of its own, which needs nothing and runs nothing."""
    return _macro("document", title, list(map(entry_html, entries)))


def _macro(name: str, *arguments: object) -> str:
    module: Any = _environment().get_template(_TEMPLATE).module
    return str(getattr(module, name)(*arguments))


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("kern_tools", ""),
        undefined=StrictUndefined,
        autoescape=True,
        auto_reload=False,
    )
    environment.filters.update(
        line=escape_line, safe_text=escape, coloured=coloured, drawn=_drawn
    )
    return environment


def _drawn(one: Drawn) -> str:
    return svg(one.data) if one.mime == SVG else image(one.mime, one.data)
