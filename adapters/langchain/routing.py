"""Conditional edges of a LangGraph graph, by what the sandbox did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from kern_tools.adapters.langchain.history import answers_of, messages_of, watch_of
from kern_tools.adapters.langchain.tools import result_of
from kern_tools.faults import ConfigError, FaultType
from kern_tools.options import near, optional, refusal
from kern_tools.policy import FaultPolicy, check_policy
from kern_tools.stop import StopReason

__all__ = ["route_on_fault"]

_END = "__end__"


def route_on_fault(
    routes: Mapping[str | None, str],
    *,
    default: str | None = None,
    policy: FaultPolicy | None = None,
) -> Callable[[Any], str]:
    """Choose the next node by the faults of the model's last turn.

        route = route_on_fault({"timeout": "shrink", "oom": "bigger", None: "model"})
        graph.add_conditional_edges("tools", route)

    Args:
        routes: Fault type to node, `None` for no fault; where parallel calls met
            several faults, the first one of `routes` decides. With `policy` also the
            reasons to stop, `repeated` and `host`.
        default: The node for a fault that is not in `routes`, such as one of a newer
            kern; None for the one of `None`.
        policy: Its bounds hold for the calls since the user's last message: once one is
            reached, the node of the reason is next, or the end of the graph.

    Returns:
        A function of the state (a mapping or object with `messages`, or the list) for
        `add_conditional_edges`; its nodes are in its return type, for drawings.

    Raises:
        ConfigError: A key is no fault type, or `None` is missing.
    """
    _check(routes, policy)
    otherwise = routes[None] if default is None else default
    nodes = [*routes.values(), otherwise, *([] if policy is None else [_END])]

    def route(state: Any) -> str:
        messages = messages_of(state)
        stop = None if policy is None else watch_of(policy, messages).stopped
        if stop is not None:
            return routes.get(stop.reason, _END)
        results = map(result_of, answers_of(messages))
        found = {r.fault_type for r in results if r is not None and r.fault is not None}
        known = (node for fault, node in routes.items() if fault in found)
        return next(known, otherwise if found else routes[None])

    route.__annotations__ = {
        "state": Any,
        "return": Literal[tuple(dict.fromkeys(nodes))],
    }
    route.__name__ = route.__qualname__ = "route_on_fault"
    return route


def _check_mapping(routes: object) -> None:
    if not isinstance(routes, Mapping):
        remedy = "give a dict of fault types and nodes"
        raise refusal("routes", routes, "is no mapping", remedy)


def _check(routes: Mapping[str | None, str], policy: FaultPolicy | None) -> None:
    _check_mapping(routes)
    optional(check_policy)("policy", policy)
    if None not in routes:
        raise ConfigError(
            "routes has no node for None; add `None: ...`, where to go without a fault",
            option="routes",
        )
    known = [str(fault) for fault in FaultType]
    if policy is not None:
        known += [str(reason) for reason in StopReason]
    for key in routes:
        if key is not None and key not in known:
            meant = near(str(key), known) or known
            raise ConfigError(
                f"routes: {key!r} is no fault type; did you mean {' or '.join(meant)}?"
                " Faults without a node of their own go to `default`",
                option="routes",
            )
