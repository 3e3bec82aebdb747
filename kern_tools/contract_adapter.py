"""What an adapter's calls give back: the same words, images and data in every one."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Protocol

import pytest

from .contract import Contract
from .faults import FaultType
from .reply import ImagePart, Reply
from .sandbox import Sandbox
from .tools import tools_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a call, read from the framework's own object.

    Attributes:
        text: What the model reads.
        images: The image parts, in order.
        fault_type: Where code of that framework finds it, or None.
        is_error: What the framework's error status says; of `Reply.is_error` where
            it has none.
        artifact: The JSON that code finds beside the text.
    """

    text: str
    images: tuple[ImagePart, ...]
    fault_type: str | None
    is_error: bool
    artifact: dict[str, Any]


class Adapter(Protocol):
    """A framework's way of calling a tool of ours."""

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call a tool the framework's way."""
        ...

    async def acall(self, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call it the framework's async way."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterCase:
    """One call, and what code has to find.

    Attributes:
        name: A word or two.
        tool: The tool that is called.
        arguments: What the model wrote.
        fault: The fault's type, or None.
        error: The reply's error code, or None.
        images: How many images there are.
    """

    name: str
    arguments: dict[str, Any] = field(repr=False)
    tool: str = "run_code"
    fault: FaultType | None = None
    error: str | None = None
    images: int = 0

    @property
    def is_error(self) -> bool:
        """Whether a framework's status has to be an error."""
        return self.fault is not None or self.error == "bad_arguments"


_PNG = (
    "import struct, zlib\n"
    "def chunk(kind, data):\n"
    "    crc = struct.pack('>I', zlib.crc32(kind + data))\n"
    "    return struct.pack('>I', len(data)) + kind + data + crc\n"
    "class Chart:\n"
    "    def __init__(self, grey): self.grey = grey\n"
    "    def _repr_png_(self):\n"
    "        head = struct.pack('>IIBBBBB', 2, 2, 8, 0, 0, 0, 0)\n"
    "        rows = zlib.compress(bytes([0, self.grey, self.grey]) * 2)\n"
    "        body = chunk(b'IHDR', head) + chunk(b'IDAT', rows) + chunk(b'IEND', b'')\n"
    "        return b'\\x89PNG\\r\\n\\x1a\\n' + body\n"
)

_LIMIT_S = 20

ADAPTER_CASES = (
    AdapterCase(name="printed", arguments={"code": "print(6 * 7)"}),
    AdapterCase(name="value", arguments={"code": "{'mean': 3.5}"}),
    AdapterCase(
        name="both streams",
        arguments={"code": "import sys\nprint('out')\nprint('err', file=sys.stderr)"},
    ),
    AdapterCase(name="exception", arguments={"code": "def f():\n  1/0\nf()"}),
    AdapterCase(name="exit code", arguments={"code": "exit 3", "language": "sh"}),
    AdapterCase(
        name="timeout",
        arguments={
            "code": "print('before', flush=True)\nimport time\ntime.sleep(60)",
            "timeout_s": 2,
        },
        fault=FaultType.TIMEOUT,
    ),
    AdapterCase(
        name="blocked",
        arguments={
            "code": "import ctypes\n"
            "ctypes.CDLL(None).mount(b'n', b'/tmp', b'tmpfs', 0, 0)"
        },
        fault=FaultType.ESCAPE_BLOCKED,
    ),
    AdapterCase(
        name="charts",
        arguments={"code": f"{_PNG}display(Chart(0))\nprint('between')\nChart(255)"},
        images=2,
    ),
    AdapterCase(
        name="fences in output",
        arguments={"code": "print('```\\nok\\n```')"},
    ),
    AdapterCase(name="markdown fence", arguments={"code": "```python\nprint(9)\n```"}),
    AdapterCase(name="no arguments", arguments={}, error="bad_arguments"),
    AdapterCase(name="wrong type", arguments={"code": 5}, error="bad_arguments"),
    AdapterCase(
        name="unknown key",
        arguments={"code": "print(1)", "image": "alpine"},
        error="bad_arguments",
    ),
    AdapterCase(
        name="lone surrogate",
        arguments={"code": "print('\ud800')"},
        error="bad_arguments",
    ),
    AdapterCase(
        name="write", tool="write_file", arguments={"path": "a.txt", "content": "hi\n"}
    ),
    AdapterCase(
        name="no such file",
        tool="read_file",
        arguments={"path": "nowhere.txt"},
        error="not_found",
    ),
    AdapterCase(name="empty listing", tool="list_files", arguments={}),
    AdapterCase(
        name="command",
        tool="run_command",
        arguments={"command": "echo $((6 * 7)); pwd"},
    ),
    AdapterCase(
        name="edit of no file",
        tool="edit_file",
        arguments={"path": "nowhere.txt", "old": "a", "new": "b"},
        error="not_found",
    ),
    AdapterCase(
        name="empty search",
        tool="search_files",
        arguments={"pattern": "a+", "path": "."},
    ),
    AdapterCase(
        name="bad pattern",
        tool="search_files",
        arguments={"pattern": "("},
        error="bad_arguments",
    ),
    AdapterCase(name="no file found", tool="find_files", arguments={"glob": "**/*.py"}),
)
"""What each adapter is called with."""


_each_case = pytest.mark.parametrize("case", ADAPTER_CASES, ids=lambda case: case.name)


def steady(text: str) -> str:
    """Replace what differs from run to run: times and the ids of calls."""
    text = re.sub(r"\A(.*?), took [\d.,]+ s of [\d.,]+ s$", r"\1", text, flags=re.M)
    return re.sub(r"(\.kern/[a-z]+-)[\w.-]+?(?=[-.])", r"\1ID", text)


@cache
def core_reply(name: str, mode: str = "fresh") -> Reply:
    """Say what the core answers to a case, in a sandbox of its own.

    Args:
        name: Of one of `ADAPTER_CASES`.
        mode: Of the sandbox.

    Returns:
        The reply; made once for all that compare with it.
    """
    (case,) = (case for case in ADAPTER_CASES if case.name == name)
    with Sandbox(timeout_s=_LIMIT_S, mode=mode, prewarm=0) as sandbox:
        (tool,) = tools_of(sandbox, case.tool)
        return tool.call(case.arguments)


class AdapterContract(Contract):
    """The model reads the same words whichever framework carries them."""

    mode: ClassVar[str] = "fresh"
    """Of the sandbox; the words are compared with the core's in that mode."""

    @pytest.fixture
    def sandbox(self) -> Iterator[Sandbox]:
        """Where the adapter's calls run."""
        with Sandbox(timeout_s=_LIMIT_S, mode=self.mode, prewarm=0) as sandbox:
            yield sandbox

    @pytest.fixture
    def adapter(self, sandbox: Sandbox) -> Adapter:
        """What is tested; a subclass gives it, over the tools `coding` of `sandbox`."""
        raise NotImplementedError("override the fixture `adapter`")

    @_each_case
    def test_words_images_and_data_arrive(
        self, adapter: Adapter, case: AdapterCase
    ) -> None:
        """The model reads the core's words, and code finds the outcome as data."""
        outcome = adapter.call(case.tool, case.arguments)
        _assert_arrived(outcome, case, core_reply(case.name, self.mode))

    @_each_case
    async def test_the_async_way_brings_the_same(
        self, adapter: Adapter, case: AdapterCase
    ) -> None:
        """The framework's native async neither loses nor adds anything."""
        outcome = await adapter.acall(case.tool, case.arguments)
        # The core is asked on another thread: it is not what is async here.
        reply = await asyncio.to_thread(core_reply, case.name, self.mode)
        _assert_arrived(outcome, case, reply)


def _assert_arrived(outcome: Outcome, case: AdapterCase, reply: Reply) -> None:
    assert steady(outcome.text) == steady(reply.text)
    assert outcome.images == reply.images
    assert len(outcome.images) == case.images
    # Base64 in a text is blind and dear.
    assert not any(image.base64[:64] in outcome.text for image in outcome.images)
    fault = outcome.artifact["fault"]
    assert outcome.fault_type == case.fault
    assert (fault and fault["type"]) == case.fault
    assert outcome.artifact.get("error") == case.error
    assert outcome.is_error == case.is_error
    assert json.loads(json.dumps(outcome.artifact)) == outcome.artifact
