"""The neutral result: what one call produced, the same for every framework."""

from __future__ import annotations

import base64
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, computed_field

from .faults import FaultType, SandboxError, SandboxFault


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=_camel,
        validate_by_name=True,
        validate_by_alias=True,
        defer_build=True,
    )


class FileInfo(_Model):
    """One file of the workspace."""

    path: str
    """Relative to the workspace, with `/` between its parts."""
    size: int
    """Bytes."""
    change: Literal["created", "modified"] = "created"
    """What the call did to it; `created` for every row of a listing."""


class RichResult(_Model):
    """One value in the forms a notebook shows: last expression, `display()`, figure.

    Source: the IPython display protocol,
    https://ipython.readthedocs.io/en/stable/config/integrating.html
    """

    data: dict[str, str]
    """MIME type to content; images other than SVG are base64."""

    @property
    def text(self) -> str | None:
        """The plain text form."""
        return self.data.get("text/plain")

    @property
    def html(self) -> str | None:
        """The HTML form."""
        return self.data.get("text/html")

    @property
    def markdown(self) -> str | None:
        """The Markdown form."""
        return self.data.get("text/markdown")

    @property
    def svg(self) -> str | None:
        """The SVG source."""
        return self.data.get("image/svg+xml")

    @property
    def json(self) -> str | None:  # type: ignore[override]
        """The JSON text; the name is the Node and Python bindings' own."""
        return self.data.get("application/json")

    @property
    def png(self) -> bytes | None:
        """The PNG bytes."""
        return self._bytes("image/png")

    @property
    def jpeg(self) -> bytes | None:
        """The JPEG bytes."""
        return self._bytes("image/jpeg")

    def formats(self) -> list[str]:
        """The MIME types present, richest last as the code gave them."""
        return list(self.data)

    def _bytes(self, mime: str) -> bytes | None:
        encoded = self.data.get(mime)
        return None if encoded is None else base64.b64decode(encoded)

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> dict[str, str]:
        from .escaping import escape  # notebooks alone show values
        from .markup import value

        return {"text/plain": escape(self.text or ""), "text/html": value(self.data)}


class ExecutionResult(_Model):
    """What one call produced, and who ended it.

    `model_dump(mode="json", by_alias=True)` gives plain JSON in the camelCase of the
    Node binding; `model_validate` reads that and snake_case alike.
    """

    stdout: str = ""
    """UTF-8, invalid bytes replaced, at most `max_output_bytes`."""
    code_stderr: str = ""
    """What the code wrote to stderr, under the same cap: feed this to a model."""
    runtime_notes: list[str] = []
    """What kern said about the box, line by line: for people, never for a model."""
    exit_code: int = 0
    """The process's; 128+n for signal n, 137 for our kills; kern's own, or 125, where
    nothing ran."""
    signal: int | None = None
    """The signal that ended the code by itself (SIGSEGV): a crash, not a fault."""
    fault: SandboxFault | None = None
    """What the sandbox did, or None; a non-zero exit is not a fault."""
    duration_ms: int = 0
    """From the start of the box to its end, without the time in the queue."""
    queued_ms: int = 0
    """Time the call waited for its turn; not counted against `timeout_s`."""
    start_ms: int | None = None
    """Of `duration_ms`, until the box was ready for the code; None where that is not
    known, as where nothing was started."""
    warm: bool | None = None
    """The box was ready before the call came; None as above."""
    files: list[FileInfo] = []
    """Files created or modified in the workspace during the call."""
    files_omitted: int = 0
    """Files that went over the bounds and were left out."""
    results: list[RichResult] = []
    """Rich values in the order the code showed them."""
    results_omitted: int = 0
    """Rich values that went over the bounds and were left out, whole or in part."""
    truncated: bool = False
    """A stream was cut: at `max_output_bytes`, or in an artifact by the budget."""
    stdout_bytes: int = 0
    """How much the code wrote, the discarded part included."""
    stderr_bytes: int = 0
    """The same for its stderr."""
    lossy: bool = False
    """Output was not valid UTF-8; the bad bytes read U+FFFD."""
    limits_enforced: bool | None = None
    """Whether the memory cap bound this box; None where kern did not say."""
    call_id: str | None = None
    """The framework's id of the tool call, or ours."""
    state_lost: bool = False
    """This call's box is gone: names it held are lost, files are kept."""
    state_new: bool = False
    """This call started without names that earlier calls made."""
    files_lost: bool = False
    """The files of earlier calls are gone too: their sandbox was closed in between."""
    attempts: int = 1
    """How often the call was made: a policy tries again where nothing of it ran."""
    repeats: int = 0
    """How often in a row the same call had failed before this time, told by a policy
    where it failed again."""
    raised_timeout_s: float | None = None
    """The limit in seconds that a policy gave the call in place of its own."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def stderr(self) -> str:
        """The lines of kern, then the code's: `runtime_notes` and `code_stderr`."""
        return "".join(f"{note}\n" for note in self.runtime_notes) + self.code_stderr

    @computed_field  # type: ignore[prop-decorator]
    @property
    def success(self) -> bool:
        """Exit code 0 and no fault."""
        return self.exit_code == 0 and self.fault is None

    @property
    def fault_type(self) -> FaultType | str | None:
        """`fault.type`, or None: for one-line branches."""
        return None if self.fault is None else self.fault.type

    def __bool__(self) -> bool:
        return self.success

    def raise_for_fault(self) -> None:
        """Raise where the sandbox acted.

        Raises:
            FaultError: `fault` is set; the error carries this result.
        """
        if self.fault is not None:
            raise FaultError(self)

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> dict[str, str]:
        import html  # notebooks alone show results

        from .escaping import escape
        from .markup import stream, value

        verdict = self.fault.type if self.fault else f"exit {self.exit_code}"
        head = escape(f"{verdict}, {self.duration_ms:,} ms")
        streams = stream(self.stdout) + stream(self.code_stderr, "#cf222e")
        shown = "".join(value(each.data) for each in self.results)
        values = (each.text for each in self.results)
        texts = (self.stdout.rstrip(), self.code_stderr.rstrip(), *values)
        return {
            "text/plain": escape("\n".join([head, *filter(None, texts)])),
            "text/html": f"<b>{html.escape(head)}</b>{streams}{shown}",
        }


class FaultError(SandboxError):
    """The sandbox ended a run whose caller asked for an exception; see `result`."""

    def __init__(self, result: ExecutionResult) -> None:
        assert result.fault is not None
        super().__init__(
            result.fault.message, code=str(result.fault.type), fault=result.fault
        )
        self.result = result
