"""What a model writes as arguments: read, repaired where safe, or explained."""

from __future__ import annotations

import json
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, model_validator

from kern_tools.arguments import (
    TEXT_MAX_CHARS,
    VALUE_MAX_BYTES,
    Read,
    read_arguments,
)
from kern_tools.code_tools import RunCode, RunCommand
from kern_tools.codetext import PARSED_MAX_CHARS, parses
from kern_tools.file_tools import ListFiles, ReadFile, WriteFile
from kern_tools.jsontext import REPAIRED_MAX_CHARS
from kern_tools.schema import strict_schema


def read(raw: object, *, bare_code: bool = False) -> Read[RunCode]:
    """Read `raw` as the arguments of `run_code`."""
    return read_arguments(raw, RunCode, code_field="code", bare_code=bare_code)


def code_of(raw: object, *, bare_code: bool = False) -> str:
    """Read `raw` and return the code, which must be there."""
    found = read(raw, bare_code=bare_code)
    assert found.problem is None, found.problem
    assert found.arguments is not None
    return found.arguments.code


UNUSABLE: dict[str, tuple[object, str]] = {
    "nothing": (None, "arguments are empty"),
    "empty text": ("", "arguments are empty"),
    "blank text": (" \n", "arguments are empty"),
    "null": ("null", "arguments are empty"),
    "empty object": ("{}", "`code` is missing"),
    "array": ("[]", "not an array"),
    "string": ('"x"', "not 'x'"),
    "number": ("5", "not 5"),
    "python object": (5.5, "not 5.5"),
    "other object": (object(), "of type object"),
    "two flaws": ('{"code": "a\nb",, }', "not JSON"),
    "a flaw far down": ('{"code": "' + "x" * REPAIRED_MAX_CHARS + '\n"}', "not JSON"),
    "not a number": ("NaN", "NaN is not a JSON number"),
    "infinite inside": ('{"code": "1", "timeout_s": Infinity}', "Infinity"),
    "not JSON": ("print(1)", "not JSON"),
    "cut off": ('{"code": "print(', "ends too early"),
    "two objects": ('{"code": "1"}{"code": "2"}', "not JSON"),
    "property twice": ('{"code": "1", "code": "2"}', "'code' is given twice"),
    "too deep": ("[" * 200_000, "nested too deeply"),
    "too many digits": ('{"code": ' + "9" * 5000 + "}", "too many digits"),
    "not UTF-8": (b'{"code": "\xff"}', "not UTF-8"),
    "unknown property": ('{"code": "1", "image": "alpine"}', "'image'"),
    "unknown null": ({"code": "1", "image": None}, "'image'"),
    "key of no text": ({1: 2}, "Unknown properties: 1."),
    "code twice": ({"code": "1", "script": "2"}, "'script'"),
    "code a number": ('{"code": 5}', "`code` must be a string, not 5"),
    "code a list": ('{"code": ["1"]}', "`code` must be a string, not an array"),
    "code null": ('{"code": null}', "`code` must be a string, not null"),
    "unknown language": ({"code": "1", "language": "ruby"}, "not 'ruby'"),
    "language a number": ({"code": "1", "language": 5}, "`language`"),
    "an array in a string": ('"[1]"', "not '[1]'"),
    "negative timeout": ({"code": "1", "timeout_s": -1}, "or equal to 0.001"),
    "zero timeout": ({"code": "1", "timeout_s": 0}, "or equal to 0.001"),
    "timeout no number": ({"code": "1", "timeout_s": "soon"}, "must be a number"),
    "timeout true": ({"code": "1", "timeout_s": True}, "not true"),
    "timeout nan": ({"code": "1", "timeout_s": float("nan")}, "finite"),
    "timeout huge": ({"code": "1", "timeout_s": 10**400}, "a huge integer"),
    "code too long": ({"code": "x" * (VALUE_MAX_BYTES + 1)}, "1,048,577 bytes"),
    "code too long in UTF-8": ({"code": "é" * 600_000}, "1,200,000 bytes"),
    "arguments too long": (" " * (9 << 20), "more than the"),
    "lone surrogate": ('{"code": "a\\n b\\ud800"}', "at line 2, character 3"),
    "NUL": ('{"code": "print(1)\\u0000"}', "NUL character"),
    "a trailing comma and more": (
        '{"code": "1",} and',
        "are not JSON: expecting property name",
    ),
    "too long to be repaired": (
        '{"code": "1\n2"}'.ljust(REPAIRED_MAX_CHARS + 1),
        "are not JSON: invalid control character at line 1",
    ),
    "two fenced blocks": (
        {"code": "```python\n1\n```\nthen\n```python\n2\n```"},
        "more than one markdown fence",
    ),
}


@pytest.mark.parametrize(("raw", "why"), UNUSABLE.values(), ids=UNUSABLE)
def test_what_cannot_be_used_is_explained(raw: object, why: str) -> None:
    """The model is told what was wrong, and what to send."""
    found = read(raw)
    assert found.arguments is None
    assert found.problem is not None
    assert why in found.problem
    assert "Send one JSON object with `code` (string, required)" in found.problem
    assert len(found.problem) < 1000
    assert found.problem.encode()


REPAIRED: dict[str, tuple[object, str, str]] = {
    "raw newline": ('{"code":"a=1\nprint(a)"}', "a=1\nprint(a)", "raw line breaks"),
    "raw tab": ('{"code":"if 1:\n\tprint(1)"}', "if 1:\n\tprint(1)", "tabs"),
    "trailing comma": ('{"code": "f(1,)",}', "f(1,)", "trailing comma"),
    "comma and newline": ('{"code": "a,\n]",\n}', "a,\n]", "trailing comma"),
    "as long as is repaired": (
        '{"code": "1\n2"}'.ljust(REPAIRED_MAX_CHARS),
        "1\n2",
        "raw line breaks",
    ),
    "comma and raw newline": ('{"code": "1\n2",}', "1\n2", "trailing comma"),
    "fenced JSON": ('```json\n{"code": "1"}\n```', "1", "JSON out of its markdown"),
    "prose and JSON": ('So:\n~~~\n{"code": "1"}\n~~~\nok?', "1", "markdown fence"),
    "encoded twice": (json.dumps('{"code": "1"}'), "1", "decoded the arguments twice"),
    "JSON as code": ({"code": '{"code": "print(1)"}'}, "print(1)", "JSON object"),
    "alias": ('{"script": "1"}', "1", "read 'script' as `code`"),
    "alias in capitals": ('{"Python-Code": "1"}', "1", "as `code`"),
    "fence": ({"code": "```python\nprint(9)\n```"}, "print(9)\n", "markdown fence"),
    "bare fence": ({"code": "```\nprint(9)\n```\n"}, "print(9)\n", "markdown fence"),
    "tilde fence": (
        {"code": '~~~py\nprint("```")\n~~~'},
        'print("```")\n',
        "markdown fence",
    ),
    "fence in CRLF": ({"code": "```py\r\n1\r\n```\r\n"}, "1\r\n", "markdown fence"),
    "longer fence": (
        {"code": "````\ns = '''\n```\n'''\n````"},
        "s = '''\n```\n'''\n",
        "markdown fence",
    ),
    "fence with fences inside": (
        {"code": "```python\ns = '''\n```\nx\n```\n'''\n```"},
        "s = '''\n```\nx\n```\n'''\n",
        "markdown fence",
    ),
    "open fence": ({"code": "```python\nprint(1)"}, "print(1)", "nothing closes"),
    "prose around a fence": (
        {"code": "Here you go:\n\n```python\nprint(1)\n```\nThis prints 1."},
        "print(1)\n",
        "without the text around it",
    ),
    "escaped once too often": (
        {"code": "import math\\nprint(math.pi)"},
        "import math\nprint(math.pi)",
        "one escaping too many",
    ),
    "escaped letter": (
        {"code": "a = '\\u00e9'\\nprint(a)"},
        "a = 'é'\nprint(a)",
        "one escaping too many",
    ),
    "escaped quotes": ({"code": 'print(\\"a\\")'}, 'print("a")', "one escaping"),
    "escaped fence": ({"code": "```py\\nprint(1)\\n```"}, "print(1)\n", "markdown"),
}


@pytest.mark.parametrize(("raw", "code", "how"), REPAIRED.values(), ids=REPAIRED)
def test_a_safe_repair_is_made_and_stated(raw: object, code: str, how: str) -> None:
    """The code meant is run, and the model can read what was changed."""
    assert code_of(raw) == code
    assert how in "; ".join(read(raw).repairs)


KEPT: dict[str, str] = {
    "name python": "python = 3\nprint(python)",
    "backticks at the end": "`x`",
    "fence in a string": "print('```')",
    "escape in a string": r"s='a\nb'; print(len(s))",
    "operators like a fence": "a = [\n~~~\n5,\n~~~\n7]",
    "escaped escape": r"s='a\\nb'; print(len(s))",
    "regular expression": r"import re; print(re.findall('\d\n', '1\n'))",
    "readme in a string": 's = """\n```python\nprint(1)\n```\n"""\nprint(s)',
    "readme in broken code": 's = """\n```python\nprint(1)\n```\n"""\nprint(s',
    "broken code": "print(1",
    "broken with escape": r"print('a\n'",
    "a dict": '{"a": 1}["a"]',
    "a dict that is not arguments": '{"code": "print(1)", "other": 2}',
    "tilde operators": "x = 1\n~~~x",
    "blank": "",
    "only newlines": "\n\n",
    "prose around code that is broken": "So:\n```python\nprint(1\n```\nok?",
    "prose around two scripts": "So:\n```sh\nls\n```\nor\n```sh\nls -a\n```",
    "fence in code that runs": 'x = """\n```\ny\n```\n"""',
    "fence amid broken code": "s = 'a'\n```\nprint(1\n```\ns = (",
    "carriage returns": "a = 1\r\nb = 2\r\n",
    "indented": "  x = 1\n  y = 2\n",
}


@pytest.mark.parametrize("code", KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("language", [None, "python"])
def test_code_without_wrapping_is_kept(code: str, language: str | None) -> None:
    """Nothing is stripped from code that did not come wrapped."""
    given = {"code": code, "language": language}
    assert code_of(given) == code_of(json.dumps(given)) == code
    assert read(given).repairs == ()


def test_a_shell_script_with_a_heredoc_is_kept() -> None:
    """Fences inside a script that is not Python are its own."""
    script = "cat > README.md <<'EOF'\n```python\nprint(1)\n```\nEOF\n"
    assert code_of({"code": script, "language": "bash"}) == script


def test_a_fence_says_the_language_where_nobody_else_does() -> None:
    """A script in a bash fence is not run as Python, unless that was asked for."""
    script = "```bash\nls\n```"
    found = read({"code": script})
    assert found.arguments is not None
    assert found.arguments.language == "bash"
    assert "ran it as bash, as its fence says" in found.repairs
    asked = read({"code": script, "language": "sh"})
    assert asked.arguments is not None
    assert asked.arguments.language == "sh"


@pytest.mark.parametrize(
    ("named", "language"), [("py", "python"), ("JavaScript", "node"), ("SH", "sh")]
)
def test_a_language_by_another_name_is_understood(named: str, language: str) -> None:
    """The usual names of a language lead to ours, and that is stated."""
    found = read({"code": "1", "lang": named})
    assert found.arguments is not None
    assert found.arguments.language == language
    assert any(named in repair for repair in found.repairs)


@pytest.mark.parametrize(
    ("written", "seconds"), [("5", 5), ("0.5", 0.5), (" 7 ", 7), (5, 5), (2.5, 2.5)]
)
def test_a_timeout_may_be_written_as_text(written: object, seconds: float) -> None:
    """A number in quotes is the number, and that is stated."""
    found = read({"code": "1", "timeout": written})
    assert found.arguments is not None
    assert found.arguments.timeout_s == seconds
    stated = "; ".join(found.repairs)
    assert isinstance(written, str) == ("read `timeout_s`" in stated)


def test_null_is_the_default() -> None:
    """Strict schemas make models write null for what they leave out."""
    found = read({"code": "1", "language": None, "timeout_s": None})
    assert found == Read(RunCode(code="1"))


def test_a_whole_number_may_have_a_decimal_point() -> None:
    """JSON has one kind of number; 5.0 is an integer."""
    found = read_arguments('{"path": "a", "offset": 5.0, "limit": "3"}', ReadFile)
    assert found.arguments == ReadFile(path="a", offset=5, limit=3)
    assert read_arguments('{"path": "a", "offset": 5.5}', ReadFile).arguments is None


def test_several_flaws_are_told_at_once() -> None:
    """A model can put everything right in one go."""
    problem = read({"code": 5, "timeout_s": -1, "language": "x"}).problem
    assert problem is not None
    assert all(f"`{name}`" in problem for name in ("code", "timeout_s", "language"))


def test_unknown_properties_are_listed_within_bounds() -> None:
    """Ten thousand invented names make a short answer."""
    problem = read({f"key{number}" * 9: 1 for number in range(10_000)}).problem
    assert problem is not None
    assert "and 9992 more" in problem
    assert len(problem) < 1500


@pytest.mark.parametrize("raw", ["", None, "{}", "null", b"", {}])
def test_a_tool_without_required_properties_takes_nothing(raw: object) -> None:
    """Servers send all kinds of nothing for a call without arguments."""
    assert read_arguments(raw, ListFiles).arguments == ListFiles()


def test_an_argument_model_is_taken_as_it_is() -> None:
    """A framework may have validated already; what it left unset stays unset."""
    given = RunCode(code="1", timeout_s=3)
    taken = read(given).arguments
    assert taken == given
    assert taken is not None
    assert taken.model_fields_set == {"code", "timeout_s"}


@pytest.mark.parametrize("model", [ReadFile, WriteFile, ListFiles])
def test_a_path_with_nul_is_refused(model: type[Any]) -> None:
    """No file name has a NUL, so the place of it is told."""
    given = {"path": "a\0b", "content": "x"}
    fields = {name: given[name] for name in model.model_fields if name in given}
    problem = read_arguments(fields, model).problem
    assert problem is not None
    assert "holds a NUL at character 2" in problem


@pytest.mark.parametrize(
    "text", ["print(1)", "42", '"x"', "[1]", '{"a": 1}', "```py\n1\n```", "null", "NaN"]
)
def test_bare_code_is_taken_only_where_asked_for(text: str) -> None:
    """Text that holds no arguments is code, if the developer says so."""
    assert read(text).arguments is None
    assert code_of(text, bare_code=True) in (text, "1\n")


def test_bare_code_does_not_hide_broken_arguments() -> None:
    """JSON that was cut off is not run as code; JSON that is whole is read as such."""
    assert read('{"code": "print(', bare_code=True).arguments is None
    assert read('{"code": "1", "image": "x"}', bare_code=True).arguments is None
    assert code_of('{"code": "print(1)"}', bare_code=True) == "print(1)"


DEEP = {
    "parentheses": "(" * PARSED_MAX_CHARS,
    "minus": "-" * (PARSED_MAX_CHARS - 1) + "1",
    "attributes": "x" + ".y" * (PARSED_MAX_CHARS // 3),
    "calls": "x" + "()" * (PARSED_MAX_CHARS // 3),
    "not": "not " * (PARSED_MAX_CHARS // 5) + "1",
    "sum": "1" + "+1" * (PARSED_MAX_CHARS // 3),
}


REPAIRS: dict[str, tuple[object, type[Any], str, str]] = {
    "nothing": ("", ListFiles, "path", "read empty arguments as {}"),
    "bare": ("print(1)", RunCode, "code", "took the whole text as the code"),
    "twice": (
        json.dumps(json.dumps({"code": "1"})),
        RunCode,
        "code",
        "decoded the arguments twice",
    ),
}


@pytest.mark.parametrize("name", REPAIRS)
def test_a_repair_is_told_in_these_words(name: str) -> None:
    """They stand behind `note: `, so that they begin small and end without a stop."""
    raw, model, field, told = REPAIRS[name]
    found = read_arguments(raw, model, code_field=field, bare_code=name == "bare")
    assert found.repairs == (told,)


def test_what_is_wrong_is_told_in_these_words() -> None:
    """A sentence, then what to send, line by line."""
    problem = read("").problem
    assert problem is not None
    assert problem.split("\n")[0] == "The arguments are empty."


@pytest.mark.parametrize(
    ("code", "where"),
    [
        ("\ud800", "line 1, character 1"),
        ("\n\ud800", "line 2, character 1"),
        ("\nab\ncd\ud800e\n\nf", "line 3, character 3"),
    ],
)
def test_a_place_in_a_text_is_counted_from_one(code: str, where: str) -> None:
    """Lines before it count, and none behind it."""
    assert read({"code": code}).problem is not None
    assert f"at {where}." in str(read({"code": code}).problem)


@pytest.mark.parametrize("flaw", ["\0", "\ud800"], ids=["NUL", "surrogate"])
def test_a_flaw_of_the_text_comes_before_its_wrapping(flaw: str) -> None:
    """What no repair can make code is not taken apart first."""
    fenced = f"```python\n1{flaw}\n```\nthen\n```python\n2\n```"
    assert "line 2, character 2" in str(read({"code": fenced}).problem)


def test_a_command_is_no_python() -> None:
    """What a shell reads as it stands is not unescaped to please another language."""
    command = r"x=1\nx=2"
    found = read_arguments({"command": command}, RunCommand, code_field="command")
    assert found.arguments is not None
    assert (found.arguments.command, found.repairs) == (command, ())


@pytest.mark.parametrize(("count", "more"), [(8, ""), (9, " and 1 more")])
def test_eight_unknown_names_are_listed(count: int, more: str) -> None:
    """The ones after them are counted."""
    raw = {"code": "1", **{f"n{number}": 1 for number in range(count)}}
    listed = ", ".join(f"'n{number}'" for number in range(8))
    problem = str(read(raw).problem)
    assert problem.split("\n")[0] == f"Unknown properties: {listed}{more}."


def test_the_longest_text_that_is_read_is_read() -> None:
    """The bound is the last length, not the first that is too long."""
    text = json.dumps({"code": "1"}).ljust(TEXT_MAX_CHARS)
    assert code_of(text) == "1"
    assert "more than the" in str(read(f"{text} ").problem)


UNFENCED = "took the code out of its markdown fence"


@pytest.mark.parametrize(
    "raw",
    [
        {"code": "```python\n1\n```"},
        {"code": "```\n1\n```"},
        {"code": "```bash\nls\n```", "language": "bash"},
    ],
    ids=repr,
)
def test_a_fence_that_says_what_is_known_is_no_second_repair(raw: object) -> None:
    """A language is told only where the fence decided it."""
    assert read(raw).repairs == (UNFENCED,)


def test_bare_code_has_to_be_asked_for() -> None:
    """Text that holds no arguments is no code by itself."""
    assert read_arguments("print(1)", RunCode, code_field="code").arguments is None


@pytest.mark.parametrize(
    "text",
    ['  {"code": "1"}', '```json\n{"code": "1"}\n```', '~~~\n{"code": "1"}\n~~~'],
)
def test_arguments_in_place_of_the_code_are_read(text: str) -> None:
    """Blanks before them and a fence around them change nothing."""
    assert code_of({"code": text}) == "1"


@pytest.mark.parametrize(
    "text", ['{"language": "sh"}', '{"code": "1", "script": "2"}', '{"x": 1}', "{}"]
)
def test_an_object_that_is_no_call_is_code(text: str) -> None:
    """A dict is an expression like any other."""
    assert code_of({"code": text}) == text


def test_what_stands_beside_nested_arguments_holds() -> None:
    """Null is nothing said; anything else was meant."""
    inner = json.dumps({"code": "ls", "language": "sh", "timeout_s": 9})
    found = read({"code": inner, "language": None, "timeout_s": 5}).arguments
    assert found == RunCode(code="ls", language="sh", timeout_s=5)


def test_nested_arguments_may_be_as_long_as_code() -> None:
    """The bound is the last length that is read."""
    text = json.dumps({"code": "1"}).ljust(VALUE_MAX_BYTES)
    assert code_of({"code": text}) == "1"


def test_the_first_of_several_flaws_is_where_it_says() -> None:
    """The place is that of the first character that no language takes."""
    assert "line 1, character 2" in str(read({"code": "a\0b\0"}).problem)


def test_each_flaw_has_a_line() -> None:
    """And what to send comes after them."""
    lines = str(read({"timeout_s": "soon"}).problem).split("\n")
    assert lines[:2] == [
        "`timeout_s` must be a number, not 'soon'.",
        "`code` is missing.",
    ] or lines[:2] == [
        "`code` is missing.",
        "`timeout_s` must be a number, not 'soon'.",
    ]
    assert lines[2].startswith("Send one JSON object with ")


def test_each_text_that_cannot_be_run_has_a_line() -> None:
    """Two properties, two sentences."""
    problem = str(read({"code": "a\0", "language": "\ud800"}).problem)
    assert [line.split(" ")[0] for line in problem.split("\n")[:2]] == [
        "`code`",
        "`language`",
    ]


def test_several_fences_are_told_in_a_sentence() -> None:
    """It begins with a capital and ends with a stop."""
    code = "```python\n1\n```\nthen\n```python\n2\n```"
    first = str(read({"code": code}).problem).split("\n")[0]
    assert first.startswith("The code is wrapped in more than one markdown fence, ")
    assert first.endswith("which part to run.")


def test_only_so_many_names_are_looked_up() -> None:
    """Of the sixty-fifth on, a name is unknown unless it is the property's own."""
    unknown = {f"n{number}": 1 for number in range(64)}
    assert "and 57 more." in str(read({**unknown, "lang": "sh"}).problem)
    assert "and 56 more." in str(read({**unknown, "language": "sh"}).problem)


@pytest.mark.parametrize("code", DEEP.values(), ids=DEEP)
def test_hostile_nesting_is_left_alone(code: str) -> None:
    """Code that could exhaust the host's parser is passed on as it is."""
    once = f"{code}\\n1"
    assert code_of({"code": once}) == once


def test_long_code_is_not_parsed_on_the_host() -> None:
    """The host answers before it parses megabytes."""
    assert parses("x" * (PARSED_MAX_CHARS + 1)) is None
    long = "print(1)\\n" * PARSED_MAX_CHARS
    assert code_of({"code": long}) == long


LONG = 1 << 20
HOSTILE = {
    "fence line without end": "```" + "a" * (LONG - 4) + "`",
    "fence lines": "```\n" * (LONG // 4),
    "fence line of blanks": "```" + " " * (LONG - 4) + "`",
    "backslashes": "\\" * LONG,
    "quotes": '"' * LONG,
    "braces": "{" * LONG,
    "commas": '{"a":' + "," * (LONG - 5),
}


@pytest.mark.parametrize("code", HOSTILE.values(), ids=HOSTILE)
def test_a_megabyte_of_marks_is_kept(code: str) -> None:
    """Looking for a wrapping takes time linear in the text, whatever it is made of."""
    assert code_of({"code": code}) == code
    assert read(code * 2).arguments is None


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
MARKS = ["```", "~~~", "\n", "\\n", '\\"', '"', "'''", "{", "}", ",", ":", "\\", " "]
WORDS = ["python", "bash", "print(1)", '"code"', "null", "NaN", "\r", "\0", "\ud800"]
PIECES = st.lists(st.sampled_from([*MARKS, *WORDS]), max_size=30).map("".join)
ANYTHING = (
    PIECES
    | st.text(st.characters())
    | st.binary()
    | JSON_VALUES
    | st.fixed_dictionaries(
        {}, optional={"code": PIECES | JSON_VALUES, "language": PIECES | JSON_VALUES}
    )
)


@given(raw=ANYTHING, bare_code=st.booleans())
def test_nothing_a_model_writes_raises(raw: object, bare_code: bool) -> None:
    """There are arguments or there is a problem, and the words can be sent."""
    found = read(raw, bare_code=bare_code)
    assert (found.arguments is None) != (found.problem is None)
    words = "".join([*found.repairs, found.problem or ""])
    assert words.encode().decode() == words
    assert len(words) < 2000


@given(code=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_code_arrives_byte_for_byte(code: str) -> None:
    """Whatever is written without a wrapping arrives unchanged, by text or by dict."""
    given = {"code": code, "language": "sh", "timeout_s": 2.5}
    for raw in (given, json.dumps(given), json.dumps(given, ensure_ascii=False)):
        found = read(raw)
        assert found.arguments == RunCode(code=code, language="sh", timeout_s=2.5)
        assert found.repairs == ()


@given(content=st.text(st.characters(exclude_categories=["Cs"])))
def test_content_arrives_byte_for_byte(content: str) -> None:
    """A file's content is never repaired, NUL and line ends included."""
    given = {"path": "a.txt", "content": content}
    found = read_arguments(json.dumps(given), WriteFile)
    assert found == Read(WriteFile(path="a.txt", content=content))


@given(code=PIECES)
def test_python_that_parses_is_never_changed(code: str) -> None:
    """A repair needs code that cannot run as it is."""
    if "\0" not in code and "\ud800" not in code and parses(code) and "{" not in code:
        assert code_of({"code": code}) == code


class Nested(BaseModel):
    """A model that no flat schema can describe."""

    inner: RunCode


class Span(BaseModel):
    """A model whose properties have to fit together."""

    first: int
    last: int

    @model_validator(mode="after")
    def in_order(self) -> Self:
        """Refuse what ends before it begins."""
        if self.last < self.first:
            raise ValueError("`last` must not be before `first`")
        return self


def test_properties_that_do_not_fit_together_are_told_in_the_words_of_their_model() -> (
    None
):
    """None of them is wrong by itself."""
    found = read_arguments({"first": 2, "last": 1}, Span)
    assert str(found.problem).startswith("`last` must not be before `first`.")


class Either(BaseModel):
    """A property of two types."""

    value: int | str


@pytest.mark.parametrize("model", [Nested, Either])
def test_a_schema_that_is_not_flat_is_refused(model: type[BaseModel]) -> None:
    """Whoever writes a tool learns at once what servers would refuse later."""
    with pytest.raises(TypeError, match="is not one plain type"):
        strict_schema(model)
