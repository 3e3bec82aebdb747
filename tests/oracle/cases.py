"""The cells that both engines run, and what may differ with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SCRIPT_TRACE = "the binding runs a file of its own, whose path tracebacks show"
NO_LINE = "a warning shows the path of that file, and its line"
EXIT_MESSAGE = "the binding loses the message of `sys.exit`"
PICKLED = "what the code defines is found in its own `__main__` alone"
KERN_WORDS = "the binding leaves kern's words about a failed exec in code_stderr"
TOP_LEVEL_AWAIT = "ours takes `await` at the top level, as notebooks do"
SEMICOLON = "ours hides the value before a trailing `;`, as notebooks do"
FORGED_NOTE = "the binding tells kern's lines by their text, so code can hide its own"
FORGED_EXEC = "the binding reads exec_failed from text that the code can print"
FORGED_125 = "the binding raises for exit code 125 with an `error:` line"
OWN_FILES = "code sees the binding's own source files in the workspace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One cell.

    Attributes:
        differs: Field name to the reason why the two may disagree on it.
    """

    name: str
    code: str = ""
    argv: tuple[str, ...] = ()
    language: str = "python"
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    differs: Mapping[str, str] = field(default_factory=dict[str, str])
    raises: str | None = None


MOUNT = "import ctypes\nctypes.CDLL(None).mount(b'n', b'/tmp', b'tmpfs', 0, 0)"


def _syscall(name: str, number: int) -> Case:
    code = f"import ctypes\nprint(ctypes.CDLL(None).syscall({number}, 0, 0, 0, 0, 0))"
    return Case(name=f"syscall {name}", code=code)


PYTHON = (
    Case(name="nothing"),
    Case(name="print", code="print('hi')"),
    Case(name="no final newline", code="print('hi', end='')"),
    Case(name="both streams", code="import sys\nprint(1)\nprint(2, file=sys.stderr)"),
    Case(name="unicode", code="print('héllo 🙂 你好')"),
    Case(name="invalid utf-8", code="import os\nos.write(1, b'a\\xff\\xfeb\\n')\nNone"),
    Case(name="nul bytes", code="print('a\\0b')"),
    Case(name="ansi", code="print('\\x1b[31mred\\x1b[0m')"),
    Case(name="carriage return", code="print('a\\rb\\r\\nc')"),
    Case(
        name="lone surrogate",
        code="print('\\ud800')",
        differs={"code_stderr": SCRIPT_TRACE},
    ),
    Case(name="large output", code="print('x' * 300_000)"),
    Case(
        name="both large",
        code="import os\nfor i in (1, 2): os.write(i, b'y' * 50_000)\nNone",
    ),
    Case(
        name="warning",
        code="import warnings\nwarnings.warn('old')\nprint('ok')",
        differs={"code_stderr": NO_LINE},
    ),
    Case(
        name="exception", code="print('a')\n1/0", differs={"code_stderr": SCRIPT_TRACE}
    ),
    Case(name="syntax error", code="def f(:", differs={"code_stderr": SCRIPT_TRACE}),
    Case(name="exit 0", code="import sys\nsys.exit()"),
    Case(name="exit 3", code="import sys\nsys.exit(3)"),
    Case(
        name="exit message",
        code="import sys\nsys.exit('bye')",
        differs={"code_stderr": EXIT_MESSAGE},
    ),
    Case(name="exit 300", code="import sys\nsys.exit(300)"),
    Case(name="exit negative", code="import sys\nsys.exit(-1)"),
    Case(name="exit true", code="import sys\nsys.exit(True)"),
    Case(name="os exit 7", code="import os\nos._exit(7)"),
    Case(name="os exit 125", code="import os\nos._exit(125)"),
    Case(name="os exit 126", code="import os\nos._exit(126)"),
    Case(name="os exit 127", code="import os\nos._exit(127)"),
    Case(name="os exit 137", code="import os\nos._exit(137)"),
    Case(name="os exit 159", code="import os\nos._exit(159)"),
    Case(
        name="raise SystemExit in thread",
        code="import threading\nt = threading."
        "Thread(target=lambda: print('in'))\nt.start()\nt.join()",
    ),
    Case(
        name="thread outlives main",
        code="import threading, time\nthreading.Thread("
        "target=lambda: (time.sleep(.05), print('late'))).start()\nprint('main')",
    ),
    Case(
        name="atexit", code="import atexit\natexit.register(print, 'bye')\nprint('hi')"
    ),
    Case(name="input", code="input()", differs={"code_stderr": SCRIPT_TRACE}),
    Case(name="stdin", code="import sys\nprint(repr(sys.stdin.read()))"),
    Case(name="main name", code="print(__name__)"),
    Case(name="argv", code="import sys\nprint(len(sys.argv))"),
    Case(name="cwd", code="import os\nprint(os.getcwd())"),
    Case(name="pid", code="import os\nprint(os.getpid())"),
    Case(name="umask", code="import os\nprint(oct(os.umask(0o22)))"),
    Case(name="home", code="import os\nprint(os.environ['HOME'])"),
    Case(name="path", code="import os\nprint(os.environ['PATH'])"),
    Case(
        name="writable root",
        code="open('/x', 'w')",
        differs={"code_stderr": SCRIPT_TRACE},
    ),
    Case(name="scratch", code="open('/tmp/x', 'w').write('1')\nprint('ok')"),
    Case(
        name="scratch size",
        code="import os\ns = os.statvfs('/tmp')\nprint(s.f_blocks * s.f_frsize)",
    ),
    Case(
        name="shared memory",
        code="import os\ns = os.statvfs('/dev/shm')\nprint(s.f_blocks * s.f_frsize)",
    ),
    Case(
        name="processes",
        code="import subprocess\nprint(subprocess.run(['echo', 'x'], "
        "capture_output=True, text=True).stdout)",
    ),
    Case(
        name="multiprocessing",
        code="import multiprocessing\ndef f(x): return x + 1\n"
        "fork = multiprocessing.get_context('fork')\n"
        "with fork.Pool(2) as p: print(p.map(f, [1, 2]))",
        differs=dict.fromkeys(
            ("stdout", "code_stderr", "exit_code", "success"), PICKLED
        ),
    ),
    Case(name="own kill", code="import os\nos.kill(os.getpid(), 9)\nprint('on')"),
    Case(name="own term", code="import os\nos.kill(os.getpid(), 15)\nprint('on')"),
    Case(name="segfault", code="import ctypes\nctypes.string_at(0)"),
    Case(name="abort", code="import os\nos.abort()"),
)

VALUES = (
    Case(name="value", code="6 * 7"),
    Case(name="value none", code="None"),
    Case(name="value after statements", code="x = 2\nx + 1"),
    Case(name="value string", code="'text'"),
    Case(
        name="html value",
        code="class A:\n  def _repr_html_(self): return '<b>1</b>'\n"
        "  def __repr__(self): return 'A'\nA()",
    ),
    Case(
        name="markdown value",
        code="class A:\n  def _repr_markdown_(self): return '*1*'\n"
        "  def __repr__(self): return 'A'\nA()",
    ),
    Case(
        name="png value",
        code="class A:\n  def _repr_png_(self): return b'\\x89PNG'\n"
        "  def __repr__(self): return 'A'\nA()",
    ),
    Case(name="display twice", code="display(1)\ndisplay('two')"),
    Case(name="semicolon", code="5;", differs={"results": SEMICOLON}),
    Case(
        name="top-level await",
        code="import asyncio\nawait asyncio.sleep(0)\nprint('a')",
        differs=dict.fromkeys(
            ("stdout", "code_stderr", "exit_code", "success"), TOP_LEVEL_AWAIT
        ),
    ),
)

FAULTS = (
    Case(
        name="timeout",
        code="print('A', flush=True)\nwhile True: pass",
        options={"timeout_s": 1},
    ),
    Case(
        name="timeout asleep",
        code="print('A', flush=True)\nimport time\ntime.sleep(9)",
        options={"timeout_s": 1},
    ),
    Case(name="blocked", code=MOUNT),
    _syscall("umount2", 166),
    _syscall("unshare", 272),
    _syscall("setns", 308),
    _syscall("pivot_root", 155),
    _syscall("reboot", 169),
    _syscall("init_module", 175),
    Case(
        name="blocked in a child",
        code="import os\nif os.fork() == 0:\n  "
        + MOUNT.replace("\n", "\n  ")
        + "\nprint(os.wait()[1])",
    ),
    Case(
        name="chroot",
        code="import os\ntry: os.chroot('/tmp')\nexcept OSError as e: print(e.errno)",
    ),
    Case(
        name="missing node",
        code="1",
        language="node",
        differs={"code_stderr": KERN_WORDS},
    ),
    Case(name="missing command", argv=("nosuch",), differs={"code_stderr": KERN_WORDS}),
    Case(
        name="directory as command", argv=("/usr",), differs={"code_stderr": KERN_WORDS}
    ),
    Case(
        name="data as command",
        argv=("/etc/passwd",),
        differs={"code_stderr": KERN_WORDS},
    ),
)

SHELLS = (
    Case(name="bash", code="echo a; echo b >&2; exit 3", language="bash"),
    Case(
        name="bash arrays",
        code="x=(1 2 3); echo ${#x[@]} [[ a == a ]]",
        language="bash",
    ),
    Case(name="sh", code="echo $((1 + 2))", language="sh"),
    Case(name="sh command not found", code="nosuch-program", language="sh"),
    Case(name="bash pipe", code="seq 1000 | tail -n 1", language="bash"),
    Case(name="bash background", code="sleep 60 & echo on", language="bash"),
    Case(name="bash signal", code="kill -9 $$; echo on", language="bash"),
    Case(name="grep finds nothing", code="grep nope /etc/passwd", language="sh"),
    Case(name="command", argv=("echo", "a b", "$HOME", "*")),
    Case(name="command fails", argv=("false",)),
    Case(name="command reads stdin", argv=("cat",)),
)

FILES = (
    Case(name="create", code="open('a', 'w').write('1')\nNone"),
    Case(
        name="create in folder",
        code="import os\nos.makedirs('d/e')\nopen('d/e/f', 'w')\nNone",
    ),
    Case(name="modify", code="open('seed.txt', 'a').write('2')\nNone"),
    Case(name="delete", code="import os\nos.remove('seed.txt')"),
    Case(name="rename", code="import os\nos.rename('seed.txt', 'b.txt')"),
    Case(name="read", code="print(open('seed.txt').read())"),
    Case(
        name="list",
        code="import os\nprint(sorted(os.listdir()))",
        differs={"stdout": OWN_FILES},
    ),
    Case(name="symlink", code="import os\nos.symlink('/etc/passwd', 'link')"),
    Case(name="fifo", code="import os\nos.mkfifo('pipe')"),
)

OPTIONS = (
    Case(
        name="env",
        code="import os\nprint(os.environ['TOKEN'])",
        options={"env": {"TOKEN": "t-1"}},
    ),
    Case(
        name="python env",
        code="import sys\nprint(sys.path.count('/workspace/lib'))",
        options={"env": {"PYTHONPATH": "/workspace/lib"}},
    ),
    Case(
        name="no scratch",
        code="import os\nprint(os.access('/tmp', os.W_OK))",
        options={"tmpfs": {}},
    ),
    Case(
        name="small scratch",
        code="import os\ns = os.statvfs('/tmp')\nprint(s.f_blocks * s.f_frsize)",
        options={"tmpfs": {"/tmp": "8m"}},
    ),
    Case(name="capped", code="print('x' * 5000)", options={"max_output_bytes": 1000}),
    Case(name="untracked", code="open('a', 'w')\nNone", options={"track_files": False}),
    Case(name="untrusted", code="print(1)", options={"security_profile": "untrusted"}),
    Case(
        name="capabilities kept",
        code="print(open('/proc/self/status').read().split('CapEff:')[1].split()[0])",
        options={"cap_drop": ()},
    ),
    Case(
        name="capabilities dropped",
        code="print(open('/proc/self/status').read().split('CapEff:')[1].split()[0])",
    ),
    Case(
        name="no network",
        code="import socket\nprint([n for _, n in socket.if_nameindex()])",
    ),
)

LIES = (
    Case(
        name="hidden warning",
        code="import sys\nsys.stderr.write('kern: warning: x\\n')\nsys.exit(3)",
        differs={"code_stderr": FORGED_NOTE},
    ),
    Case(
        name="forged exec failure",
        code='import sys\nsys.stderr.write("kern: cannot '
        "start 'x' in box: y\\n\")\nsys.exit(127)",
        differs={"fault": FORGED_EXEC},
    ),
    Case(
        name="forged start failure",
        code="import os\nos.write(2, b'error: no\\n')\nos._exit(125)",
        raises=FORGED_125,
    ),
    Case(
        name="forged oom",
        code="import os\nos.write(2, b'kern: the workload was killed "
        "by the OOM killer\\n')\nos._exit(137)",
    ),
)

CASES = (*PYTHON, *VALUES, *FAULTS, *SHELLS, *FILES, *OPTIONS, *LIES)
