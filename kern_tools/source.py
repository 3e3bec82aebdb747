"""Where a tool's calls run: in one sandbox, or in the one of their conversation."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from .conversations import refused_key
from .facts import SandboxFacts
from .faults import ConfigError, SandboxError
from .options import refusal
from .outcome import blocked_result
from .rendering import render
from .reply import Reply
from .sandbox import Sandbox

if TYPE_CHECKING:
    from types import TracebackType

    from .config import SandboxConfig
    from .observing import Observer

TenantOf = Callable[[Any], Any]
"""Given what the framework offers with a call, tells the tenant; may be async."""


class Leased(Protocol):
    """Gives an open sandbox to a `with` or `async with` block."""

    def __enter__(self) -> Sandbox: ...
    async def __aenter__(self) -> Sandbox: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...


class Pool(Protocol):
    """What tools use of a pool of sandboxes, such as `SandboxPool`."""

    @property
    def config(self) -> SandboxConfig:
        """The options of every sandbox."""
        ...

    def describe(self) -> SandboxFacts:
        """Give the facts about every sandbox, without opening one."""
        ...

    def lease(self, conversation: object, *, tenant: object = None) -> Leased:
        """Hold a conversation's sandbox."""
        ...


class Source:
    """Finds the sandbox of each call.

    Args:
        sandbox: One for all calls, or a pool.
        tenant: Tells the tenant of a pool's call; None where there are no tenants.
        key: How the developer passes the conversation's id, for the error without one.
    """

    def __init__(
        self,
        sandbox: Sandbox | Pool,
        *,
        tenant: TenantOf | None = None,
        key: str = "conversation=...",
    ) -> None:
        if tenant is not None and isinstance(sandbox, Sandbox):
            raise ConfigError(
                "tenant=... is for a pool, and one sandbox was given; give a"
                " SandboxPool, or leave it out",
                option="tenant",
            )
        if not isinstance(sandbox, Sandbox) and not hasattr(sandbox, "lease"):
            remedy = "give a Sandbox or a SandboxPool"
            raise refusal("sandbox", sandbox, "is neither", remedy)
        if tenant is not None and not callable(tenant):
            remedy = "give a function of what the framework offers with a call"
            raise refusal("tenant", tenant, "is not callable", remedy)
        self._sandbox = sandbox
        self._tenant = tenant
        self._key = key

    @property
    def is_pool(self) -> bool:
        """Each conversation has a sandbox of its own."""
        return not isinstance(self._sandbox, Sandbox)

    @property
    def observer(self) -> Observer | None:
        """What is told of the calls; a pool of another make may have none."""
        observer: Observer | None = getattr(self._sandbox, "observer", None)
        return observer

    @property
    def mode(self) -> str:
        """What survives a call."""
        return self._sandbox.config.mode

    def describe(self) -> SandboxFacts:
        """Give the facts that the tool's words are rendered from."""
        return self._sandbox.describe()

    def lease(self, conversation: object, offered: object) -> Leased:
        """Hold the sandbox for one call.

        Args:
            conversation: The framework's id of the conversation, or None.
            offered: What `tenant` is called with; None for the conversation's id.

        Raises:
            ConfigError: The call names no conversation or tenant.
        """
        if isinstance(self._sandbox, Sandbox):
            return nullcontext(self._sandbox)
        tenant = self._tenant_of(conversation, offered)
        if inspect.isawaitable(tenant):
            close = getattr(tenant, "close", None)
            if close is not None:
                close()
            message = "tenant=... is async, and the call is not"
            raise refused_key("tenant", message)
        return self._lease(self._sandbox, conversation, self._somebody(tenant))

    async def alease(self, conversation: object, offered: object) -> Leased:
        """Do as `lease`; `tenant` may be async."""
        if isinstance(self._sandbox, Sandbox):
            return nullcontext(self._sandbox)
        tenant = await self.atenant(conversation, offered)
        return self._lease(self._sandbox, conversation, tenant)

    async def atenant(self, conversation: object, offered: object) -> object:
        """Tell whose a call is; None where there are no tenants.

        Raises:
            ConfigError: `tenant` raised something, or names nobody.
        """
        tenant = self._tenant_of(conversation, offered)
        if inspect.isawaitable(tenant):
            try:
                tenant = await tenant
            except Exception as error:
                raise _failed(error) from error
        return self._somebody(tenant)

    def refused(self, name: str, error: SandboxError, call_id: str | None) -> Reply:
        """Answer a call that has no sandbox: nothing ran.

        Args:
            name: The tool that was called.
            error: Why there is none, in its fault.
            call_id: The framework's id of the call.

        Raises:
            SandboxError: `error`, where no fault is behind it.
        """
        if error.fault is None:
            raise error
        result = blocked_result(call_id, error.fault)
        budget = self._sandbox.config.budget
        parts = render(result, facts=self.describe(), budget=budget)
        return Reply(name=name, parts=parts, result=result, call_id=call_id)

    def _lease(self, pool: Pool, conversation: object, tenant: object) -> Leased:
        try:
            return pool.lease(conversation, tenant=tenant)
        except ConfigError as error:
            if error.option != "conversation" or error.fault is None:
                raise
            message = f"{error.fault.message}; pass the id as {self._key}"
            raise refused_key("conversation", message) from None

    def _somebody(self, tenant: object) -> object:
        if self._tenant is not None and tenant is None:
            raise refused_key("tenant", "tenant=... gave None, which is nobody")
        return tenant

    def _tenant_of(self, conversation: object, offered: object) -> Any:
        if self._tenant is None:
            return None
        try:
            return self._tenant(conversation if offered is None else offered)
        except Exception as error:
            raise _failed(error) from error


def _failed(error: Exception) -> ConfigError:
    said = f"{type(error).__name__}: {error}"[:200]
    return refused_key("tenant", f"tenant=... raised {said}")
