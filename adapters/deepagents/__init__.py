"""deepagents: a sandbox as the backend of a deep agent, for its files and its shell."""

from kern_tools.adapters.deepagents.backend import (
    ARTIFACTS,
    KernBackend,
    KernResponse,
    as_backend,
    system_prompt,
)

__all__ = ["ARTIFACTS", "KernBackend", "KernResponse", "as_backend", "system_prompt"]
