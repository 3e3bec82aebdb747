"""Claims on what code can reach, and on what ends it."""

from __future__ import annotations

from kern_tools import FaultType
from kern_tools.facts import SandboxFacts

from .claim import Claim, Live, Said, claim
from .place import END, numbers, speaks_python

SHORT_S = 1.5
"""A limit of more seconds is not waited for."""
FETCH = """\
import urllib.error, urllib.request
def fetch(url):
    try: return urllib.request.urlopen(url, timeout=20).read().decode()
    except urllib.error.HTTPError as error: return error.code
    except urllib.error.URLError as error: return type(error.reason).__name__
"""
RAW = """\
import socket
for address in ('192.0.2.1', 80), ('127.0.0.1', {port}):
    try: socket.create_connection(address, 5); print('connected')
    except OSError as error: print(error.strerror)
try: socket.getaddrinfo('example.org', 80); print('found')
except OSError: print('not found')
"""


def port(live: Live) -> str:
    """Give the port of the server on this machine's loopback."""
    return live.server.partition(":")[2]


def unreachable(live: Live) -> None:
    """Show that no address can be reached, and no name be found."""
    tried = live.says(RAW.format(port=port(live)), "python").split("\n")
    assert tried == ["Network is unreachable", "Connection refused", "not found"]


def no_network(live: Live, said: Said) -> None:
    """Nothing answers, so that an installer fails."""
    unreachable(live)
    if live.facts.timeout_s >= 10:
        pip = "pip install --retries 0 --quiet anything; echo $?"
        assert live.says(pip, "sh") != "0"


def network(live: Live, said: Said) -> None:
    """What this machine can reach, code can."""
    code = f"{FETCH}print(fetch('http://{live.server}/'))"
    assert live.says(code, "python") == "served"


def domains(live: Live, said: Said) -> None:
    """Only those named are tried by the proxy, and nothing goes around it."""
    allowed = live.facts.network
    assert isinstance(allowed, tuple)
    if "count" in said.re.groupindex and said["count"]:
        assert numbers(said["count"]) == len(allowed)
    elif "names" in said.re.groupindex:
        assert tuple(said["names"].split(", ")) == allowed
    code = "{}print(fetch('http://{}/'))"
    assert live.says(code.format(FETCH, "other.example"), "python") == "403"
    assert live.says(code.format(FETCH, allowed[0]), "python") not in ("403", "served")
    assert "connected" not in live.says(RAW.format(port=port(live)), "python")


def short(facts: SandboxFacts) -> bool:
    """The limit can be waited for."""
    return facts.timeout_s <= SHORT_S


def stopped(live: Live, said: Said) -> None:
    """A call ends at that limit; another can ask for as much as is said."""
    limit_s = live.facts.timeout_s
    assert said["limit"] == f"{limit_s:g} s"
    tool = "run_code" if "run_code" in live.facts.tools else "run_command"
    sleeper = {"run_code": {"code": "import time; time.sleep(30)"}}
    arguments = sleeper.get(tool, {"command": "sleep 30"})
    assert live.sandbox.wait_ready(60)
    reply = live.call(tool, **arguments)
    assert reply.fault_type == FaultType.TIMEOUT
    assert f"Stopped at the {limit_s:g} s limit." in reply.text
    if said["most"] is not None:
        most_s = live.facts.timeout_max_s
        assert live.sandbox.wait_ready(60)
        longer = live.call(tool, **arguments, timeout_s=most_s + 7)
        assert f"note: ran with timeout_s {most_s:g}, the most" in longer.text
        assert f"Stopped at the {most_s:g} s limit." in longer.text


def _asks(facts: SandboxFacts) -> bool:
    return any(cap is not None for cap in (facts.memory_mb, facts.pids, facts.cpus))


def unlimited(live: Live, said: Said) -> None:
    """Code can take more memory than was asked for, and nothing ends it."""
    assert live.facts.memory_mb is not None
    more = (live.facts.memory_mb + 40) << 20
    result = live.run(f"x = bytearray(b'x') * {more}", "python")
    assert (result.fault, result.exit_code) == (None, 0)
    assert result.limits_enforced is not True


def limited(live: Live, said: Said) -> None:
    """More memory is the fault `oom`, and more processes an error."""
    facts = live.facts
    hog = f"x = bytearray(b'x') * {((facts.memory_mb or 0) + 200) << 20}"
    assert said["memory"] == f"{facts.memory_mb} MiB"
    assert live.run(hog, "python").fault_type == FaultType.OOM
    assert numbers(said["pids"]) == facts.pids
    assert "EAGAIN" in live.says(FORKS.format(count=facts.pids), "python")


FORKS = """\
import errno, os, time
children = []
try:
    while len(children) < {count}:
        child = os.fork()
        if child == 0: time.sleep(30)
        children.append(child)
except OSError as error: print(errno.errorcode[error.errno])
for child in children: os.kill(child, 9); os.waitpid(child, 0)
"""

_CAPS = (
    r"(?:(?P<memory>[\d.,]+ \w+) of memory)?(?:(?:, |(?<=most ))(?P<pids>[\d,]+)"
    r" process(?:es)?)?(?:(?:, |(?<=most ))(?P<cpus>[\d.,]+) CPUs?)?"
)

REACH = (
    claim(
        "No network: nothing can be downloaded or installed" + END,
        "reach",
        when=lambda f: f.network == "off",
        probe=no_network,
        where=speaks_python,
    ),
    claim(
        "The network can be reached" + END,
        "reach",
        when=lambda f: f.network == "on",
        probe=network,
    ),
    claim(
        r"No network but for (?:(?P<count>[\d,]+) domains?|(?P<names>[\w.-]+"
        r"(?:, [\w.-]+)*)), over HTTP and HTTPS" + END,
        "reach",
        when=lambda f: not isinstance(f.network, str),
        probe=domains,
    ),
)

LIMITS = (
    claim(
        r"A call is stopped after (?P<limit>[\d.,]+ s)(?:; `timeout_s` can ask for"
        r" up to"
        r" (?P<most>[\d.,]+ s))?" + END,
        "time",
        probe=stopped,
        where=short,
    ),
    claim(
        f"At most {_CAPS}{END}",
        "caps",
        when=lambda f: _asks(f) and f.limits_enforced is True,
        probe=limited,
        where=lambda f: bool(f.limits_enforced and f.memory_mb and f.pids),
        shown_by="caps",
    ),
    claim(
        f"At most {_CAPS}, where this machine enforces it{END}",
        "caps",
        when=lambda f: _asks(f) and f.limits_enforced is None,
        probe=lambda live, said: (limited if live.facts.limits_enforced else unlimited)(
            live, said
        ),
        where=lambda f: f.memory_mb is not None and f.memory_mb < 100,
    ),
    claim(
        "This machine enforces no limit on memory and processes: keep both modest"
        + END,
        "caps",
        when=lambda f: _asks(f) and f.limits_enforced is False,
        probe=unlimited,
        where=lambda f: f.memory_mb is not None and f.memory_mb < 100,
    ),
)


BOUNDS: tuple[Claim, ...] = REACH + LIMITS
