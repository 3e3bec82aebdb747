"""The program that runs in the box: takes calls, runs them, sends frames.

It is sent to the box as code and never imported there, so it stands alone: standard
library only, any Python >= 3.9, and lean at the start, because a box pays for every
import (`traceback` alone costs more than the rest). Two more programs go with it:
`driver_values` shows rich values and is run when there is one, `driver_modes` keeps the
box for further calls. A frame to the host is one byte of kind, four of length
(little-endian), and the payload:

    h   hello, with the version of this Python; before any code is accepted
    w   the wanted modules are imported, but for those named: they print or fail
    p   the process of a call that runs in a child, with a pidfd on it
    r   one rich value: MIME, NUL, length in decimal, NUL, content, and again
    o   a rich value was left out: it went over the bounds
    e   the command could not be executed: errno, NUL, whether it exists, NUL, path
    f   the streams are flushed; the answer to SIGURG
    x   done: the exit code in decimal, or the signal as a negative number
    z   the same, where what follows will let go of memory alone

The host sends, for each call, one byte, four of length and the request, a marshalled
dict, with descriptors: stdout, stderr, for a call in a child a pipe for its frames, and
last, where the length is 0, a file that holds the request.
Names that begin with `GIVEN` are put here by whoever starts the program.
"""

from __future__ import annotations

# pyright: reportPrivateUsage=false

import _socket
import _thread
import marshal
import posix
import sys


TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from types import FrameType, TracebackType
    from typing import Any
else:
    import _signal

CO_COROUTINE = 0x80
ALLOW_TOP_LEVEL_AWAIT = 0x2000
ONLY_AST = 0x400


# Talking to the host


def connect() -> _socket.socket:
    """Move the control socket off descriptor 0, which becomes empty."""
    control = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, posix.dup(0))
    null = posix.open("/dev/null", posix.O_RDWR)
    posix.dup2(null, 0)
    posix.dup2(null, 1)
    posix.close(null)
    return control


def send(kind: bytes, payload: bytes = b"") -> None:
    """Tell the host, unless this is a fork, or a thread between two calls."""
    if posix.getpid() != OWNER[0]:
        return
    if _thread.get_ident() != MAIN:  # which alone is interrupted
        tell(kind, payload)
        return
    busy, BUSY[0] = BUSY[0], False  # an interrupt would leave half a frame
    tell(kind, payload)
    BUSY[0] = busy


def tell(kind: bytes, payload: bytes) -> None:
    frame = kind + len(payload).to_bytes(4, "little") + payload
    with SENDING[0]:  # a frame within another would break both
        if not SERVING[0]:
            return
        HELD.append(frame)
        if not HOLDING[0]:  # each sending wakes the host
            held = b"".join(HELD)
            HELD.clear()
            OUT[0].sendall(held)


def take_call() -> list[int]:
    """Wait for a call: keep its request, give the descriptors of its streams."""
    said, ancillary, _, _ = CONTROL.recvmsg(1 << 15, _socket.CMSG_SPACE(16))
    if not said:
        posix._exit(0)
    handles: list[int] = memoryview(ancillary[0][2]).cast("i").tolist()
    size = int.from_bytes(said[1:5], "little")
    while len(said) < 5 + size:
        said += CONTROL.recv(5 + size - len(said))
    call = memoryview(said)[5:] if size else read_file(handles.pop())
    REQUEST.update(marshal.loads(call))
    return handles


def read_file(handle: int) -> bytes:
    posix.lseek(handle, 0, 0)
    content = posix.read(handle, posix.fstat(handle).st_size)
    posix.close(handle)
    return content


def take_streams(handles: list[int]) -> None:
    for target, pipe in zip((1, 2), handles):
        posix.dup2(pipe, target)
        posix.close(pipe)


def flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # the code closed or replaced it: there is nothing to save
            pass


def on_deadline(signum: int, frame: FrameType | None) -> None:
    flush()
    send(b"f")


# Making the process look like a script's


def reset_signals() -> None:
    """Undo what the host's own mask and ignored signals have handed down."""
    _signal.pthread_sigmask(_signal.SIG_SETMASK, [])
    for number in range(1, 32):
        ignored = _signal.getsignal(number) == _signal.SIG_IGN
        if ignored and number not in (_signal.SIGPIPE, _signal.SIGXFSZ):
            _signal.signal(number, _signal.SIG_DFL)
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)


def own(name: str) -> Any:
    """Import a module of Python's own, whatever the code put on the path."""
    if name not in sys.modules:
        path = sys.path[:]
        sys.path[:] = OWN_PATH
        try:
            __import__(name)
        finally:
            sys.path[:] = path
    return sys.modules[name]


def set_environment(changes: dict[str, str]) -> None:
    for name, value in changes.items():
        posix.environ[name.encode()] = value.encode("utf-8", "surrogateescape")
        posix.putenv(name, value)
    if "os" in sys.modules:
        sys.modules["os"].environ.update(changes)


class Quitter:
    """`exit` and `quit`, which Python's `site` would have brought."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Use {self.name}() to exit"

    def __call__(self, code: object = None) -> None:
        raise SystemExit(code)


class Helper:
    """`help`, likewise; `pydoc` is only imported when asked for."""

    def __repr__(self) -> str:
        return "Type help(object) for help about object."

    def __call__(self, *args: object) -> object:
        return own("pydoc").help(*args)


def add_site_packages(lean: bool) -> None:
    """Do what `site` does, or the little of it that our own image needs."""
    version = sys.version_info
    home = f"{sys.prefix}/lib/python{version[0]}.{version[1]}/site-packages"
    if lean and not any(name.endswith(".pth") for name in names_in(home)):
        sys.path.append(home)
        BUILTINS.help = Helper()
    else:
        own("site").main()
    # Also in place of site's own, which close stdin for every later call.
    BUILTINS.exit, BUILTINS.quit = Quitter("exit"), Quitter("quit")
    OWN_PATH[:] = sys.path


def names_in(folder: str) -> list[str]:
    try:
        return posix.listdir(folder)
    except OSError:
        return []


def quiet_show() -> None:
    """Let `plt.show()` pass without its warning: figures are captured anyway."""
    import _warnings

    said = "FigureCanvasAgg is non-interactive, and thus cannot be shown"
    filters: list[Any] = _warnings.filters
    filters.insert(0, ("ignore", said, UserWarning, None, 0))


def new_main() -> dict[str, Any]:
    """Give the cell a `__main__` of its own, with its folder first on the path."""
    main = type(sys)("__main__")
    main.__dict__["__builtins__"] = BUILTINS
    sys.modules["__main__"] = main
    sys.argv[:] = [""]
    given = SETTING["env"].get("PYTHONPATH", "").split(":")
    path = [SETTING["folder"], *given, *SETTING["path"], *sys.path]
    sys.path[:] = [p for n, p in enumerate(path) if p and p not in path[:n]]
    return main.__dict__


# Python cells


def values() -> dict[str, Any]:
    """Give the namespace of the program that shows rich values, run at first use."""
    if not SHOWING:
        given = {"send": send, "own": own, "report": report}
        SHOWING.update(given, __name__="driver_values")
        exec(globals()["GIVEN_VALUES"], SHOWING)
    return SHOWING


def display(*shown: object, raw: bool = False, **ignored: object) -> None:
    """Show values as a notebook does; `raw=True` takes ready MIME bundles."""
    for value in shown:
        values()["show"](value, raw)


def show_open_figures() -> None:
    if "matplotlib.pyplot" in sys.modules:
        values()["show_open_figures"]()


def name_cell(source: str) -> str:
    """Name a cell for its tracebacks; a kernel's are told apart by number."""
    name = f"<cell {len(SOURCES) + 1}>" if SETTING["mode"] == "kernel" else "<cell>"
    SOURCES[name] = source
    return name


def parse(source: str, name: str) -> tuple[Any, Any]:
    """Split a cell into its statements and the value it ends in; each may be None."""
    # What has a backslash might be warned of twice.
    if not source[:1].isspace() and not any(mark in source for mark in "\n;\\"):
        try:  # the tree of a cell costs more than its code
            return None, compiled(source, name, "eval")
        except SyntaxError:  # statements, or what their parser has better words for
            pass
    flags = ONLY_AST | ALLOW_TOP_LEVEL_AWAIT
    tree: Any = compile(source, name, "exec", flags, dont_inherit=True)
    if not tree.body or type(tree.body[-1]).__name__ != "Expr":
        return compiled(tree, name, "exec"), None
    if ends_in_semicolon(source, tree.body[-1]):
        return compiled(tree, name, "exec"), None
    from _ast import Expression

    value = Expression(tree.body.pop().value)
    before = compiled(tree, name, "exec") if tree.body else None
    return before, compiled(value, name, "eval")


def compiled(source: Any, name: str, mode: str) -> Any:
    return compile(source, name, mode, ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def ends_in_semicolon(source: str, node: Any) -> bool:
    text = source.replace("\r\n", "\n").replace("\r", "\n")  # as the parser does
    lines = text.encode("utf-8", "surrogatepass").split(b"\n")
    line, column = int(node.end_lineno), int(node.end_col_offset)
    return lines[line - 1][column:].lstrip()[:1] == b";"


def evaluate(code: Any, scope: dict[str, Any]) -> object:
    BUSY[0] = True
    try:
        made = eval(code, scope)
        if code.co_flags & CO_COROUTINE:
            return event_loop().run_until_complete(made)
        return made
    finally:
        BUSY[0] = False


def event_loop() -> Any:
    if not LOOP:
        asyncio = own("asyncio")
        LOOP.append(asyncio.new_event_loop())
        asyncio.set_event_loop(LOOP[0])
    return LOOP[0]


def run_cell(scope: dict[str, Any]) -> int:
    """Run one cell; give the exit code that a script with this text would have."""
    source: str = REQUEST["code"]
    if source[:1] == "\ufeff":  # what editors put first says only how it is encoded
        source = source[1:]
    name = name_cell(source)
    try:
        before, value = parse(source, name)
        if before is not None:
            evaluate(before, scope)
        if value is not None:
            made = evaluate(value, scope)
            if made is not None:
                HOLDING[0] = SETTING["mode"] == "kernel"
                busily(lambda: display(made))
    except SystemExit as error:
        return exit_code_of(error)
    except KeyboardInterrupt:
        report()
        return 130
    except BaseException:
        report()
        return 1
    finally:
        HOLDING[0] = False
    return 0


def exit_code_of(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        fits = -(1 << 63) <= error.code < 1 << 63
        return error.code & 0xFF if fits else 255
    guarded(lambda: print(error.code, file=sys.stderr))
    return 1


def report() -> None:
    """Print the running exception without the driver's own frames."""
    kind, error, _ = sys.exc_info()
    assert kind is not None
    assert error is not None
    chained: BaseException | None = error
    for _ in range(100):
        if chained is None:
            break
        chained.__traceback__ = without_ours(chained.__traceback__)
        chained = chained.__cause__ or chained.__context__
    trace = error.__traceback__
    if sys.excepthook is not sys.__excepthook__:
        sys.excepthook(kind, error, trace)
        return
    try:
        cache = own("linecache").cache
        for name, source in SOURCES.items():
            lines = f"{source}\n".splitlines(True)  # linecache ends every line
            cache[name] = (len(source), None, lines, name)
        own("traceback").print_exception(kind, error, trace)
    except BaseException:  # the code replaced one of them, or broke sys.stderr
        sys.__excepthook__(kind, error, trace)


def without_ours(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and is_ours(trace):
        trace = trace.tb_next
    last = trace
    while last is not None and last.tb_next is not None:
        end = last.tb_next
        if is_ours(end) and end.tb_frame.f_code.co_name == "on_interrupt":
            last.tb_next = None
        last = last.tb_next
    return trace


def is_ours(trace: TracebackType) -> bool:
    return trace.tb_frame.f_globals.get("__name__") in OWN_NAMES


def busily(step: Any) -> None:
    """Run what may take long for the code's own sake, open to interrupts."""
    BUSY[0] = True
    try:
        step()
    finally:
        BUSY[0] = False


def guarded(step: Any) -> int:
    """Run one closing step; its exception is the code's own, printed as such."""
    try:
        busily(step)
    except BaseException:
        report()
        return 1
    return 0


def close_threads() -> None:
    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()


def run_exit_functions() -> None:
    own("atexit")._run_exitfuncs()


def prepare() -> None:
    """Make the surroundings of a script, once for every call of this process."""
    set_environment(SETTING["env"])
    sys.dont_write_bytecode = bool(SETTING["env"]["PYTHONDONTWRITEBYTECODE"])
    add_site_packages(SETTING["lean"])
    quiet_show()
    BUILTINS.display = display
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def preload() -> None:
    """Do what many calls will want, as long as no call is waiting.

    A box that stays does so from its third call on: who makes three makes more.
    """
    while PRELOAD:
        try:
            CONTROL.recv(1, _socket.MSG_PEEK | _socket.MSG_DONTWAIT)
            return
        except BlockingIOError:
            name = PRELOAD[0]
        if name == "_ast":
            load_trees()
        else:
            own(PRELOAD.pop(0))


def await_proxy(port: int) -> None:
    """Wait until kern's filter of the network listens, which code may need at once.

    kern starts a box before that, and ends it if that fails.
    """
    for _ in range(2000):
        if listens(port):
            return
        own("time").sleep(0.001)


def listens(port: int) -> bool:
    """Tell whether somebody takes connections there; true where that is not told."""
    try:
        handle = posix.open("/proc/net/tcp", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return True
    rows = posix.read(handle, 1 << 16).split(b"\n")
    posix.close(handle)
    return any(b":%04X 00000000:0000 0A" % port in row for row in rows)


def load_trees() -> None:
    """Make the types of syntax trees, once, as every cell needs them."""
    if "_ast" in PRELOAD:
        PRELOAD.remove("_ast")
        compile("0", "", "exec", ONLY_AST)
        own("_ast")


def import_wanted() -> None:
    """Import what a call will want; tell which of it a call would notice.

    The workspace is not searched: a module there is the code's own, and may change.
    """
    said = posix.memfd_create("said")
    for target in (1, 2):
        posix.dup2(said, target)
    heard = [name for name in SETTING["wanted"] if not imports_quietly(name, said)]
    for target in (1, 2):
        posix.dup2(0, target)
    posix.close(said)
    send(b"w", " ".join(heard).encode())


def imports_quietly(name: str, said: int) -> bool:
    """Import a module; tell whether it neither printed anything nor failed."""
    path = sys.path[:]
    sys.path[:] = [*SETTING["path"], *OWN_PATH]
    try:
        __import__(name)
    except ModuleNotFoundError as error:
        return error.name == name  # it may be one of the workspace's
    except BaseException:
        return False
    finally:
        sys.path[:] = path
        flush()
    return posix.fstat(said).st_size == 0


def run_script() -> int:
    """Run a cell as a script of its own, to its very end."""
    code = run_cell(new_main())
    code = code or guarded(show_open_figures)
    for step in (close_threads, run_exit_functions):
        guarded(step)
    flush()
    end_fork(code)
    return code


def end_fork(code: int) -> None:
    """End here what the code forked off and let run on to the cell's end."""
    if posix.getpid() != OWNER[0]:
        posix._exit(code)


# Other languages and commands


def become() -> None:
    """Become the command, so that the verdict on this process speaks of it."""
    for signum in (_signal.SIGPIPE, _signal.SIGXFSZ, _signal.SIGURG, _signal.SIGINT):
        _signal.signal(signum, _signal.SIG_DFL)
    argv = REQUEST["argv"]
    if REQUEST["code"] is not None:
        argv = [*argv, script_path(REQUEST["code"])]
    number, exists, path = 2, False, argv[0]
    for candidate in candidates(argv[0]):
        try:
            posix.execve(candidate, argv, posix.environ)
        except OSError as error:
            if present(candidate) and not exists:
                number, exists, path = error.errno or 0, True, candidate
    shown = path.encode("utf-8", "replace")
    send(b"e", b"%d\0%d\0%s" % (number, exists, shown))
    posix._exit(126 if exists else 127)


def candidates(command: str) -> list[str]:
    if "/" in command:
        return [command]
    path = posix.environ.get(b"PATH", b"/usr/local/bin:/usr/bin:/bin").decode()
    return [f"{folder or '.'}/{command}" for folder in path.split(":")]


def present(path: str) -> bool:
    try:
        posix.stat(path)
    except OSError:
        return False
    return True


def script_path(code: str) -> str:
    """Put a long script where no argument limit applies; it vanishes with the box."""
    handle = posix.memfd_create("script", 0)
    data = code.encode("utf-8", "surrogatepass")
    while data:
        data = data[posix.write(handle, data) :]
    posix.lseek(handle, 0, 0)
    return f"/proc/self/fd/{handle}"


def is_cell() -> bool:
    return bool(REQUEST["language"] == "python")


def mapped() -> set[bytes]:
    """Give the devices of the files that are mapped into this process."""
    handle, text = posix.open("/proc/self/maps", posix.O_RDONLY | posix.O_CLOEXEC), b""
    while part := posix.read(handle, 1 << 16):
        text += part
    posix.close(handle)
    rows = (line.split(None, 5) for line in text.splitlines())
    return {row[3] for row in rows if row[4] != b"0"}


def identities() -> list[tuple[int, int]]:
    """Tell what the three standard descriptors are."""
    found = [posix.fstat(number) for number in (0, 1, 2)]
    return [(each.st_dev, each.st_ino) for each in found]


def leaves_nothing(devices: set[bytes], streams: list[tuple[int, int]]) -> bool:
    """Tell whether our end will let go of memory alone, and so need not be waited for.

    Else it closes files, with their locks, unmaps some, of whose change the host hears
    only then, or ends threads that are nobody's but a library's.

    Args:
        devices: Of what was mapped before the code came.
        streams: What the standard descriptors were.
    """
    ours = {"0", "1", "2", str(CONTROL.fileno())}
    try:
        if not mapped() <= devices or identities() != streams:
            return False
        open_now = set(posix.listdir("/proc/self/fd"))  # with the listing's own
        alone = len(posix.listdir("/proc/self/task")) == 1
        return alone and ours < open_now and len(open_now) == len(ours) + 1
    except OSError:
        return False


def serve_one() -> None:
    """Run one call in this very process, and end with it."""
    devices = mapped()
    take_streams(take_call())
    if not is_cell():
        become()
    streams = identities()
    code = run_script()
    try:
        send(b"z" if leaves_nothing(devices, streams) else b"x", b"%d" % code)
    finally:  # the code may have closed the socket: the process's own end says it too
        posix._exit(code)


BUILTINS: Any = sys.modules["builtins"]
SETTING: dict[str, Any] = globals()["GIVEN_SETTING"]
OWN_PATH = [p for p in sys.path if p]
OWN_NAMES = ("driver", "driver_values")
PRELOAD = list(SETTING["preload"])
SHOWING: dict[str, Any] = {}
REQUEST: dict[str, Any] = {}
SOURCES: dict[str, str] = {}
LOOP: list[Any] = []
BUSY = [False]  # the code runs, and may be interrupted
HELD: list[bytes] = []
HOLDING = [False]  # frames wait for the next one
SERVING = [True]  # there is a call
MAIN = _thread.get_ident()
SENDING: list[Any] = [_thread.RLock()]  # again by the handler of a signal
reset_signals()
posix.setpgid(0, 0)  # `kill(0, ...)` would reach kern, across every namespace
OWNER = [posix.getpid()]
CONTROL = connect()
OUT: list[Any] = [CONTROL]
_signal.signal(_signal.SIGURG, on_deadline)
if "proxy_port" in SETTING:
    await_proxy(SETTING["proxy_port"])
send(b"h", b"%d.%d.%d" % sys.version_info[:3])
prepare()
if SETTING["wanted"]:
    import_wanted()
if SETTING["mode"] == "fresh":
    preload()
    serve_one()
exec(globals()["GIVEN_MODES"], globals())
