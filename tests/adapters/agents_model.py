"""A model of the OpenAI Agents SDK that says what a script has, without a server."""

from __future__ import annotations

from kern_tools.adapters.openai_agents.caller import ScriptedModel, asked, said

__all__ = ["ScriptedModel", "asked", "said"]
