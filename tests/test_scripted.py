"""The scripted model server, as the real client sees it."""

from __future__ import annotations

from typing import Any

import pytest
from openai import BadRequestError, OpenAI

from kern_tools.scripted import ScriptedCall, ScriptedRequest, ScriptedServer, Step


def client(server: ScriptedServer) -> OpenAI:
    """The real client, pointed at the server."""
    return OpenAI(base_url=server.url, api_key="none", max_retries=0)


def test_a_step_may_be_made_from_the_request() -> None:
    """What the client sent decides what the model says."""

    def echo(request: ScriptedRequest) -> str:
        return f"you said {request.body['input']}"

    with ScriptedServer([echo]) as server, client(server) as api:
        assert api.responses.create(model="m", input="hi").output_text == "you said hi"
    assert [request.is_chat for request in server.requests] == [False]


def test_a_body_may_be_given_as_it_is() -> None:
    """For what no server of today says."""
    body: dict[str, Any] = {
        "id": "r",
        "object": "response",
        "output": [],
        "status": "incomplete",
    }
    with ScriptedServer([body]) as server, client(server) as api:
        assert api.responses.create(model="m", input="hi").status == "incomplete"


def test_calls_are_numbered_where_no_id_is_given() -> None:
    """Ids differ within a script, as a model's do."""
    script: list[Step] = [[ScriptedCall("a", {}), ScriptedCall("b", {}, "mine")]]
    with ScriptedServer([*script, *script]) as server, client(server) as api:
        turns = [api.responses.create(model="m", input="hi") for _ in script * 2]
    ids = [getattr(item, "call_id", None) for turn in turns for item in turn.output]
    assert ids == ["call_1", "mine", "call_2", "mine"]
    assert len({turn.id for turn in turns}) == 2


def test_a_request_beyond_the_script_is_refused_and_raised() -> None:
    """A test that asks more often than it says must not pass."""
    with (
        pytest.raises(LookupError, match="before request 1"),
        ScriptedServer([]) as server,
        client(server) as api,
        pytest.raises(BadRequestError, match="add a step"),
    ):
        api.responses.create(model="m", input="hi")


def test_another_path_is_refused() -> None:
    """Only the two ways of the API are there."""
    with (
        pytest.raises(LookupError, match="embeddings"),
        ScriptedServer(["x"]) as server,
        client(server) as api,
        pytest.raises(BadRequestError, match="embeddings"),
    ):
        api.embeddings.create(model="m", input="hi")


def test_the_url_is_there_while_it_runs() -> None:
    """A script that nobody serves is a mistake of the test."""
    with pytest.raises(RuntimeError, match="with"):
        _ = ScriptedServer([]).url
