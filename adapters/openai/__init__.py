"""OpenAI: the tools of a sandbox for Chat Completions and Responses, and loops."""

from kern_tools.adapters.openai.loop import arun_loop, run_loop
from kern_tools.adapters.openai.tools import Answers, OpenAITools, as_tools
from kern_tools.loop_result import LoopReason, LoopResult, StopLoop
from kern_tools.other_tools import OtherTool

__all__ = [
    "Answers",
    "LoopReason",
    "LoopResult",
    "OpenAITools",
    "OtherTool",
    "StopLoop",
    "arun_loop",
    "as_tools",
    "run_loop",
]
