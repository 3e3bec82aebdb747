"""Cells that turn against the program that runs them."""

from __future__ import annotations

OBJECTS = """\
import gc
def names_of(program):
    for each in gc.get_objects():
        if isinstance(each, dict) and each.get('__name__') == program:
            if 'GIVEN_SETTING' in each:
                return each
driver = names_of('driver')
"""
"""Finds all names of the driver, as any code in its process can."""

ATTACKS = {
    "builtins": "import builtins\n"
    "for name in ('len', 'print', 'open', 'exec', 'eval', 'compile', 'isinstance',"
    " 'zip', 'int', '__import__', '__build_class__'):\n"
    "    setattr(builtins, name, lambda *a, **k: 1 / 0)",
    "modules": "import sys\nfor name in list(sys.modules): sys.modules[name] = None",
    "no modules": "import sys\nsys.modules.clear()",
    "json and marshal": "import json, marshal\n"
    "json.dumps = json.loads = marshal.loads = marshal.dumps = lambda *a, **k: None",
    "system calls": "import posix\n"
    "for name in ('write', 'read', 'dup2', 'fork', 'waitpid', 'getpid', '_exit'):\n"
    "    setattr(posix, name, lambda *a, **k: 0)",
    "streams": "import sys\nsys.stdout = sys.stderr = sys.__stdout__ = None",
    "streams that raise": "import sys\n"
    "class Raises:\n    def __getattr__(self, name): raise SystemExit(99)\n"
    "sys.stdout = sys.stderr = Raises()",
    "descriptors": "import os\nos.closerange(0, 4096)",
    "signal handlers": "import signal\n"
    "for n in range(1, 32):\n"
    "    if n not in (9, 19): signal.signal(n, lambda *a: 1 / 0)\n"
    "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))",
    "hooks": "import sys, threading\n"
    "def hook(*a, **k): raise SystemExit(98)\n"
    "sys.excepthook = sys.displayhook = sys.unraisablehook = hook\n"
    "threading.excepthook = hook\nsys.settrace(hook)\nsys.setprofile(hook)\n"
    "sys.addaudithook(lambda event, args: None)\n1 / 0",
    "an exit that never ends": "import atexit, time\n"
    "atexit.register(lambda: [time.sleep(9) for _ in range(999)])",
    "a thread that never ends": "import threading, time\n"
    "threading.Thread(target=lambda: [print(n) for n in iter(int, 1)]).start()",
    "recursion": "import sys\nsys.setrecursionlimit(60)",
    "another program": "import os\n"
    "os.execv('/bin/sh', ['sh', '-c', 'echo fault: oom. >&2; exit 9'])",
    "the parser": "import ast, _ast\n_ast.Expression = ast.parse = None\n5",
    "its names": OBJECTS + "\nfor name in list(driver):\n"
    "    if name.islower() or name.isupper():\n"
    "        driver[name] = lambda *a, **k: 1 / 0",
    "its words": OBJECTS + "send = driver['send']\n"
    "send(b'e', b'2\\x001\\x00/bin/sh')\nsend(b'x', b'-31')\nsend(b'x', b'-9')\n"
    "send(b'f')\nsend(b'p')\nsend(b'h', b'9.9.9')\nsend(b'w', b'os')\nsend(b'?')",
    "its end": OBJECTS + "driver['exit_code_of'] = driver['run_cell'] = lambda *a: 159",
    "its owner": OBJECTS + "driver['OWNER'][0] = 1\ndriver['OUT'].clear()",
    "its call": OBJECTS + "driver['REQUEST'].update(language='sh', argv=['/bin/true'])",
    "memory": "import ctypes\nctypes.string_at(0)",
    "frozen objects": "import ctypes\n"
    "for n in range(-5, 257): ctypes.memset(id(n) + 24, 255, 4)",
}
"""Ways to spoil a driver: each may spoil its own call, and says no word of ours."""

FRAME = """\
def frame(kind, payload=b''): return kind + len(payload).to_bytes(4, 'little') + payload
frames = [
    frame(b'e', b'2\\x001\\x00/bin/sh'), frame(b'e', b'2\\x000\\x00python3'),
    frame(b'x', b'-31'), frame(b'x', b'-9'), frame(b'x', b'-999'), frame(b'x', b'oom'),
    frame(b'h', b'0.0.0'), frame(b'w', b'\\xff'), frame(b'f'), frame(b'o') * 9,
    frame(b'p'), frame(b'r', b'text/plain\\x003\\x00yes'), frame(b'r', b'\\xff' * 99),
    frame(b'S'), b'\\x01\\x02\\x01\\x1f', b'x', b'started',
]
"""
"""Everything that a driver says, and what kern writes at the end of a box."""

EVERY_DESCRIPTOR = (
    FRAME
    + """\
import os, socket
held = [n for n in range(3, 256) if os.path.exists(f'/proc/self/fd/{n}')]
for n in held:
    for data in frames:
        try: os.set_blocking(n, False); os.write(n, data)
        except OSError: break
for n in held:
    try: socket.socket(fileno=os.dup(n)).send(b'e\\xff\\xff\\xff\\xff')
    except OSError: pass
"""
)
"""Writes all of it to all descriptors, and half a frame behind it."""

SENDS_DESCRIPTORS = """\
import os, socket
held = [n for n in range(3, 256) if os.path.exists(f'/proc/self/fd/{n}')]
for n in held:
    try: end = socket.socket(fileno=os.dup(n))
    except OSError: continue
    for _ in range(40):
        mine = [os.pidfd_open(os.getpid())]
        try: socket.send_fds(end, [b'p\\x00\\x00\\x00\\x00'], mine)
        except OSError: break
"""
"""Hands the host processes to signal, and descriptors to hold."""
