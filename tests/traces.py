"""Where telemetry goes in tests: the SDK's own exporters, which keep it in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kern_tools.observing import Observable
from kern_tools.telemetry import instrument

Points = Mapping[frozenset[tuple[str, Any]], Any]
"""What a metric came to, by its attributes."""


class Traces:
    """Providers of their own, so that no test sees what another one did."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader])
        self.tracer = trace.get_tracer("tests", tracer_provider=self.tracers)

    def follow(self, *targets: Observable, content: bool = False) -> None:
        """Instrument targets with these providers."""
        instrument(
            *targets,
            tracer_provider=self.tracers,
            meter_provider=self.meters,
            content=content,
        )

    def spans(self) -> Sequence[ReadableSpan]:
        """Give the spans that have ended, those of the tests left out."""
        ended = self._exporter.get_finished_spans()
        return [span for span in ended if _scope(span) == "kern_tools"]

    def span(self) -> ReadableSpan:
        """Give the only one."""
        (span,) = self.spans()
        return span

    def text(self) -> str:
        """Give all that was exported, as text."""
        metrics = self._reader.get_metrics_data()
        said = [span.to_json() for span in self.spans()]
        return "\n".join([*said, "" if metrics is None else metrics.to_json()])

    def points(self, name: str) -> Points:
        """Give what a metric came to: the sum, or the count of a histogram."""
        data = self._reader.get_metrics_data()
        if data is None:
            return {}
        found: dict[frozenset[tuple[str, Any]], Any] = {}
        for resource in data.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points: Any = metric.data.data_points
                    for point in points if metric.name == name else ():
                        key = frozenset(dict(point.attributes or {}).items())
                        assert key not in found
                        found[key] = (
                            point.count if hasattr(point, "count") else (point.value)
                        )
        return found

    def total(self, name: str) -> Any:
        """Give the sum over all attributes."""
        return sum(self.points(name).values())


def attributes(span: ReadableSpan) -> dict[str, Any]:
    """Give a span's attributes."""
    return dict(span.attributes or {})


def parent_of(span: ReadableSpan) -> int | None:
    """Give the id of the span above."""
    return None if span.parent is None else span.parent.span_id


def id_of(span: trace.Span) -> int:
    """Give the id of a span that may still go on."""
    return span.get_span_context().span_id


def _scope(span: ReadableSpan) -> str | None:
    scope = span.instrumentation_scope
    return None if scope is None else scope.name
