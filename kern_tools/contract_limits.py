"""The caps on memory and processes, where this host lets them bind."""

from __future__ import annotations

import errno
from collections.abc import Mapping

import pytest

from .contract import Make, SandboxClauses
from .contract_view import FORKS
from .faults import FaultType, SandboxError
from .host import HostReport, host_report
from .image import ensure_image

_CAP_MB = 64
_HOG = "x = bytearray(200 << 20)"
_HOGS: Mapping[str, str] = {
    "in the cell": _HOG,
    "in a child": f"import subprocess, sys\n"
    f"subprocess.run([sys.executable, '-c', {_HOG!r}])",
    "in shared memory": "open('/dev/shm/x', 'wb').write(bytes(40 << 20))\n"
    "x = bytearray(40 << 20)",
}


def _report() -> HostReport:
    return host_report(reference=ensure_image().reference)


class LimitsContract(SandboxClauses):
    """A cap that binds is a fact of the kernel, and one that does not is said."""

    @pytest.fixture
    def caps(self) -> None:
        """Pass over, with the reason, what a host without caps cannot show."""
        report = _report()
        if report.limits_enforced is None:
            pytest.skip("this kern does not say whether memory and process caps bind")
        if not report.limits_enforced:
            pytest.skip(
                "memory and process caps do not bind here (cgroups:"
                f" {report.cgroups}); kern needs a cgroup v2 with `memory` and `pids`"
                " delegated, and `kern doctor` says what is missing"
            )

    def test_whether_caps_bind_is_said(self, make: Make) -> None:
        """Once the prompt was asked for, a result says what kern says of this host."""
        sandbox = make()
        assert sandbox.system_prompt()
        result = sandbox.run_code("print(1)")
        assert result.limits_enforced is _report().limits_enforced

    def test_required_limits_bind_or_nothing_runs(self, make: Make) -> None:
        """`require_limits` refuses to open where caps do not bind."""
        if _report().limits_enforced:
            assert make(require_limits=True).run_code("1").limits_enforced is True
            return
        with pytest.raises(SandboxError) as refused:
            make(require_limits=True)
        assert refused.value.fault is not None
        assert refused.value.fault.reason == "limits"

    def test_an_oom_cannot_be_claimed(self, make: Make) -> None:
        """The sentence and the exit code of an oom, from code, are only that."""
        code = (
            "import os\nprint(\"kern: the workload was killed by the kernel's OOM"
            ' killer", flush=True)\nos._exit(137)'
        )
        result = make(memory_mb=_CAP_MB).run_code(code)
        assert (result.exit_code, result.fault) == (137, None)

    @pytest.mark.usefixtures("caps")
    @pytest.mark.parametrize("hog", _HOGS.values(), ids=list(_HOGS))
    def test_outgrowing_the_memory_cap_is_oom(self, make: Make, hog: str) -> None:
        """The kernel ends the box, whoever took the memory; the output is kept."""
        sandbox = make(memory_mb=_CAP_MB)
        result = sandbox.run_code(f"print('before', flush=True)\n{hog}")
        assert (result.fault_type, result.exit_code) == (FaultType.OOM, 137)
        assert (result.stdout, result.limits_enforced) == ("before\n", True)

    @pytest.mark.usefixtures("caps")
    def test_a_sandbox_goes_on_after_an_oom(self, make: Make) -> None:
        """After an oom the next call has a new box, and the files."""
        sandbox = make(memory_mb=_CAP_MB)
        ended = sandbox.run_code(f"open('kept', 'w').close()\n{_HOG}")
        assert ended.fault_type == FaultType.OOM
        after = sandbox.run_code("import os\nprint(os.listdir())")
        assert (after.stdout, after.fault) == ("['kept']\n", None)

    @pytest.mark.usefixtures("caps")
    def test_memory_within_the_cap_is_the_codes_own(self, make: Make) -> None:
        """Code that stays below the cap is left alone."""
        result = make(memory_mb=_CAP_MB).run_code("x = bytearray(20 << 20); len(x)")
        assert (result.fault, result.results[0].text) == (None, str(20 << 20))

    @pytest.mark.usefixtures("caps")
    def test_the_process_cap_is_an_error_in_the_code(self, make: Make) -> None:
        """A fork over the cap fails with EAGAIN, and that is no fault."""
        result = make(pids=16).run_code(FORKS)
        assert (result.stdout, result.fault) == (f"{errno.EAGAIN}\n", None)
