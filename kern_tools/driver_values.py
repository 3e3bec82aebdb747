"""The second program in the box: shows values in the forms a notebook would be given.

Run by `driver`, when there is a value, in a namespace that has its `send`, `own` and
`report`.

Source: the IPython display protocol,
https://ipython.readthedocs.io/en/stable/config/integrating.html
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    def send(kind: bytes, payload: bytes = b"") -> None: ...
    def own(name: str) -> Any: ...
    def report() -> None: ...


MAX_VALUES = 256
MAX_TEXT_BYTES = 1 << 20
MAX_VALUE_BYTES = 16 << 20
MAX_ALL_BYTES = 32 << 20
METHODS = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
    ("_repr_json_", "application/json"),
    ("_repr_latex_", "text/latex"),
)

SHOWN_FIGURES: list[Any] = []
SENT = {"values": 0, "bytes": 0}


def show(value: object, raw: bool) -> None:
    """Send one value in every form that fits, or say that none did."""
    ready: Any = value
    forms: Any = ready if raw and hasattr(ready, "items") else forms_of(value)
    payload = b""
    for mime, content in forms.items():
        data = encoded(str(mime), content)
        if data is not None and len(payload) + len(data) <= MAX_VALUE_BYTES:
            payload += b"%s\0%d\0" % (str(mime).encode(), len(data)) + data
    SENT["values"] += 1
    SENT["bytes"] += len(payload)
    if payload and SENT["values"] <= MAX_VALUES and SENT["bytes"] <= MAX_ALL_BYTES:
        send(b"r", payload)
    elif SENT["values"] <= 1 << 16:
        send(b"o")


def encoded(mime: str, content: Any) -> bytes | None:
    """Give one form as it travels; one that cannot be made is reported."""
    try:
        data = as_bytes(mime, content)
    except Exception:
        report()
        return None
    if mime == "text/plain" and len(data) > MAX_TEXT_BYTES:
        return data[:MAX_TEXT_BYTES] + "\u2026".encode()
    return data


def forms_of(value: object) -> dict[str, Any]:
    """Give every form the value has, by MIME type, plain text first."""
    if is_figure(value):
        SHOWN_FIGURES.append(value)
        return {"text/plain": repr(value), "image/png": png_of(value)}
    forms: dict[str, Any] = {"text/plain": repr(value)}
    kind = type(value)
    if isinstance(value, type) or kind.__module__ == "builtins":
        return forms
    bundle = made(value, "_repr_mimebundle_")
    if hasattr(bundle, "items"):
        forms.update(bundle)
    for name, mime in METHODS:
        if mime not in forms:
            form = made(value, name)
            if form is not None:
                forms[mime] = form
    return forms


def made(value: object, name: str) -> Any:
    """Call one display method; one that fails is reported and shows nothing."""
    method: Any = getattr(type(value), name, None)
    if method is None:
        return None
    try:
        form: Any = method(value)
    except Exception:
        report()
        return None
    with_metadata = type(form).__name__ == "tuple"
    return form[0] if with_metadata else form


def as_bytes(mime: str, content: Any) -> bytes:
    """Give the content as it travels: text as UTF-8, images as base64."""
    if mime.endswith("json") and not isinstance(content, (str, bytes)):
        content = own("json").dumps(content)
    if isinstance(content, bytes):
        encoded: bytes = own("binascii").b2a_base64(content, newline=False)
        return encoded
    return str(content).encode("utf-8", "backslashreplace")


def is_figure(value: object) -> bool:
    """Whether this is a matplotlib figure; nothing is imported to find out."""
    module: Any = sys.modules.get("matplotlib.figure")
    return module is not None and isinstance(value, module.Figure)


def png_of(figure: Any) -> bytes:
    """Draw a figure, whole."""
    target = own("io").BytesIO()
    figure.savefig(target, format="png", bbox_inches="tight")
    drawn: bytes = target.getvalue()
    return drawn


def show_open_figures() -> None:
    """Send every figure that the code left open and did not show itself."""
    plt: Any = sys.modules["matplotlib.pyplot"]
    for number in plt.get_fignums():
        figure = plt.figure(number)
        if not any(figure is shown for shown in SHOWN_FIGURES):
            show(figure, False)
