"""Tools and replies as the JSON of MCP, the same in every release of its SDK.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/tools
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kern_tools.artifact_schema import artifact_schema
from kern_tools.reply import ImagePart, Reply, member, result_of_artifact
from kern_tools.result import ExecutionResult
from kern_tools.stop import Stop
from kern_tools.tools import Tool

ARTIFACT = "dev.kern-tools/artifact"
"""Where `_meta` of an answer has the artifact, if there is no structured content."""
STOP = "dev.kern-tools/stop"
"""Where `_meta` of an answer says that a policy ends the loop."""
_READ_ONLY = frozenset({"read_file", "list_files", "search_files", "find_files"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """How tools are offered, and calls answered.

    Attributes:
        strict: Schemas for strict mode: all properties required, absent is null.
        images: Whether images go to the client.
        structured: Whether the artifact is structured content; else it is in `_meta`.
    """

    strict: bool = False
    images: bool = True
    structured: bool = True

    def definition(self, tool: Tool) -> dict[str, Any]:
        """Define a tool, as an element of `tools/list`."""
        title = tool.name.replace("_", " ").capitalize()
        facts = tool.source.describe()
        definition = {
            "name": tool.name,
            "title": title,
            "description": tool.description,
            "inputSchema": tool.schema(strict=self.strict),
            "annotations": {
                "title": title,
                "readOnlyHint": tool.name in _READ_ONLY,
                "openWorldHint": tool.spec.streams and facts.network != "off",
            },
        }
        if self.structured:
            definition["outputSchema"] = artifact_schema(runs=tool.spec.streams)
        return definition

    def answer(self, reply: Reply, stop: Stop | None = None) -> dict[str, Any]:
        """Answer a call, as the result of `tools/call`.

        Args:
            reply: What came of it.
            stop: Why the loop that it was made in has to end, if it has.
        """
        images = reply.images if self.images else ()
        answer: dict[str, Any] = {
            "content": [{"type": "text", "text": reply.text}, *map(_content, images)],
            "isError": reply.is_error,
        }
        if self.structured:
            answer["structuredContent"] = _without_images(reply.artifact, images)
        else:
            answer["_meta"] = {ARTIFACT: _without_images(reply.artifact, images)}
        if stop is not None:
            told = answer.setdefault("_meta", {})
            told[STOP] = stop.model_dump(mode="json")
        return answer


def result_of(answer: object) -> ExecutionResult | None:
    """Read the run behind an answer, on the client's side.

    Args:
        answer: A `CallToolResult` of any SDK release, the same as a dict, its
            structured content, or any other object.

    Returns:
        The result, with the images that the answer carries; None where there was no
        run.
    """
    artifact = answer
    for name in ("structuredContent", "structured_content"):
        artifact = member(answer, name) or artifact
    artifact = member(_meta(answer), ARTIFACT, artifact)
    result = result_of_artifact(artifact)
    if result is None:
        return None
    return _with_images(result, member(answer, "content") or ())


def stop_of(answer: object) -> Stop | None:
    """Read why a policy ends the loop of a call, on the client's side.

    Args:
        answer: A `CallToolResult` of any SDK release, the same as a dict, or any other
            object.

    Returns:
        The reason; None where the loop may go on, and after it has begun anew.
    """
    found = member(_meta(answer), STOP)
    return None if found is None else Stop.model_validate(found)


def _meta(answer: object) -> object:
    return member(answer, "_meta") or member(answer, "meta")


def _content(image: ImagePart) -> dict[str, Any]:
    return {"type": "image", "data": image.base64, "mimeType": image.mime}


def _place(number: int) -> str:
    return f"/content/{number}/data"


def _without_images(
    artifact: dict[str, Any], images: Iterable[ImagePart]
) -> dict[str, Any]:
    """Put pointers to the answer's own images where an artifact holds base64.

    Many clients show a model the structured content in place of the text, where an
    image would be a hundred thousand tokens that nobody sees anything in.

    Source: https://github.com/modelcontextprotocol/modelcontextprotocol/issues/1411
    """
    carried = {image.base64: _place(n) for n, image in enumerate(images, 1)}
    kept: list[dict[str, Any]] = []
    incomplete = 0
    for value in artifact.get("results", ()):
        forms: dict[str, str] = value["data"]
        left = {
            m: carried[text] if _is_base64(m) else text
            for m, text in forms.items()
            if text in carried or not _is_base64(m)
        }
        incomplete += len(left) < len(forms)
        if left:
            kept.append({"data": left})
    if not kept and not incomplete:
        return artifact
    omitted = artifact["resultsOmitted"] + incomplete
    return {**artifact, "results": kept, "resultsOmitted": omitted}


def _is_base64(mime: str) -> bool:
    return mime.startswith("image/") and mime != "image/svg+xml"


def _with_images(result: ExecutionResult, content: Iterable[Any]) -> ExecutionResult:
    """Put the images of an answer back where the pointers are.

    Only where an image belongs: code may write a pointer into its other forms.
    """
    images = {_place(n): member(part, "data") for n, part in enumerate(content)}
    values = [
        value.model_copy(
            update={
                "data": {
                    m: (_is_base64(m) and images.get(t)) or t
                    for m, t in value.data.items()
                }
            }
        )
        for value in result.results
    ]
    return result.model_copy(update={"results": values})
