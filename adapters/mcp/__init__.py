"""Model Context Protocol: the tools of a sandbox as an MCP server."""

from kern_tools.adapters.mcp.server import as_server
from kern_tools.adapters.mcp.stdio import Wires, serve_stdio
from kern_tools.adapters.mcp.wire import ARTIFACT, result_of

__all__ = ["ARTIFACT", "Wires", "as_server", "result_of", "serve_stdio"]
