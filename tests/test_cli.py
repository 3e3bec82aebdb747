"""The command line, as a shell and a script use it."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
import sysconfig
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kern_tools import ExecutionResult, Sandbox, __version__
from kern_tools.adapters import openai
from kern_tools.cli import app, main
from kern_tools.doctor import findings
from kern_tools.host import HostReport, host_report
from kern_tools.host_image import host_reference
from kern_tools.image import image_info
from kern_tools.tools import tools_of

PROGRAM = Path(sysconfig.get_path("scripts")) / "kern-tools"
FAULT, UNUSABLE, USAGE = 120, 121, 2
ESCAPE = "\x1b"

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAA"
    "CklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)
CHARTS = f"""\
import base64
class Chart:
    def _repr_png_(self): return base64.b64decode("{PIXEL}")
for _ in range(6): display(Chart())
"""


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    exit_code: int
    stdout: str
    stderr: str


def kern_tools(*words: str | Path, stdin: str = "", **env: str) -> Done:
    """Run the installed program to its end."""
    done = subprocess.run(
        [PROGRAM, *words],
        input=stdin,
        capture_output=True,
        text=True,
        env={**os.environ, **env},
    )
    return Done(done.returncode, done.stdout, done.stderr)


def invoke(*words: str | Path, stdin: str = "", **env: str) -> Done:
    """Run a command in this process, which is quicker."""
    done = CliRunner().invoke(
        app, [*map(str, words)], input=stdin, env=env, catch_exceptions=False
    )
    return Done(done.exit_code, done.stdout, done.stderr)


def run(code: str, *words: str | Path) -> Done:
    """Run `code` from stdin."""
    return invoke("run", "-", *words, stdin=code)


def result_of(code: str, *words: str | Path) -> ExecutionResult:
    """Run `code` from stdin and read the result back from JSON."""
    return ExecutionResult.model_validate_json(run(code, "--json", *words).stdout)


def report(**known: Any) -> HostReport:
    """Make the report of a host on which all is well, but for what is given."""
    well: dict[str, Any] = {
        "platform": "Linux 6.1 x86_64",
        "python_version": "3.11.9",
        "python_executable": "/usr/bin/python3",
        "cgroups": "v2",
        "environment": {},
        "image": "localhost/kern-tools/host-python:3.11.9-0123456789ab",
        "image_present": True,
        "kern": "/usr/bin/kern",
        "kern_version": "0.33.0",
        "boxes_start": True,
        "limits_enforced": True,
    }
    return HostReport(**{**well, **known})


def on_a_terminal(*words: str, program: str | Path = PROGRAM) -> str:
    """Run a program on a terminal of its own and return what it showed."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as shown:
        child = subprocess.Popen(
            [program, *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm-256color"},
        )
        os.close(theirs)
        text = b""
        try:
            while piece := shown.read(4096):
                text += piece
        except OSError:  # Linux ends the reading of a terminal that was let go so.
            pass
        child.wait()
    return text.decode()


# -- the program


def test_help_names_every_command() -> None:
    """Whoever types `--help` finds all there is."""
    shown = invoke("--help").stdout
    commands = ("doctor", "image", "run", "tools", "prompt", "demo", "conformance")
    assert all(re.search(rf"^  {name} ", shown, re.M) for name in commands)


@pytest.mark.parametrize(
    "words",
    [
        *(["doctor"], ["run"], ["tools"], ["prompt"], ["demo"], ["conformance"]),
        *(["image", "build"], ["image", "show"], ["image", "remove"]),
    ],
    ids=" ".join,
)
def test_each_command_has_plain_help(words: list[str]) -> None:
    """Help is text that a pipe can take: no colours, no drawing."""
    done = invoke(*words, "--help")
    assert done.exit_code == 0
    assert done.stdout.isascii()
    assert ESCAPE not in done.stdout


def test_the_version_is_printed() -> None:
    """A bug report starts with it."""
    assert kern_tools("--version").stdout == f"kern-tools {__version__}\n"


@pytest.mark.parametrize(
    "words",
    [
        ["bogus"],
        ["run"],
        ["run", "no-such-file.py"],
        ["run", "-", "--language", "cobol"],
        ["run", "-", "--timeout-s", "soon"],
        ["run", "-", "--mount", "/etc"],
        ["run", "-", "--env", "SURELY_NOT_SET"],
        ["tools", "--format", "yaml"],
        ["image", "remove"],
        ["image", "remove", "python:3.12"],
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_is_told_apart(words: list[str]) -> None:
    """It exits with 2, prints nothing on stdout and shows no traceback."""
    done = invoke(*words)
    assert (done.exit_code, done.stdout) == (USAGE, "")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "env"),
    [
        (["run", "-", "--memory-mb", "0"], {}),
        (["run", "-", "--mount", "/:/mnt"], {}),
        (["run", "-", "--packages", "no-such-distribution"], {}),
        (["run", "-", "--image", "localhost/none:1", "--offline"], {}),
        (["run", "-"], {"KERN_BIN": "/nowhere/kern"}),
        (["tools", "--tools", "cod"], {}),
        (["prompt"], {"KERN_BIN": sys.executable}),
        (["image", "build"], {"KERN_BIN": "/nowhere/kern"}),
        (["demo"], {"KERN_BIN": "/nowhere/kern"}),
    ],
    ids=lambda part: " ".join(part),
)
def test_an_error_of_the_house_is_one_line(
    words: list[str],
    env: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What stands in the way is said on stderr, without a traceback."""
    save = ["--save", str(tmp_path)] if words == ["demo"] else []
    monkeypatch.setattr(sys, "argv", ["kern-tools", *words, *save])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()
    assert (ended.value.code, printed.out) == (UNUSABLE, "")
    assert re.fullmatch(r"error: .+\n", printed.err)


def test_the_program_itself_ends_with_such_a_line() -> None:
    """The installed script adds nothing to it, and keeps the exit code."""
    done = kern_tools("run", "-", "--memory-mb", "0")
    assert (done.exit_code, done.stdout) == (UNUSABLE, "")
    assert re.fullmatch(r"error: .+\n", done.stderr)


def test_what_kern_said_follows_the_error() -> None:
    """One line of ours, then kern's own words, which name what it could not reach."""
    image = "localhost:1/none/none:1"
    done = kern_tools("run", "-", "--image", image, stdin="1")
    assert (done.exit_code, done.stdout) == (UNUSABLE, "")
    pulling, ours, kerns, *_ = done.stderr.splitlines()
    assert pulling == f"pulling {image}"
    assert ours.startswith(f"error: the image {image!r} is not present")
    assert kerns.startswith("kern said (exit ")


def test_it_prints_to_what_is_no_terminal_and_no_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A notebook puts an object of its own in the place of stdout."""
    monkeypatch.setattr(sys, "argv", ["kern-tools", "--version"])
    with redirect_stdout(io.StringIO()) as shown, pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, shown.getvalue().split()[-1]) == (0, __version__)


# -- doctor


def test_doctor_gives_the_host_report_as_json() -> None:
    """A script reads the same facts that Python code gets."""
    done = kern_tools("doctor", "--json")
    told = json.loads(done.stdout)
    told.pop("remedies")
    ours = host_report(refresh=True).to_dict()
    executable = "python_executable"  # of the script's own first line
    assert {**told, executable: ""} == {**ours, executable: ""}
    assert done.exit_code == (0 if ours["ok"] else 1)


def test_doctor_fails_where_boxes_do_not_start() -> None:
    """A script can ask by the exit code alone, and reads what to do in the JSON."""
    done = invoke("doctor", "--json", KERN_BIN="/nowhere/kern")
    told = json.loads(done.stdout)
    assert done.exit_code == 1
    assert (told["ok"], told["problem_code"]) == (False, "no_kern")
    assert told["remedies"]["kern"] == told["problem"]


def test_doctor_looks_for_another_image() -> None:
    """The image that is asked for is the one reported on."""
    done = invoke("doctor", "--json", "--image", "localhost/none:1")
    told = json.loads(done.stdout)
    assert (told["image"], told["image_present"]) == ("localhost/none:1", False)


def test_doctor_is_plain_in_a_pipe() -> None:
    """Each finding is one line, whatever its length, without colours or frames."""
    done = invoke("doctor", COLUMNS="20")
    assert ESCAPE not in done.stdout
    assert done.stdout.isascii()
    found = findings(host_report())
    lines = done.stdout.splitlines()
    assert [line.split("  ")[0] for line in lines[1 : len(found) + 1]] == [
        finding.about for finding in found
    ]


def test_doctor_is_drawn_on_a_terminal() -> None:
    """A person gets headings that stand out."""
    assert ESCAPE in on_a_terminal("doctor")


def test_all_well_needs_no_remedy() -> None:
    """A host on which nothing is missing gets no advice."""
    assert {(f.state, f.remedy) for f in findings(report())} == {("ok", "")}


@pytest.mark.parametrize(
    ("known", "about", "state"),
    [
        ({"kern": None, "problem": "no kern; pip install it"}, "kern", "missing"),
        ({"boxes_start": False, "problem": "no namespaces"}, "boxes", "missing"),
        ({"limits_enforced": False}, "caps", "warning"),
        ({"missing_answers": ("oom", "signal")}, "kern's answers", "warning"),
        ({"image_present": False}, "image", "note"),
        (
            {"environment": {"KERN_ALLOW_UNCAPPED": "1"}},
            "KERN_ALLOW_UNCAPPED",
            "warning",
        ),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_what_is_missing_comes_with_what_to_do(
    known: dict[str, Any], about: str, state: str
) -> None:
    """Each gap is a finding of its own with a remedy."""
    gaps = [f for f in findings(report(**known)) if f.state != "ok"]
    found = {finding.about: finding for finding in gaps}
    assert found[about].state == state
    assert found[about].remedy


def test_caps_that_do_not_bind_are_said_plainly() -> None:
    """Nobody reads past it."""
    (caps,) = (f for f in findings(report(limits_enforced=False)) if f.about == "caps")
    assert caps.found.startswith("NOT ENFORCED")


# -- image


def test_build_prints_the_reference_alone() -> None:
    """`IMAGE=$(kern-tools image build)` works."""
    done = invoke("image", "build")
    assert done.exit_code == 0
    assert image_info(done.stdout.removesuffix("\n")) is not None


def test_build_adds_packages() -> None:
    """Names with commas are distributions of this environment."""
    reference = invoke("image", "build", "--packages", "mdurl").stdout.strip()
    info = image_info(reference)
    assert info is not None
    assert info["labels"]["dev.kern-tools.packages"].startswith("mdurl==")


@pytest.mark.verify
def test_images_are_built_shown_and_removed(tmp_path: Path) -> None:
    """Where kern keeps no images yet, one comes, is listed, and goes."""
    empty = {"XDG_CACHE_HOME": str(tmp_path)}
    built = kern_tools("image", "build", **empty)
    assert built.stdout == f"{host_reference()}\n"
    assert "building" in built.stderr
    shown = json.loads(invoke("image", "show", "--json", **empty).stdout)
    assert [image["reference"] for image in shown] == [host_reference()]
    assert host_reference() in invoke("image", "show", **empty).stdout
    removed = kern_tools("image", "remove", "--all", **empty)
    assert removed.stdout == f"removed {host_reference()}\n"
    assert invoke("image", "show", "--json", **empty).stdout == "[]\n"


# -- run


def test_run_prints_what_a_model_reads() -> None:
    """The verdict, then the fenced output, and no more."""
    done = run("print(6 * 7)")
    assert done.exit_code == 0
    assert done.stdout == "ok\nstdout:\n```\n42\n```\n"


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("1 / 0", 1),
        ("raise SystemExit(7)", 7),
        ("raise SystemExit(119)", 119),
        ("raise SystemExit(120)", 119),
        ("raise SystemExit(255)", 119),
        ("import os; os.abort()", 119),
    ],
)
def test_a_failure_keeps_the_codes_own_exit_code(code: str, exit_code: int) -> None:
    """What is higher than 119 is capped, so that it cannot be taken for a fault."""
    assert run(code).exit_code == exit_code


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import time; time.sleep(60)", ["--timeout-s", "1"]),
        ("import ctypes; ctypes.CDLL(None).mount(b'n', b'/tmp', b'tmpfs', 0, 0)", []),
        ("console.log(1)", ["--language", "node"]),
    ],
    ids=["timeout", "escape_blocked", "exec_failed"],
)
def test_a_fault_has_an_exit_code_of_its_own(code: str, words: list[str]) -> None:
    """A script tells the sandbox's act from the code's failure."""
    done = run(code, *words)
    assert done.exit_code == FAULT
    assert done.stdout.startswith("fault: ")


def test_code_that_cannot_be_run_is_told_apart() -> None:
    """It is answered as a model would be, and nothing was run."""
    done = run("#" * (2 << 20))
    assert done.exit_code == UNUSABLE
    assert done.stdout.startswith("bad arguments: ")


def test_json_is_the_result() -> None:
    """It validates, and holds what code branches on."""
    result = result_of("print('é')\nraise SystemExit(3)")
    assert (result.stdout, result.exit_code, result.fault) == ("é\n", 3, None)


def test_the_exit_code_is_the_same_with_json() -> None:
    """How the outcome is printed changes nothing about it."""
    assert (
        run("import time; time.sleep(60)", "--timeout-s", "1", "--json").exit_code
        == FAULT
    )


@pytest.mark.parametrize(
    ("name", "code", "printed"),
    [
        ("a.py", "print(type(1))", "<class 'int'>"),
        ("a.sh", "echo $((6 * 7))", "42"),
        ("a.bash", "x=(1 2); echo ${#x[@]}", "2"),
        ("noend", "print(len('ab'))", "2"),
    ],
)
def test_the_ending_says_the_language(
    tmp_path: Path, name: str, code: str, printed: str
) -> None:
    """A script runs as what it is."""
    file = tmp_path / name
    file.write_text(code)
    done = invoke("run", file)
    assert f"```\n{printed}\n```" in done.stdout


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are no code."""
    file = tmp_path / "a.py"
    file.write_bytes(b"print('\xff')")
    assert invoke("run", file).exit_code == USAGE


def test_what_a_program_prints_cannot_steer_the_terminal() -> None:
    """Escape sequences reach the screen in no form of output."""
    code = r"print('\x1b]0;title\x07\x9b31mred')"
    assert not re.search(
        r"[\x07\x1b\x9b]", run(code).stdout + run(code, "--json").stdout
    )


def test_charts_are_saved_also_those_over_the_budget(tmp_path: Path) -> None:
    """A reply has four at most; all are kept where they are asked for."""
    folder = tmp_path / "new" / "charts"
    done = run(CHARTS, "--save", folder)
    assert done.exit_code == 0
    names = sorted(path.name for path in folder.iterdir())
    assert names == [f"chart-{number}.png" for number in range(1, 7)]
    assert (folder / names[0]).read_bytes().startswith(b"\x89PNG")


def test_packages_can_be_imported() -> None:
    """Names with commas are what the code finds."""
    code = "import mdurl, sys; print(mdurl.__file__ is not None)"
    assert result_of(code, "--packages", "mdurl").stdout == "True\n"


def test_a_workspace_is_kept(tmp_path: Path) -> None:
    """Files that the code leaves are there afterwards."""
    run("open('left.txt', 'w').write('hi')", "--workspace", tmp_path)
    assert (tmp_path / "left.txt").read_text() == "hi"


def test_a_mount_is_seen(tmp_path: Path) -> None:
    """A path of the host is in the box, read-only where it says so."""
    (tmp_path / "a.txt").write_text("inside")
    code = "print(open('/data/a.txt').read())\nopen('/data/a.txt', 'w')"
    result = result_of(code, "--mount", f"{tmp_path}:/data:ro")
    assert result.stdout == "inside\n"
    assert "Read-only file system" in result.code_stderr


def test_scratch_space_is_sized_by_path() -> None:
    """As large as was said, or none; a word without a size is a wrong command line."""
    code = "import os\nf = os.statvfs('/scratch')\nprint(f.f_blocks * f.f_frsize)"
    assert result_of(code, "--tmpfs", "/scratch:16m").stdout == f"{16 << 20}\n"
    none = "import os\nprint(os.path.ismount('/tmp'))"
    assert result_of(none).stdout == "True\n"
    assert result_of(none, "--tmpfs", "none").stdout == "False\n"
    wrong = run("1", "--tmpfs", "/scratch")
    assert (wrong.exit_code, wrong.stdout) == (USAGE, "")
    assert "PATH:SIZE" in wrong.stderr


def test_the_words_and_images_of_a_reply_are_bounded(tmp_path: Path) -> None:
    """By options of the command, as by a budget in Python."""
    done = run("print('x' * 9000)", "--text-chars", "1000")
    assert len(done.stdout) <= 1001
    assert "xxx" in done.stdout
    kept = run(CHARTS, "--images", "1", "--json")
    assert '"resultsOmitted"' in kept.stdout


def test_a_variable_comes_from_the_environment() -> None:
    """A secret need not stand on a command line."""
    code = "import os; print(os.environ['CANARY'], os.environ['PLAIN'])"
    words = ("run", "-", "--json", "--env", "CANARY", "--env", "PLAIN=a=b")
    done = invoke(*words, stdin=code, CANARY="tweet")
    assert json.loads(done.stdout)["stdout"] == "tweet a=b\n"


# -- what a model is told


@pytest.mark.parametrize(
    ("form", "own"), [("openai-chat", "chat"), ("openai-responses", "responses")]
)
@pytest.mark.parametrize("strict", [True, False])
def test_tools_are_those_of_the_adapter(form: str, own: str, strict: bool) -> None:
    """What is printed is what the OpenAI adapter passes as `tools=`."""
    flag = "--strict" if strict else "--no-strict"
    done = invoke("tools", "--format", form, flag)
    with Sandbox() as sandbox:
        assert json.loads(done.stdout) == getattr(
            openai.as_tools(sandbox, strict=strict), own
        )


def test_tools_have_a_neutral_form() -> None:
    """Name, description and schema, of the tools that are named."""
    done = invoke("tools", "--format", "json-schema", "--tools", "code")
    with Sandbox() as sandbox:
        (tool,) = tools_of(sandbox, "code")
        assert json.loads(done.stdout) == [
            {
                "name": "run_code",
                "description": tool.description,
                "schema": tool.schema(),
            }
        ]


def test_prompt_says_what_a_sandbox_with_these_options_says() -> None:
    """The system prompt, then each tool's description."""
    done = invoke("prompt", "--timeout-s", "9", "--memory-mb", "99")
    with Sandbox(timeout_s=9, memory_mb=99) as sandbox:
        told = [sandbox.system_prompt(), *(t.description for t in tools_of(sandbox))]
    assert done.stdout.startswith(told[0])
    assert all(f"{text}\n" in done.stdout for text in told)
