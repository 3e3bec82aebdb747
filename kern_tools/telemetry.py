"""OpenTelemetry: a span and figures of each call of an instrumented sandbox or pool.

    from kern_tools.telemetry import instrument

    instrument(sandbox)

Every adapter's tools are followed, and the sandbox's own methods. Spans and metrics go
to the providers that the application has set up, or is given here; only the API of
OpenTelemetry is needed, and without `instrument` not even that is imported.
"""

from __future__ import annotations

import _thread
import time
from collections.abc import Mapping, Sized
from contextvars import Token
from importlib.metadata import version
from threading import Lock
from types import TracebackType
from typing import Any, Self
from weakref import WeakKeyDictionary, WeakSet

from .extras import missing
from .faults import ConfigError
from .meters import Meters
from .observing import Asked, Observable, Outcome
from .options import refusal
from .span_attributes import (
    ERROR_TYPE,
    asked_attributes,
    asked_content,
    error_type,
    error_type_of,
    outcome_attributes,
    outcome_content,
    span_name,
)

try:
    from opentelemetry import context, metrics, propagate, trace
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider
except ImportError as error:
    missing("otel", error, user="Telemetry")

__all__ = ["instrument", "uninstrument"]

_SCOPE = "kern_tools"
_METERS: WeakKeyDictionary[MeterProvider, Meters] = WeakKeyDictionary()
"""One of each instrument for a provider, however often something is instrumented."""
_ONE_MAKES = Lock()


def instrument(
    *targets: Observable,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    content: bool = False,
) -> None:
    """Have the calls of sandboxes traced and counted from now on.

    A tool call is a span `execute_tool NAME` by the conventions for generative AI, a
    call of `run_code`, `run` or one of their kin a span of that name; calls that a tool
    makes are a part of its own. The parent is what is current where the call is made.

    Args:
        *targets: Each a `Sandbox`, or a `SandboxPool` with all of its sandboxes. One
            that is instrumented already is so anew.
        tracer_provider: Where spans go; None for the application's own.
        meter_provider: Where metrics go; None for the application's own.
        content: Record arguments, output and messages too: code, files, and what the
            code printed. Otherwise no text that a model, the code or `env` could have
            brought stands in any attribute.

    Raises:
        ConfigError: A target is something else, such as a tool.

    Source: https://github.com/open-telemetry/semantic-conventions-genai
    """
    _check(targets)
    release = version("kern-tools")
    tracer = trace.get_tracer(_SCOPE, release, tracer_provider)
    meters = _meters(meter_provider or metrics.get_meter_provider(), release)
    for target in targets:
        _forget(target)
        target.observe(_Telemetry(tracer, meters, content))
        if isinstance(target, Sized):  # a pool: it tells how many it has
            meters.pools.add(target)


def uninstrument(*targets: Observable) -> None:
    """Have nobody told of the calls any more.

    Args:
        *targets: What was given to `instrument`; what was not is left as it is.

    Raises:
        ConfigError: A target is something else.
    """
    _check(targets)
    for target in targets:
        if isinstance(target.observer, _Telemetry):
            _forget(target)
            target.observe(None)


def _check(targets: tuple[object, ...]) -> None:
    remedy = "give what the tools were made of: a Sandbox or a SandboxPool"
    if not targets:
        raise ConfigError(f"nothing was named; {remedy}", option="targets")
    for target in targets:
        if not isinstance(target, Observable):
            raise refusal("targets", target, "makes no calls of its own", remedy)


def _forget(target: Observable) -> None:
    for meters in _METERS.values():
        meters.pools.discard(target)


def _meters(provider: MeterProvider, release: str) -> Meters:
    with _ONE_MAKES:
        found = _METERS.get(provider)
        if found is None:
            meter = metrics.get_meter(_SCOPE, release, provider)
            found = _METERS[provider] = Meters(meter, WeakSet())
        return found


class _Telemetry:
    """What is told of the calls of one target."""

    def __init__(self, tracer: trace.Tracer, meters: Meters, content: bool) -> None:
        self._tracer = tracer
        self._meters = meters
        self._content = content

    def begin(self, asked: Asked) -> _CallSpan:
        parent = _parent(asked.trace_context)
        began_ns = time.time_ns()
        attributes = asked_attributes(asked)
        if self._content:
            attributes |= asked_content(asked)
        span = self._tracer.start_span(
            span_name(asked), parent, SpanKind.INTERNAL, attributes, start_time=began_ns
        )
        return _CallSpan(span, parent, asked, began_ns, self._meters, self._content)


class _CallSpan:
    """The span of one call, and at its end the figures."""

    def __init__(
        self,
        span: Span,
        parent: Context,
        asked: Asked,
        began_ns: int,
        meters: Meters,
        content: bool,
    ) -> None:
        self._span = span
        self._context = trace.set_span_in_context(span, parent)
        self._asked = asked
        self._began_ns = began_ns
        self._meters = meters
        self._content = content
        self._ended = False
        self._token: Token[Context] | None = None

    def __enter__(self) -> Self:
        self._token = context.attach(self._context)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace_back: TracebackType | None,
    ) -> None:
        if isinstance(error, GeneratorExit):
            # A coroutine that nobody resumes is closed by the collector, in any context
            # and whatever lock that thread holds; what ends spans takes locks.
            _thread.start_new_thread(self.fail, (error,))
            return
        if error is not None:
            self.fail(error)
        assert self._token is not None
        context.detach(self._token)

    def end(self, outcome: Outcome) -> None:
        kind = error_type(outcome)
        attributes = outcome_attributes(outcome)
        if self._content:
            attributes |= outcome_content(outcome)
        self._close(kind, attributes, outcome)

    def fail(self, error: BaseException) -> None:
        self._close(error_type_of(error), {}, None)

    def _close(
        self, kind: str | None, attributes: dict[str, Any], outcome: Outcome | None
    ) -> None:
        if self._ended:
            return
        self._ended = True
        ended_ns = max(time.time_ns(), self._began_ns)
        self._span.set_attributes(attributes)
        if kind is not None:
            self._span.set_attribute(ERROR_TYPE, kind)
            self._span.set_status(Status(StatusCode.ERROR, self._said(outcome)))
        took_s = (ended_ns - self._began_ns) / 1e9
        # In the span's context, by which figures find an example.
        self._meters.record(self._asked, outcome, kind, took_s, self._context)
        self._span.end(ended_ns)

    def _said(self, outcome: Outcome | None) -> str | None:
        """Give the words of a fault: they may quote the code, or what it printed."""
        result = getattr(outcome, "result", outcome)
        fault = getattr(result, "fault", None)
        return fault.message if self._content and fault is not None else None


def _parent(trace_context: Mapping[str, Any] | None) -> Context:
    """Give what is current, or what came with the call where nothing is."""
    current = context.get_current()
    if not trace_context or trace.get_current_span(current).get_span_context().is_valid:
        return current
    carrier = {n: v for n, v in trace_context.items() if isinstance(v, str)}
    return propagate.extract(carrier, current)
