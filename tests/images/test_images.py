"""Images other than the host's, pulled by kern from a real registry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kern_tools import Sandbox, SandboxError, run_code
from kern_tools.image import image_info
from tests.standstill import Standstill

from .registry import Registry
from .trickle import SlowRegistry

ABSENT = f"sha256:{'0' * 64}"


def test_node_runs_in_an_image_without_python(node: str) -> None:
    """`language="node"` needs nothing of the image but its `node`."""
    with Sandbox(image=node) as sandbox:
        result = sandbox.run_code("console.log(6 * 7)", language="node")

    assert (result.stdout, result.exit_code, result.fault) == ("42\n", 0, None)


def test_node_streams_stay_apart_without_a_shell(node: str) -> None:
    """Both streams of Node arrive, and an uncaught error is the code's own exit."""
    code = "process.stdout.write('out'); throw new Error('mine')"
    with Sandbox(image=node) as sandbox:
        result = sandbox.run_code(code, language="node")

    assert (result.stdout, result.exit_code, result.fault) == ("out", 1, None)
    assert "Error: mine" in result.stderr


def test_a_long_node_script_runs_as_a_short_one(node: str) -> None:
    """It may be longer than a command line: modules, names and errors are the same."""
    code = "const path = require('path'); console.log(path.sep)\n".ljust(300_000, "/")
    with Sandbox(image=node) as sandbox:
        result = sandbox.run_code(f"{code}\nthrow new Error('mine')", language="node")

    assert (result.stdout, result.exit_code, result.fault) == ("/\n", 1, None)
    assert "Error: mine" in result.stderr
    assert "[eval]:3" in result.stderr


def test_a_missing_interpreter_is_named_with_its_image(node: str) -> None:
    """Python in an image without it is `exec_failed`: which program, which image."""
    with Sandbox(image=node) as sandbox:
        result = sandbox.run_code("print(1)")

    assert result.fault is not None
    assert result.fault.type == "exec_failed"
    assert result.fault.reason == "not_found"
    assert "python3" in result.fault.message
    assert node in result.fault.message


@pytest.mark.parametrize("language", ["bash", "node", "python"])
def test_each_missing_interpreter_is_a_fault(busybox: str, language: str) -> None:
    """Busybox has `sh` alone; no other language is replaced by it."""
    with Sandbox(image=busybox) as sandbox:
        result = sandbox.run_code("exit", language=language)

    assert result.fault_type == "exec_failed"


def test_a_shell_cell_runs_in_busybox(busybox: str) -> None:
    """`language="sh"` takes the image's own shell, and files come back."""
    with Sandbox(image=busybox) as sandbox:
        result = sandbox.run_code("echo made > made.txt; cat made.txt", language="sh")

    assert (result.stdout, result.exit_code) == ("made\n", 0)
    assert [file.path for file in result.files] == ["made.txt"]


def test_streams_are_exactly_apart_with_a_shell(busybox: str) -> None:
    """What the command writes to stderr is `code_stderr`, whatever it looks like."""
    script = "echo out; echo 'kern: warning: mine' >&2; exit 3"
    with Sandbox(image=busybox) as sandbox:
        result = sandbox.run(["sh", "-c", script])

    assert result.stdout == "out\n"
    assert result.code_stderr == "kern: warning: mine\n"
    assert (result.exit_code, result.fault) == (3, None)


def test_standard_input_is_empty_with_a_shell(busybox: str) -> None:
    """A command that reads its input meets the end of it, not a channel of ours."""
    with Sandbox(image=busybox) as sandbox:
        result = sandbox.run(["cat"])

    assert (result.stdout, result.code_stderr, result.exit_code) == ("", "", 0)


def test_a_command_that_the_image_lacks_is_a_fault(busybox: str) -> None:
    """A missing program is `exec_failed`, not the shell's 127 passed off as its own."""
    with Sandbox(image=busybox) as sandbox:
        result = sandbox.run(["nosuch"])

    assert (result.exit_code, result.fault_type) == (127, "exec_failed")


def test_a_command_runs_without_any_shell(shell_less: str) -> None:
    """A static program in an image with nothing else runs as it is."""
    with Sandbox(image=shell_less) as sandbox:
        result = sandbox.run(["/bin/echo", "hello"])

    assert (result.stdout, result.exit_code, result.fault) == ("hello\n", 0, None)


def test_an_error_arrives_without_any_shell(shell_less: str) -> None:
    """Where streams cannot be told apart exactly, no line of the command is lost."""
    with Sandbox(image=shell_less) as sandbox:
        result = sandbox.run(["/bin/cat", "/nosuch"])

    assert (result.stdout, result.exit_code, result.fault) == ("", 1, None)
    assert "/nosuch" in result.stderr


def test_a_missing_shell_is_a_fault(shell_less: str) -> None:
    """`sh` in an image without one is `exec_failed`, and says which image."""
    with Sandbox(image=shell_less) as sandbox:
        result = sandbox.run_code("echo 1", language="sh")

    assert result.fault is not None
    assert result.fault.type == "exec_failed"
    assert shell_less in result.fault.message


def test_a_deadline_holds_in_an_image_without_python(busybox: str) -> None:
    """A command that outlives its limit is a timeout that keeps its output."""
    with Sandbox(image=busybox, timeout_s=1) as sandbox:
        result = sandbox.run(["sh", "-c", "echo before; sleep 60"])

    assert (result.fault_type, result.stdout) == ("timeout", "before\n")


def test_an_image_is_taken_by_digest(registry: Registry, busybox_digest: str) -> None:
    """A digest names the image as well as a tag does."""
    reference = f"{registry.host}/busybox@{busybox_digest}"
    with Sandbox(image=reference) as sandbox:
        result = sandbox.run(["sh", "-c", "echo by digest"])

    assert result.stdout == "by digest\n"
    assert image_info(reference) is not None


@pytest.mark.parametrize("suffix", [":nosuch", f"@{ABSENT}", "/nosuch:1"])
def test_an_unknown_image_fails_when_opening(busybox: str, suffix: str) -> None:
    """A tag, digest or name that the registry does not have opens no sandbox."""
    reference = busybox.removesuffix(":1") + suffix
    error = _refused(lambda: Sandbox(image=reference).open())

    assert error.fault is not None
    assert (error.fault.type, error.fault.reason) == ("startup_failed", "image")
    assert error.fault.actor == "operator"
    assert reference in str(error)


def test_a_registry_that_is_not_there_fails_when_opening() -> None:
    """A refused connection is the same fault as an unknown image."""
    error = _refused(lambda: Sandbox(image="localhost:1/nosuch:1").open())

    assert error.fault is not None
    assert (error.fault.type, error.fault.reason) == ("startup_failed", "image")


@pytest.mark.usefixtures("empty_cache")
def test_offline_never_pulls(busybox: str) -> None:
    """An image that is not present is an error at once, though it could be pulled."""
    error = _refused(lambda: Sandbox(image=busybox, offline=True).open())

    assert error.fault is not None
    assert (error.fault.type, error.fault.reason) == ("startup_failed", "image")
    assert image_info(busybox) is None


@pytest.mark.usefixtures("empty_cache")
def test_offline_takes_what_is_present(busybox: str) -> None:
    """Once pulled, an image serves without its registry."""
    with Sandbox(image=busybox) as sandbox:
        sandbox.run(["echo"])
    with Sandbox(image=busybox, offline=True) as sandbox:
        result = sandbox.run(["echo", "kept"])

    assert result.stdout == "kept\n"


def test_a_one_shot_run_returns_an_unknown_image_as_a_result(busybox: str) -> None:
    """The module-level `run_code` opens inside, so that there it is a result."""
    result = run_code("print(1)", image=busybox.replace(":1", ":nosuch"))

    assert result.fault is not None
    assert (result.fault.type, result.fault.reason) == ("startup_failed", "image")


@pytest.mark.usefixtures("empty_cache")
def test_a_slow_layer_ends_at_its_own_budget(slow_registry: SlowRegistry) -> None:
    """A pull that outlives `pull_timeout_s` fails, and leaves no download behind."""
    reference = f"{slow_registry.host}/busybox:1"
    error = _refused(lambda: Sandbox(image=reference, pull_timeout_s=1).open())

    assert error.fault is not None
    assert error.fault.type == "startup_failed"
    assert "pull_timeout_s" in str(error)
    assert slow_registry.abandoned.wait(20)


@pytest.mark.usefixtures("empty_cache")
def test_a_pull_cut_short_can_be_made_again(slow_registry: SlowRegistry) -> None:
    """Half a layer is no image: the next opening fetches it whole."""
    reference = f"{slow_registry.host}/busybox:1"
    _refused(lambda: Sandbox(image=reference, pull_timeout_s=1).open())
    slow_registry.release()
    with Sandbox(image=reference) as sandbox:
        result = sandbox.run(["echo", "whole"])

    assert result.stdout == "whole\n"


def test_a_command_whose_box_is_slow_to_build_did_not_time_out(
    busybox: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also without a driver in the box, what never ran is not a timeout."""
    standstill = Standstill(monkeypatch, tmp_path)
    with Sandbox(image=busybox) as sandbox:
        with standstill.held():
            held = sandbox.run(["echo", "late"], timeout_s=1)
        again = sandbox.run(["echo", "in time"])

    assert held.fault is not None
    assert (held.fault.type, held.fault.reason) == ("startup_failed", "slow_build")
    assert (held.stdout, held.fault.retryable) == ("", True)
    assert (again.stdout, again.fault) == ("in time\n", None)


def _refused(action: Callable[[], object]) -> SandboxError:
    with pytest.raises(SandboxError) as caught:
        action()
    return caught.value
