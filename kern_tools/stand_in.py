"""A model to try things with: yours where a key is set, else one that says a script.

    script = [ScriptedCall("run_code", {"code": "print(6 * 7)"}), "It is 42."]
    model = model_or_script(script)
    client = OpenAI(base_url=model.base_url, api_key=model.api_key)
    client.responses.create(model=model.name, input="What is 6 * 7?")

The same lines ask a real model where `OPENAI_API_KEY` or `OPENAI_BASE_URL` is set, as
the OpenAI client reads them; `OPENAI_MODEL` names it.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from .scripted import ScriptedCall, ScriptedRequest, ScriptedServer, Step

if TYPE_CHECKING:
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.llms.function_calling import FunctionCallingLLM

MODEL = "gpt-5.5"
_NO_KEY = "none"

Said = str | ScriptedCall | Sequence[ScriptedCall]


@dataclass(frozen=True, slots=True)
class Model:
    """Where a model is, as the constructors of clients and frameworks take it.

    Attributes:
        name: For `model=`.
        base_url: For `base_url=` or `api_base=`; None for OpenAI's own.
        api_key: For `api_key=`.
        server: What plays the script and keeps the requests; None for a real model.
    """

    name: str
    base_url: str | None
    api_key: str
    server: ScriptedServer | None = None

    @property
    def requests(self) -> list[ScriptedRequest]:
        """What was sent so far, where a script is played."""
        return [] if self.server is None else self.server.requests


def is_model_set() -> bool:
    """Tell whether the environment names a model of yours."""
    return any(os.environ.get(name) for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"))


def model_or_script(script: Iterable[Step]) -> Model:
    """Give the model that the environment names, else one that says a script.

    Args:
        script: One step for each request, see `ScriptedServer`, which runs on loopback
            until this process ends.
    """
    name = os.environ.get("OPENAI_MODEL") or MODEL
    if is_model_set():
        key = os.environ.get("OPENAI_API_KEY") or _NO_KEY
        return Model(name, os.environ.get("OPENAI_BASE_URL") or None, key)
    server = ScriptedServer(script).__enter__()  # ends with this process
    return Model(name, server.url, _NO_KEY, server)


def llama_index_model(script: Sequence[Said]) -> FunctionCallingLLM:
    """Do the same for LlamaIndex: its own class for OpenAI, else one without a server.

    `llama-index-llms-openai` refuses openai 3. Where it is not installed and no key is
    set, the framework's own mock says the script.

    Args:
        script: What the model says, request by request.

    Raises:
        ImportError: A key is set and that package is not installed.
    """
    try:
        models: Any = import_module("llama_index.llms.openai")
    except ImportError as error:
        if is_model_set():
            raise ImportError(
                "a key is set, and LlamaIndex's models of OpenAI are not installed:"
                " pip install llama-index-llms-openai, in an environment with openai 2"
            ) from error
        return _mock(script)
    model = model_or_script(script)
    at = {"api_base": model.base_url, "api_key": model.api_key}
    return cast("FunctionCallingLLM", models.OpenAI(model=model.name, **at))


def _mock(script: Sequence[Said]) -> FunctionCallingLLM:
    from llama_index.core.llms.mock import MockFunctionCallingLLM

    steps = iter(script)
    ids = (f"call_{number}" for number in itertools.count(1))

    def say(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
        return _message(next(steps), ids)

    return MockFunctionCallingLLM(response_generator=say)


def _message(said: Said, ids: Iterator[str]) -> ChatMessage:
    from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock

    if isinstance(said, str):
        return ChatMessage(role="assistant", content=said)
    blocks = [
        ToolCallBlock(
            tool_call_id=call.call_id or next(ids),
            tool_name=call.name,
            tool_kwargs=dict(_arguments(call)),
        )
        for call in ([said] if isinstance(said, ScriptedCall) else said)
    ]
    return ChatMessage(role="assistant", blocks=blocks)


def _arguments(call: ScriptedCall) -> Mapping[str, Any]:
    written = call.arguments
    return json.loads(written) if isinstance(written, str) else written
