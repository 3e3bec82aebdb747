"""Claims on how the tools are used, and on what they reply."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from kern_tools.facts import SandboxFacts
from kern_tools.reply import Reply

from .claim import Claim, Live, Said, claim
from .place import END, fails, numbers, speaks_python

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAA"
    "CklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)
PICTURE = f"""\
import base64
class Picture:
    def _repr_png_(self): return base64.b64decode("{PIXEL}")
"""
FIGURES = """\
import matplotlib.pyplot as plt
for number in range({count}): plt.figure().gca().plot([1, number])
plt.close(plt.figure())
"""


def last_value(live: Live, said: Said) -> None:
    """Of several expressions the last is shown, and what is printed."""
    shown = live.call("run_code", code="111\n222\nx = 333\nprint(444)\n555").text
    assert [n for n in (111, 222, 333, 444, 555) if str(n) in shown] == [444, 555]
    assert live.call("run_code", code="x = 333").text.endswith(
        "\nno output: print what you need to see"
    )


def only_printed(live: Live, said: Said) -> None:
    """What is not printed does not show."""
    code = {"node": "333"}.get(live.language, "x=333")
    tool, arguments = (
        ("run_code", {"code": code, "language": live.language})
        if "run_code" in live.facts.tools
        else ("run_command", {"command": code})
    )
    assert "333" not in live.call(tool, **arguments).text


@cache
def drawn(live: Live) -> Reply:
    """Have one figure more drawn than a reply may carry."""
    return live.call("run_code", code=FIGURES.format(count=live.facts.images + 1))


def figures(live: Live, said: Said) -> None:
    """One that is left open arrives as an image."""
    assert len(drawn(live).images) == live.facts.images


def charts(live: Live, said: Said) -> None:
    """They arrive up to the bound, are saved, and stay once they are copied."""
    reply = drawn(live)
    assert numbers(said["most"]) == live.facts.images == len(reply.images)
    lines = [line for line in reply.text.split("\n") if line.startswith("image ")]
    paths = [line.partition("saved as ")[2] for line in lines]
    assert [live.sandbox.read_file(path) for path in paths] == [
        image.data for image in reply.images
    ]
    live.says(f"import shutil; shutil.copy({paths[0]!r}, 'chart.png')", "python")
    assert live.sandbox.read_file("chart.png") == reply.images[0].data


def no_images(live: Live, said: Said) -> None:
    """An image that is shown is counted and nothing else; a file can be named."""
    reply = live.call("run_code", code=f"{PICTURE}Picture()")
    assert reply.images == ()
    assert "1 image left out" in reply.text


def commands(live: Live, said: Said) -> None:
    """Each begins in the workspace, whatever the one before did."""
    for _ in range(2):
        reply = live.call("run_command", command="pwd; cd /tmp; pwd; x=1")
        assert f"```\n{said['where']}\n/tmp\n```" in reply.text
    assert "```\nnone\n```" in live.call("run_command", command="echo ${x-none}").text


def edits(live: Live, said: Said) -> None:
    """A part is changed by what was read of it, and a file is written whole."""
    live.sandbox.write_file("edited.txt", "one\ntwo\n")
    if "after reading" in said[0]:
        assert "```\none\ntwo\n```" in live.call("read_file", path="edited.txt").text
    reply = live.call("edit_file", path="edited.txt", old="two", new="2")
    assert reply.error is None
    assert live.sandbox.read_file("edited.txt") == b"one\n2\n"
    if "whole" in said[0]:
        assert live.call("write_file", path="edited.txt", content="3").error is None
        assert live.sandbox.read_file("edited.txt") == b"3"


def searches(live: Live, said: Said) -> None:
    """Of more than fits, the first are shown and all are counted."""
    for number in range(201):
        live.sandbox.write_file(f"many/{number:03}.txt", "needle\n")
    most = live.facts.text_chars
    if "`search_files`" in said[0]:
        reply = live.call("search_files", pattern="needle", path="many")
        assert reply.text.startswith("ok, 201 lines in 201 files match in many, the")
        assert len(reply.text) <= most
    if "`find_files`" in said[0]:
        reply = live.call("find_files", glob="many/*")
        assert reply.text.startswith("ok, 201 files match many/*, the first ")
        assert len(reply.text) <= most


def names(live: Live, said: Said) -> None:
    """One name is the same file to code, to each tool, and to whoever reads answers."""
    if speaks_python(live.facts):
        live.says("open('data.csv', 'w').write('a,b')", "python")
    else:
        live.sandbox.write_file("data.csv", "a,b")
    assert live.sandbox.read_file("data.csv") == b"a,b"
    if "read_file" in live.facts.tools:
        for name in ("data.csv", f"{said['where']}/data.csv"):
            assert "a,b" in live.call("read_file", path=name).text


def place(live: Live, said: Said) -> None:
    """The kernel that runs the code is this machine's own."""
    booted = Path("/proc/sys/kernel/random/boot_id")
    if "to run code" in said[0] and fails(live.facts):
        language = "python" if "python" in live.facts.languages else "sh"
        code = {"python": f"print(open('{booted}').read())", "sh": f"cat {booted}"}
        assert live.says(code[language], language) == booted.read_text().strip()
    assert live.sandbox.workspace.root.is_dir()


def _can_chart(facts: SandboxFacts) -> bool:
    known = dict(facts.packages)
    hoped = facts.unlisted or not facts.looked_into
    return bool(
        facts.images and speaks_python(facts) and (hoped or "matplotlib" in known)
    )


_FIGURE = "A matplotlib figure that is left open comes back as an image"


def _draws(facts: SandboxFacts) -> bool:
    return "matplotlib" in dict(facts.packages)


WORK: tuple[Claim, ...] = (
    claim(
        r"You have (?:a sandbox on this machine to run code in"
        r"|the files of a sandbox on this machine)" + END,
        "system",
        probe=place,
    ),
    claim(
        "The value of the last Python expression is shown; print all else you need to"
        " see" + END,
        "seeing",
        when=lambda f: speaks_python(f) and "run_code" in f.tools,
        probe=last_value,
    ),
    claim(
        "Print all you need to see" + END,
        "seeing",
        when=lambda f: not (speaks_python(f) and "run_code" in f.tools),
        probe=only_printed,
        where=lambda f: bool(f.languages),
        shown_by="images",
    ),
    claim(
        rf"{_FIGURE}, at most (?P<most>[\d,]+) in a reply, and is saved as a file that"
        " the reply names: copy that file to keep it" + END,
        "charts",
        when=_can_chart,
        probe=charts,
        where=_draws,
    ),
    claim(
        _FIGURE + r"(?:\.(?= |\n|\Z)|\Z)",
        *("figures", "run_code"),
        when=_can_chart,
        probe=figures,
        where=_draws,
    ),
    claim(
        "Images are not passed on: save a chart to a file and name that file" + END,
        "charts",
        when=lambda f: not f.images,
        probe=no_images,
        where=speaks_python,
    ),
    claim(
        r"Give shell commands to `run_command`: each is a new shell in (?P<where>\S+),"
        " so a `cd` lasts for one command" + END,
        "commands",
        when=lambda f: "run_command" in f.tools,
        probe=commands,
        where=lambda f: "sh" in f.languages or "bash" in f.languages,
    ),
    claim(
        "Change a part of a file with `edit_file`(?:, after reading that part)?"
        "(?:; write a file whole only where most of it is new)?" + END,
        "edits",
        when=lambda f: "edit_file" in f.tools,
        probe=edits,
    ),
    claim(
        "Find (?:text with `search_files`, files with `find_files`: the replies are"
        " bounded and count|text with `search_files`: the reply is bounded and counts"
        "|files with `find_files`: the reply is bounded and counts) all there is" + END,
        "searches",
        when=lambda f: bool({"search_files", "find_files"} & set(f.tools)),
        probe=searches,
    ),
    claim(
        r"Name files relative to (?P<where>\S+), such as `data\.csv`, in code, in tools"
        " and in your answer" + END,
        "names",
        probe=names,
    ),
)
