"""Images: all of them, in order, as parts of their own, where each API takes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kern_tools import Sandbox
from kern_tools.adapters import openai
from kern_tools.config import Budget
from kern_tools.scripted import ScriptedCall
from kern_tools.testing import Adapter
from tests.adapters.cells import CHARTS
from tests.adapters.loops import loop, serving

from .conftest import Through
from .reading import ran

CLASS = CHARTS.partition("display(Chart())")[0]
LARGE = f"""
import os
{CLASS}
class Large(Chart):
    def _repr_png_(self):
        noise = os.urandom(40_000)
        return super()._repr_png_()[:-12] + chunk(b'teXt', noise) + chunk(b'IEND', b'')
Large()
"""
FIGURES = f"""
import matplotlib.pyplot as plt
{CLASS}
first = plt.figure(figsize=(1, 1), dpi=40)
second = plt.figure(figsize=(2, 1), dpi=40)
display(Chart())
"""
SHOWN = """
import matplotlib
import matplotlib.pyplot as plt
plt.figure(figsize=(1, 1), dpi=40)
plt.plot([1, 2])
plt.show()
print(matplotlib.get_backend().lower())
"""


@pytest.fixture(scope="module")
def plotting() -> Iterator[Sandbox]:
    """A sandbox with matplotlib, which is asked for windows."""
    with Sandbox(
        mode="kernel",
        packages=["matplotlib"],
        env={"MPLBACKEND": "TkAgg"},
        setup_code="import matplotlib.pyplot",
        timeout_s=60,
    ) as sandbox:
        yield sandbox


def sizes(text: str) -> list[str]:
    """Give the sizes of the images that a text names, in order."""
    lines = [line for line in text.splitlines() if line.startswith("image ")]
    return [line.split()[3].strip(",") for line in lines]


@pytest.mark.bug("images in tool messages")
def test_an_image_of_a_chat_call_follows_in_a_user_message(sandbox: Sandbox) -> None:
    """Tool messages hold text alone; the image names the call it is of.

    Source: https://github.com/OpenHands/OpenHands/issues/7700
    Source: https://github.com/QwenLM/qwen-code/issues/3616
    Source: https://github.com/openai/openai-openapi/issues/523
    """
    calls = [
        ScriptedCall("run_code", {"code": CHARTS}, "with-charts"),
        ScriptedCall("run_code", {"code": "print(1)"}, "without"),
    ]
    with serving(calls, "done") as server:
        loop("sync", server, openai.as_tools(sandbox), api="chat")
    *_, one, other, shown = server.requests[1].body["messages"]
    assert [message["role"] for message in (one, other, shown)] == [
        *("tool", "tool"),
        "user",
    ]
    assert all(isinstance(message["content"], str) for message in (one, other))
    label, *images = shown["content"]
    assert "with-charts" in label["text"]
    assert [image["type"] for image in images] == ["image_url"] * 2


@pytest.mark.bug("base64 in text")
def test_no_image_is_flattened_to_text(adapter: Adapter) -> None:
    """Forty kilobytes of picture are some words and one part.

    Source: https://github.com/CommandCodeAI/command-code/issues/902
    Source: https://github.com/bytedance/deer-flow/issues/544
    """
    outcome = adapter.call("run_code", {"code": LARGE})
    (image,) = outcome.images
    assert len(image.data) > 40_000
    assert image.base64[:64] not in outcome.text
    assert len(outcome.text) < 200


@pytest.mark.bug("base64 in text")
def test_no_image_that_is_read_is_flattened_to_text(
    adapter: Adapter, sandbox: Sandbox
) -> None:
    """A picture that a tool reads from a file is a picture.

    Source: https://github.com/bytedance/deer-flow/issues/544
    """
    code = f"{LARGE}\nopen('large.png', 'wb').write(Large()._repr_png_());"
    sandbox.run_code(code)
    outcome = adapter.call("read_file", {"path": "large.png"})
    assert [image.mime for image in outcome.images] == ["image/png"]
    assert len(outcome.text) < 200


@pytest.mark.bug("lost charts")
def test_every_figure_and_value_arrives_in_order(
    through: Through, plotting: Sandbox
) -> None:
    """What is shown first comes first; open figures need no `show`.

    Source: https://github.com/open-webui/open-webui/issues/23847
    """
    outcome = through(plotting).call("run_code", {"code": FIGURES})
    widths_px = [int(size.partition("x")[0]) for size in sizes(outcome.text)]
    assert widths_px[0] == 1 < widths_px[1] < widths_px[2]
    assert [image.mime for image in outcome.images] == ["image/png"] * 3


@pytest.mark.bug("lost charts")
def test_images_over_the_budget_are_counted(adapter: Adapter) -> None:
    """The first ones are shown, and the reply says how many there were.

    Source: https://github.com/open-webui/open-webui/issues/23847
    """
    most = Budget().images
    code = f"{CLASS}\nfor _ in range({most} + 2): display(Chart())"
    outcome = adapter.call("run_code", {"code": code})
    assert len(outcome.images) == len(sizes(outcome.text)) == most
    assert f"2 images left out: a reply carries at most {most}" in outcome.text
    result = ran(outcome)
    assert len(result.results) + result.results_omitted == most + 2


@pytest.mark.bug("windows")
def test_a_figure_is_shown_without_a_window(
    through: Through, plotting: Sandbox
) -> None:
    """Whatever backend the environment asks for: `show` returns, and says nothing.

    Source: https://github.com/unslothai/unsloth/issues/7789
    """
    outcome = through(plotting).call("run_code", {"code": SHOWN})
    result: Any = ran(outcome)
    assert (result.stdout, result.code_stderr) == ("agg\n", "")
    assert len(outcome.images) == len(sizes(outcome.text)) == 1
