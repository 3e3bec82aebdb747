"""What a backend of a deep agent gives back: commands, faults and files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Protocol

import pytest

from .contract import Contract
from .sandbox import Sandbox

_LIMIT_S = 20
_COMMAND = "echo out; echo err >&2; exit 3"
_ENDLESS = "echo before; sleep 60"
_DATA = bytes(range(256))


class Backend(Protocol):
    """The part of a sandbox backend that agents' shells and file tools use."""

    def execute(self, command: str, *, timeout: int | None = None) -> Any:
        """Run a line of shell; the answer has `output` and `exit_code`."""
        ...

    async def aexecute(self, command: str, *, timeout: int | None = None) -> Any:
        """Do the same, natively async."""
        ...

    def upload_files(self, files: list[tuple[str, bytes]]) -> Any:
        """Write files; each answer has `path` and `error`."""
        ...

    def download_files(self, paths: list[str]) -> Any:
        """Read files; each answer has `path`, `content` and `error`."""
        ...


class BackendContract(Contract):
    """A deep agent's shell and files are those of a sandbox."""

    mode: ClassVar[str] = "fresh"
    """Of the sandbox."""

    @pytest.fixture
    def sandbox(self) -> Iterator[Sandbox]:
        """Where commands run and files are."""
        with Sandbox(timeout_s=_LIMIT_S, mode=self.mode) as sandbox:
            yield sandbox

    @pytest.fixture
    def backend(self, sandbox: Sandbox) -> Backend:
        """What is tested; a subclass gives it, over `sandbox`."""
        raise NotImplementedError("override the fixture `backend`")

    def test_a_command_says_its_output_and_exit_code(self, backend: Backend) -> None:
        """Both streams arrive as one text, and the exit code is the command's."""
        _assert_ran(backend.execute(_COMMAND))

    async def test_an_async_command_says_the_same(self, backend: Backend) -> None:
        """The native async way gives the same output and exit code."""
        _assert_ran(await backend.aexecute(_COMMAND))

    def test_a_fault_of_a_command_is_told_first(self, backend: Backend) -> None:
        """The output begins with the fault, and holds what was printed before it."""
        answer = backend.execute(_ENDLESS, timeout=2)
        assert answer.output.startswith("fault: timeout.")
        assert answer.output.endswith("before\n")
        assert answer.exit_code == 137

    async def test_a_fault_of_an_async_command_is_told_too(
        self, backend: Backend
    ) -> None:
        """The native async way tells the fault first as well."""
        answer = await backend.aexecute(_ENDLESS, timeout=2)
        assert answer.output.startswith("fault: timeout.")
        assert answer.exit_code == 137

    def test_files_of_an_agent_are_kept_byte_for_byte(self, backend: Backend) -> None:
        """What is uploaded is what commands see, and what is downloaded."""
        (up,) = backend.upload_files([("/workspace/a/in.bin", _DATA)])
        assert up.error is None
        assert backend.execute("cp a/in.bin out.bin").exit_code == 0
        (down,) = backend.download_files(["/workspace/out.bin"])
        assert (down.content, down.error) == (_DATA, None)

    def test_a_path_of_an_agent_leads_nowhere_else(self, backend: Backend) -> None:
        """A path outside, a link and an absent file are answers with an error."""
        assert backend.execute("ln -s /etc/passwd link").exit_code == 0
        paths = ["/workspace/../etc/passwd", "/workspace/link", "/workspace/absent"]
        answers = backend.download_files(paths)
        assert [answer.content for answer in answers] == [None] * 3
        assert all(answer.error for answer in answers)
        (up,) = backend.upload_files([("/etc/passwd", b"")])
        assert up.error


def _assert_ran(answer: Any) -> None:
    assert answer.output == "out\nerr\n"
    assert answer.exit_code == 3
