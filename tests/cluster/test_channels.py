"""What calls go over: who may use it, and what becomes of those who hang up."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import errno
import os
import pickle
import resource
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from kern_tools import ConfigError, SandboxClosed, SandboxError
from kern_tools.cluster import ClusterError, ClusterPool, NodeLost
from kern_tools.cluster.channel import Channel, HungUp
from kern_tools.cluster.channels import Channels, Unanswered
from kern_tools.cluster.greeting import SECRET_BYTES, Greeting, Stranger
from kern_tools.cluster.serving import Serving
from kern_tools.cluster.told import Told
from kern_tools.contract_view import NAMED, named_processes
from tests.hosts import wait_until

from .nodes import Nodes
from .test_pool import pool_of

GOES_ON = f"{NAMED}print('on', flush=True)\nwhile True: pass"
HOST = "127.0.0.1"


def echo(asked: Any, channel: Channel) -> Told:
    """Answer with what was asked, told once before."""
    channel.send(asked)
    return Told(asked)


@pytest.fixture(scope="module")
def serving() -> Serving:
    """What an actor has, in this process."""
    return Serving(HOST, None, echo)


def channel_to(serving: Serving) -> Channel:
    """Open a channel as the pool's process does."""
    return Channels(serving.address, serving.secret).connect()


def accepting() -> set[int]:
    """Give the lines at which those who take connections are."""
    frames = sys._current_frames().values()
    return {f.f_lineno for f in frames if f.f_code.co_name == "_accept"}


def test_who_comes_while_no_descriptor_is_free_is_taken_later(serving: Serving) -> None:
    """The one who takes connections outlives that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    early, at_rest = socket.socket(), accepting()
    free = os.dup(early.fileno())
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        early.connect(serving.address)
        with pytest.raises(OSError) as none_free:  # noqa: PT011 - told by its number
            socket.socket()
        assert none_free.value.errno == errno.EMFILE
        wait_until(lambda: bool(accepting() - at_rest))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    greeting = Greeting(serving.secret, is_called=False)
    with closing(Channel(greeting.greet(early, HOST))) as channel:
        channel.send("late")
        assert channel.receive() == "late"


# messages


def big() -> bytes:
    """Give more than any buffer between the two ends holds."""
    return secrets.token_bytes(1 << 20) * 24


@pytest.mark.parametrize(
    "message", [None, "short", big()], ids=["none", "short", "big"]
)
async def test_messages_arrive_whole(serving: Serving, message: object) -> None:
    """Whatever their size, blocking and on an event loop, in order."""
    with closing(channel_to(serving)) as channel, ThreadPoolExecutor(1) as threads:
        for sending in range(2):
            sent = threads.submit(channel.send, (sending, message))
            assert channel.receive() == (sending, message)
            assert channel.receive().opened() == (sending, message)
            sent.result()
        sending_on = asyncio.ensure_future(channel.asend(message))
        assert await channel.areceive() == message
        assert (await channel.areceive()).opened() == message
        await sending_on


def test_what_cannot_be_sent_is_refused_and_the_channel_goes_on(
    serving: Serving,
) -> None:
    """Nothing of it is sent."""
    with closing(channel_to(serving)) as channel:
        with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
            channel.send(threading.Lock())
        channel.send("next")
        assert channel.receive() == "next"


def test_an_answer_that_cannot_be_sent_is_told() -> None:
    """Nobody waits for it for ever."""

    def answer(_asked: Any, _channel: Channel) -> Told:
        return Told(threading.Lock())

    serving = Serving(HOST, None, answer)
    with closing(channel_to(serving)) as channel:
        channel.send("anything")
        with pytest.raises(RuntimeError, match="cannot be sent"):
            channel.receive().opened()


def test_a_channel_that_was_cut_wakes_its_reader(serving: Serving) -> None:
    """As is done once Ray tells that the actor's node is gone."""
    channels = Channels(serving.address, serving.secret)
    channel = channels.connect()
    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(channel.receive)
        channels.cut()
        with pytest.raises(HungUp):
            reading.result(60)
    with pytest.raises(HungUp):
        channels.connect().receive()


def test_a_channel_at_rest_that_was_cut_is_not_used(serving: Serving) -> None:
    """Whatever stands between two hosts may forget a quiet connection."""
    channels = Channels(serving.address, serving.secret)
    cut, whole = channels.connect(), channels.connect()
    cut.hang_up()
    assert cut.wait_end(60)
    channels.put_back(whole)
    channels.put_back(cut)
    assert channels.at_rest() is whole
    assert channels.at_rest() is None


# who may


class Fuse:
    """What tells that it was unpickled."""

    def __reduce__(self) -> Any:
        return (os.mkdir, (str(self.path),))

    def __init__(self, path: Path) -> None:
        self.path = path


def test_a_stranger_is_not_listened_to(serving: Serving, tmp_path: Path) -> None:
    """Nothing that it sends is unpickled, and it is hung up."""
    burnt = tmp_path / "burnt"
    with pytest.raises(Unanswered):
        Channels(serving.address, new_secret()).connect()
    message = pickle.dumps(Fuse(burnt))
    with socket.create_connection(serving.address) as connection:
        connection.settimeout(60)
        connection.sendall(len(message).to_bytes(8, "big") + message + bytes(200))
        with suppress(ConnectionError):  # it may close without a reset
            while connection.recv(1 << 16):
                pass
    assert not burnt.exists()
    pickle.loads(message)
    assert burnt.exists()


def test_an_actor_that_is_a_stranger_is_given_nothing() -> None:
    """Somebody else may have the port of an actor that is gone."""
    here, there = socket.socketpair()
    with here, ThreadPoolExecutor(1) as threads:
        other = Greeting(new_secret(), is_called=True)
        greeting = threads.submit(other.greet, there, HOST)
        with pytest.raises(ConnectionError):
            Greeting(new_secret(), is_called=False).greet(here, HOST)
        assert isinstance(greeting.exception(60), Stranger)


def test_a_proof_cannot_be_sent_back() -> None:
    """Each end proves the secret in its own name: a mirror knows nothing."""
    here, there = socket.socketpair()
    with here, ThreadPoolExecutor(1) as threads:
        caller = Greeting(new_secret(), is_called=False)
        greeting = threads.submit(caller.greet, there, HOST)
        here.sendall(bytes(32))
        assert len(here.recv(32, socket.MSG_WAITALL)) == 32
        here.sendall(here.recv(32, socket.MSG_WAITALL))
        assert isinstance(greeting.exception(60), Stranger)


def new_secret() -> bytes:
    """Make one up."""
    return secrets.token_bytes(SECRET_BYTES)


# encrypted


@pytest.fixture
def encrypted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have Ray's certificates, as its own documentation makes them."""
    openssl = shutil.which("openssl")
    assert openssl is not None, "install openssl to run this test"
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt"),
            *("ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
            *("-keyout", str(key), "-out", str(certificate)),
            *("-subj", "/CN=ray", "-addext", f"subjectAltName=IP:{HOST}"),
        ],
        check=True,
        capture_output=True,
    )
    monkeypatch.setenv("RAY_USE_TLS", "1")
    monkeypatch.setenv("RAY_TLS_SERVER_CERT", str(certificate))
    monkeypatch.setenv("RAY_TLS_SERVER_KEY", str(key))
    monkeypatch.setenv("RAY_TLS_CA_CERT", str(certificate))
    return certificate


@pytest.mark.parametrize("message", ["short", big()], ids=["short", "big"])
async def test_channels_are_encrypted_where_ray_is(
    encrypted: Path, message: object
) -> None:
    """With Ray's certificates; they work as the others do."""
    serving = Serving(HOST, None, echo)
    channels = Channels(serving.address, serving.secret)
    with closing(channels.connect()) as channel, ThreadPoolExecutor(1) as threads:
        assert channel.is_idle
        sent = threads.submit(channel.send, message)
        assert channel.receive() == message
        assert channel.receive().opened() == message
        sent.result()
        await channel.asend("on a loop")
        assert await channel.areceive() == "on a loop"
        assert (await channel.areceive()).opened() == "on a loop"
        channel.hang_up()
        assert channel.wait_end(60)


def test_an_encrypted_channel_is_sent_to_while_it_is_read(encrypted: Path) -> None:
    """OpenSSL lets one thread at a time use a connection."""
    serving = Serving(HOST, None, echo)
    channels = Channels(serving.address, serving.secret)
    for _ in range(300):  # one in twenty broke
        with closing(channels.connect()) as channel, ThreadPoolExecutor(1) as threads:
            sent = threads.submit(channel.send, "short")
            assert channel.receive() == "short"
            assert channel.receive().opened() == "short"
            sent.result()


def test_plain_text_is_refused_where_ray_is_encrypted(
    encrypted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody falls back to it."""
    serving = Serving(HOST, None, echo)
    monkeypatch.delenv("RAY_USE_TLS")
    with pytest.raises(Unanswered):
        Channels(serving.address, serving.secret).connect()


def test_another_hosts_certificate_is_refused(encrypted: Path) -> None:
    """It is checked as Ray checks it."""
    here, there = socket.socketpair()
    secret = new_secret()
    with here, there, ThreadPoolExecutor(1) as threads:
        host = Greeting(secret, is_called=True)
        greeting = threads.submit(host.greet, there, HOST)
        with pytest.raises(ssl.SSLCertVerificationError):
            Greeting(secret, is_called=False).greet(here, "10.9.8.7")
        assert isinstance(greeting.exception(60), OSError)


# ports


def test_a_sandbox_takes_calls_where_it_is_told_to() -> None:
    """And says so where it cannot."""
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ClusterError) as refused:
            Serving(HOST, (port, port), echo)
        assert refused.value.code == "no_port"
        assert str(port) in str(refused.value)
        serving = Serving(HOST, (port, port + 20), echo)
        assert port < serving.address[1] <= port + 20
    with pytest.raises(ClusterError) as refused:
        Serving("192.0.2.1", None, echo)
    assert refused.value.code == "no_port"


def test_a_port_that_is_taken_is_told_by_the_pool(nodes: Nodes) -> None:
    """The error of the node reaches whoever asks for the sandbox, fault and all."""
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pool_of(nodes, call_ports=(port, port)) as pool,
            pytest.raises(ClusterError) as refused,
        ):
            pool.get("t1")
    assert refused.value.code == "no_port"
    assert refused.value.fault is not None


@pytest.mark.parametrize("ports", [(0, 5), (9, 8), (1,), 80, ("1", "2"), (1, 70_000)])
def test_ports_that_are_none_are_refused(nodes: Nodes, ports: object) -> None:
    """Before anything is connected to."""
    with pytest.raises(ConfigError) as refused:
        pool_of(nodes, call_ports=ports)
    assert refused.value.option == "call_ports"


# callers that hang up


@pytest.fixture(scope="module")
def pool(nodes: Nodes) -> Iterator[ClusterPool]:
    """One for the tests that need nothing of their own."""
    with pool_of(nodes) as pool:
        yield pool


def test_a_stream_that_is_dropped_ends_its_box(pool: ClusterPool) -> None:
    """Nobody has to close it."""
    stream = pool.get("t1").stream_code(GOES_ON)
    next(stream)
    assert named_processes()
    del stream
    wait_until(lambda: named_processes() == [])
    assert pool.get("t1").run_code("print(2)").stdout == "2\n"


def test_a_stream_is_closed_by_another_thread(pool: ClusterPool) -> None:
    """Its reader's loop ends, once the box is gone."""
    sandbox = pool.get("t1")
    stream = sandbox.stream_code(GOES_ON)
    next(stream)
    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(list, stream)
        stream.close()
        assert named_processes() == []
        assert reading.result(60) == []
    assert sandbox.run_code("print(3)").stdout == "3\n"


async def test_a_stream_is_closed_by_another_task(pool: ClusterPool) -> None:
    """The same, on an event loop."""
    sandbox = pool.get("t1")
    stream = sandbox.stream_code(GOES_ON)
    await anext(stream)

    async def read() -> list[object]:
        return [event async for event in stream]

    reading = asyncio.create_task(read())
    await asyncio.sleep(0)
    await stream.aclose()
    assert named_processes() == []
    assert await reading == []
    assert sandbox.run_code("print(4)").stdout == "4\n"


def test_what_a_signal_handler_raises_ends_the_call_alone(
    pool: ClusterPool,
) -> None:
    """A `TimeoutError` of the caller's is not taken for one of the network."""

    def too_late(*_: object) -> None:
        raise TimeoutError("of the caller")

    def alarm() -> None:
        while not named_processes():
            pass
        os.kill(os.getpid(), signal.SIGALRM)

    sandbox = pool.get("t1")
    before = signal.signal(signal.SIGALRM, too_late)
    killer = threading.Thread(target=alarm)
    killer.start()
    try:
        with pytest.raises(TimeoutError, match="of the caller"):
            sandbox.run_code(GOES_ON)
    finally:
        killer.join()
        signal.signal(signal.SIGALRM, before)
    assert named_processes() == []
    assert sandbox.run_code("print(5)").stdout == "5\n"


def test_calls_at_once_do_not_wait_for_each_other(pool: ClusterPool) -> None:
    """More of them than channels that are kept."""
    sandbox = pool.get("t1")
    with ThreadPoolExecutor(12) as threads:
        calls = [
            threads.submit(sandbox.run_code, f"print({number})") for number in range(12)
        ]
        said = [call.result().stdout for call in calls]
    assert said == [f"{number}\n" for number in range(12)]


def test_a_sandbox_that_is_closed_tells_its_callers(nodes: Nodes) -> None:
    """They learn that it was closed, not that a node was lost."""
    with pool_of(nodes) as pool, ThreadPoolExecutor(1) as threads:
        sandbox = pool.get("t1")
        call = threads.submit(sandbox.run_code, GOES_ON)
        wait_until(named_processes)
        pool.drop("t1")
        ended = call.exception(60)
        assert isinstance(ended, SandboxClosed)
        assert not isinstance(ended, NodeLost)
        with pytest.raises(SandboxError):
            sandbox.run_code("1")
