"""What the host report says, against what boxes really do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kern_tools import host
from kern_tools.binary import find_kern, kern_version
from kern_tools.host import host_report
from kern_tools.image import ensure_image

ABSENT = "localhost/kern-tools-test/absent:1"


@pytest.fixture(scope="module")
def image() -> str:
    """The host's image, present."""
    return ensure_image("host").reference


def wrapper(path: Path, text: str) -> Path:
    """Write a program around the real kern, which it can call as `"$kern"`."""
    path.write_text(f"#!/bin/sh\nkern='{find_kern()}'\n{text}\n")
    path.chmod(0o755)
    return path


def test_the_report_names_kern_and_python(image: str) -> None:
    """Who runs the boxes and who runs this program."""
    report = host_report(refresh=True)
    assert report.kern == str(find_kern())
    assert report.kern_version == kern_version(find_kern())
    assert report.python_executable == sys.executable
    assert (report.image, report.image_present) == (image, True)
    assert report.ok
    assert report.problem is None


def test_limits_are_reported_as_kern_enforces_them(image: str) -> None:
    """A box that insists on its limits starts exactly where they are reported."""
    strict = subprocess.run(
        [
            *(find_kern(), "box", "kt-test-strict", "--image", image),
            *("--pull", "never", "--ro", "-q", "--require-limits", "--", "true"),
        ],
        capture_output=True,
        check=False,
    )
    assert host_report().limits_enforced is (strict.returncode == 0)


def test_an_absent_image_is_said_and_boxes_are_tried_all_the_same() -> None:
    """Whether boxes start is no question of an image."""
    report = host_report(reference=ABSENT)
    assert report.image == ABSENT
    assert report.image_present is False
    assert report.boxes_start is True


def test_a_present_kern_answers_everything(image: str) -> None:
    """The kern that the wheel carries tells every fault apart."""
    assert host_report(reference=image).missing_answers == ()


def test_an_older_kern_runs_and_its_missing_answers_are_said(
    image: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without the descriptors of newer builds, the report says what is not known."""
    expected = host_report(reference=image)
    old = wrapper(
        tmp_path / "kern",
        'exec env -u KERN_STARTED_FD -u KERN_ALIVE_FD "$kern" "$@"',
    )
    monkeypatch.setenv("KERN_BIN", str(old))
    report = host_report(reference=image)
    assert report.boxes_start is True
    assert report.limits_enforced is expected.limits_enforced
    assert report.missing_answers == (
        "alive",
        "started",
        "limits_enforced",
        "oom",
        "signal",
    )


def test_boxes_that_do_not_start_are_a_problem(
    image: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The reason is in the report, in the words of kern without its advice."""
    broken = wrapper(
        tmp_path / "kern",
        'if [ "$1" = box ]; then echo "error: no namespaces here" >&2;'
        ' echo "hint: more" >&2; exit 1; fi\nexec "$kern" "$@"',
    )
    monkeypatch.setenv("KERN_BIN", str(broken))
    report = host_report(reference=image)
    assert report.boxes_start is False
    assert not report.ok
    assert "no namespaces here" in str(report.problem)
    assert "hint" not in str(report.problem)


def test_a_kern_that_does_not_come_back_is_a_problem(
    image: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is not waited for without end."""
    stuck = wrapper(
        tmp_path / "kern",
        'if [ "$1" = box ]; then exec sleep 60; fi\nexec "$kern" "$@"',
    )
    monkeypatch.setenv("KERN_BIN", str(stuck))
    monkeypatch.setattr(host, "_PROBE_WAIT_S", 0.2)
    report = host_report(reference=image)
    assert (report.boxes_start, report.problem_code) == (None, "host")
    assert "did not finish a box within 0.2 s" in str(report.problem)


@pytest.mark.parametrize(
    ("cgroups", "made"),
    [
        ("none", ""),
        ("v1", "mkdir memory"),
        ("hybrid", "mkdir memory unified; : > unified/cgroup.controllers"),
        ("v2", ": > cgroup.controllers"),
    ],
)
def test_the_kind_of_cgroups_is_told(cgroups: str, made: str) -> None:
    """As the usual place of its mounts shows it, here in a namespace of its own."""
    program = "from kern_tools.host import host_report; print(host_report().cgroups)"
    mounts = "mount -t tmpfs none /sys/fs/cgroup && cd /sys/fs/cgroup"
    script = f'{mounts} && {made or ":"} && exec "$0" -c "{program}"'
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", script, sys.executable],
        capture_output=True,
        text=True,
        env={**os.environ, "KERN_BIN": "/no/such/kern"},
        check=False,
    )
    assert (done.stdout, done.stderr) == (f"{cgroups}\n", "")


def test_a_missing_kern_is_in_the_report_and_not_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A doctor that raises could not show the rest."""
    monkeypatch.setenv("KERN_BIN", "/no/such/kern")
    report = host_report()
    assert report.kern is None
    assert report.boxes_start is None
    assert report.problem_code == "no_kern"


def test_no_home_is_in_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one, kern would silently see no images."""
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert host_report().problem_code == "no_home"


def test_variables_that_change_the_posture_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who reads the report sees why boxes behave differently here."""
    monkeypatch.setenv("KERN_SECCOMP", "denylist")
    assert host_report().environment["KERN_SECCOMP"] == "denylist"


def test_secrets_are_not_shown(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only variables known to be harmless are listed."""
    monkeypatch.setenv("KERN_SECRET_TOKEN", "canary-7351")
    monkeypatch.setenv("KERN_API_KEY", "canary-7351")
    report = host_report(reference=image)
    assert "canary-7351" not in json.dumps(report.to_dict()) + repr(report)


def test_the_report_is_plain_json(image: str) -> None:
    """`--json` shows the report and whether all is well."""
    shown = json.loads(json.dumps(host_report(reference=image).to_dict()))
    assert shown["ok"] is True
    assert shown["missing_answers"] == []


def test_the_host_is_asked_once(image: str) -> None:
    """A second report is the first one, until it is refreshed."""
    first = host_report(reference=image)
    assert host_report(reference=image) is first
    assert host_report(reference=image, refresh=True) is not first
