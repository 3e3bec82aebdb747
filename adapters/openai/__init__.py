"""OpenAI: the tools of a sandbox for Chat Completions and Responses."""

from kern_tools.adapters.openai.tools import Answers, OpenAITools, as_tools

__all__ = ["Answers", "OpenAITools", "as_tools"]
