"""Model Context Protocol: the tools of a sandbox as an MCP server."""

from kern_tools.adapters.mcp.server import as_server
from kern_tools.adapters.mcp.stdio import Wires, serve_stdio
from kern_tools.adapters.mcp.wire import ARTIFACT, STOP, result_of, stop_of

__all__ = [
    "ARTIFACT",
    "STOP",
    "Wires",
    "as_server",
    "result_of",
    "serve_stdio",
    "stop_of",
]
