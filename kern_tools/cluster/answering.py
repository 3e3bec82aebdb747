"""What an actor does for what it is asked: calls, files, and the rest of a sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kern_tools.events import ResultEvent
from kern_tools.turns import Cancelled

from .channel import HungUp
from .hangups import HangUps
from .held import HeldFiles
from .told import RemoteAsk, RemoteCall, Told

if TYPE_CHECKING:
    from .channel import Channel
    from .hosted import HostedSandbox


class Answering:
    """Answers for one sandbox.

    Attributes:
        sandbox: The sandbox, once it is being opened.
        files: Those of it that are held open.
    """

    def __init__(self) -> None:
        self.sandbox: HostedSandbox | None = None
        self.files = HeldFiles()
        self._hang_ups = HangUps()

    def answer(self, asked: RemoteCall | RemoteAsk, channel: Channel) -> Told:
        """Do what is asked.

        Args:
            asked: What.
            channel: Who asks; a caller that hangs up has its call ended.

        Returns:
            How it went; of a call, its `ExecutionResult`.

        Raises:
            HungUp: The caller is gone.
        """
        if isinstance(asked, RemoteCall):
            return self._call(asked, channel)
        try:
            method = getattr(self._of(asked), asked.method)
            return Told(method(*asked.arguments, **asked.options))
        except Exception as error:
            return Told.of(error)

    def _of(self, asked: RemoteAsk) -> Any:
        sandbox = self.opened()
        if asked.of == "sandbox":
            return sandbox
        if asked.of == "files":
            return sandbox.workspace
        self.files.sandbox = sandbox
        return self.files

    def _call(self, asked: RemoteCall, channel: Channel) -> Told:
        try:
            if asked.is_heard:
                return self._heard(asked, channel)
            call = self.opened().whole_call(asked)
            with self._hang_ups.ending(channel, call.close):
                return Told(call.run())
        except Cancelled:  # the caller has hung up
            return Told()
        except HungUp:
            raise
        except Exception as error:
            return Told.of(error)

    def _heard(self, asked: RemoteCall, channel: Channel) -> Told:
        stream = self.opened().heard_call(asked)
        with stream, self._hang_ups.ending(channel, stream.close):
            for event in stream:
                if isinstance(event, ResultEvent):
                    return Told(event.result)
                channel.send(event)
        return Told()  # the caller has hung up

    def opened(self) -> HostedSandbox:
        """Give the sandbox, which has been opened."""
        assert self.sandbox is not None
        return self.sandbox
