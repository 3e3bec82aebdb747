"""LangChain and LangGraph: the tools of a sandbox as LangChain tools.

`CallRepair`, `FaultMiddleware` and `ImagesToUser` are for `langchain.agents`, and need
the package `langchain`; they load on first use. All else needs `langchain-core`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kern_tools.adapters.langchain.events import events_of
from kern_tools.adapters.langchain.images import images_to_user
from kern_tools.adapters.langchain.routing import route_on_fault
from kern_tools.adapters.langchain.stopping import stop_of
from kern_tools.adapters.langchain.tools import (
    KernTool,
    KernToolkit,
    as_tools,
    result_of,
)

if TYPE_CHECKING:
    from kern_tools.adapters.langchain.middleware import FaultMiddleware, ImagesToUser
    from kern_tools.adapters.langchain.repair import CallRepair

__all__ = [
    "CallRepair",
    "FaultMiddleware",
    "ImagesToUser",
    "KernTool",
    "KernToolkit",
    "as_tools",
    "events_of",
    "images_to_user",
    "result_of",
    "route_on_fault",
    "stop_of",
]

_MIDDLEWARE = {
    "CallRepair": "repair",
    "FaultMiddleware": "middleware",
    "ImagesToUser": "middleware",
}


def __getattr__(name: str) -> Any:
    if name not in _MIDDLEWARE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MIDDLEWARE[name]}"), name)
