"""Claims of the tools' descriptions."""

from __future__ import annotations

from kern_tools.facts import SandboxFacts

from .claim import Claim, Live, Said, claim
from .place import END, fails
from .replies import verdicts
from .work import last_value


def has_shell(facts: SandboxFacts) -> bool:
    """A command can be run."""
    return bool({"bash", "sh"} & set(facts.languages))


def runs_code(live: Live, said: Said) -> None:
    """What it prints is in the reply, and the value of the last expression."""
    if "the value" in said[0]:
        last_value(live, said)
    code = {"python": "print('he' + 'llo')", "node": "console.log('he' + 'llo')"}
    written = code.get(live.language, "echo hel''lo")
    reply = live.call("run_code", code=written, language=live.language)
    assert "```\nhello\n```" in reply.text


def runs_commands(live: Live, said: Said) -> None:
    """A script of several lines runs by that shell, and has what it printed shown."""
    if said["shell"] == "bash, which the image lacks":
        assert live.call("run_command", command="true").fault_type == "exec_failed"
        return
    shell = said["shell"].partition(",")[0]
    asked = 'echo one\necho "${BASH_VERSION:+bash}" $0\n'
    text = live.call("run_command", command=asked).text
    assert f"```\none\n{'bash ' if shell == 'bash' else ' '}{shell}\n```" in text


def shells(live: Live, said: Said) -> None:
    """One command leaves things behind, the next one looks for them."""
    first = live.call(
        "run_command",
        command="echo kept > kept.txt; echo x > /dev/shm/scratch; cd /tmp; v=1;"
        " sleep 60 >/dev/null 2>&1 </dev/null & until"
        ' [ "$(tr -d "\\0" </proc/$!/cmdline)" = sleep60 ]; do :; done',
    )
    assert first.result is not None
    assert first.result.success, first.text
    look = (
        f'[ "$PWD" = {said["where"]} ] || echo cd; [ -z "$v" ] || echo variables;'
        " [ -e kept.txt ] && echo files; [ -e /dev/shm/scratch ] && echo scratch;"
        ' for p in /proc/[0-9]*; do [ "$(tr -d "\\0" <$p/cmdline)" = sleep60 ]'
        " && echo processes; done; true"
    )
    reply = live.call("run_command", command=look)
    assert reply.result is not None
    assert reply.result.success, reply
    kept = {"files"} if "in a new box" in said[0] else {"files", "scratch", "processes"}
    found = set(reply.result.stdout.split())
    assert found == kept, (found, reply.text)


TOOLS: tuple[Claim, ...] = (
    claim(
        "Run code in a sandbox on this machine and get what it prints"
        "(?: and the value of its last expression)?" + END,
        "run_code",
        probe=runs_code,
        where=lambda f: bool(f.languages),
    ),
    claim(
        "The first line of the reply is `ok`, `exit N`, or `fault: TYPE`" + END,
        *("run_code", "run_command"),
        probe=verdicts,
        where=fails,
    ),
    claim(
        "Run a shell command, a line or a whole script, in a sandbox on this"
        " machine, by"
        " (?P<shell>.+?), and get what it prints" + END,
        "run_command",
        probe=runs_commands,
        where=lambda f: f.looked_into,
    ),
    claim(
        r"Each command is a new shell in (?P<where>\S+), in a new box: files there are"
        r" kept; `cd`, variables, other files and background processes are not\. So"
        " start what belongs together in one command" + END,
        "run_command",
        when=lambda f: f.mode == "fresh",
        probe=shells,
        where=lambda f: has_shell(f) and f.host_python,
    ),
    claim(
        r"Each command is a new shell in (?P<where>\S+): `cd` and variables are not"
        " kept; files there are, and scratch files and background processes while the"
        " box lives" + END,
        "run_command",
        when=lambda f: f.mode != "fresh",
        probe=shells,
        where=lambda f: has_shell(f) and f.host_python,
    ),
)
