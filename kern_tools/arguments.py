"""Model-written arguments: validated, repaired where it is safe, or explained."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeGuard, TypeVar

from pydantic import BaseModel, ValidationError

from .codetext import LANGUAGES_MEANT, repair_code
from .jsontext import NotJson, is_object, read_json
from .properties import property_meant, put_right, quoted, wanted, words

VALUE_MAX_BYTES = 1 << 20
"""The most that one text value may hold, as UTF-8."""

TEXT_MAX_CHARS = 8 << 20
"""Longer argument text is refused unread; 1 MiB, every character escaped, fits."""

_NAMES_TRIED = 64
_SHELL = "bash"  # what code is where there is no property to say
_PROPERTY_START = re.compile(r'\s*\{\s*"(\w+)"\s*:')

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Read(Generic[M]):
    """Arguments as they were read.

    Attributes:
        arguments: The validated arguments, or None where they cannot be used.
        repairs: What was changed to read them, each a clause for the model.
        problem: What was wrong and what to send, or None.
    """

    arguments: M | None = None
    repairs: tuple[str, ...] = ()
    problem: str | None = None


class _Unusable(Exception):
    """What is wrong, in words for the model."""


def read_arguments(
    raw: object,
    model: type[M],
    *,
    code_field: str | None = None,
    bare_code: bool = False,
) -> Read[M]:
    """Read the arguments of one tool call, whatever a model wrote.

    Args:
        raw: JSON text or bytes, a mapping, an argument model, None, or anything else.
        model: The argument model: flat, strict, extra properties forbidden.
        code_field: The property that holds code, whose wrapping is undone.
        bare_code: Text that holds no arguments is the code itself.

    Returns:
        The validated arguments with the repairs they needed, or the problem. Nothing
        is raised for anything in `raw`.
    """
    reader = _Reader(model, code_field, bare_code)
    try:
        return Read(reader.read(raw), tuple(reader.repairs))
    except _Unusable as error:
        return Read(problem=f"{error}\n{wanted(model)}")


class _Reader(Generic[M]):
    """One reading; `repairs` fills while it goes on."""

    def __init__(self, model: type[M], code_field: str | None, bare: bool) -> None:
        self.model = model
        self.fields = model.model_fields
        self.code_field = code_field
        self.bare = bare and code_field is not None
        self.language = None if "language" in self.fields else _SHELL
        self.repairs: list[str] = []

    def read(self, raw: object) -> M:
        values = self._renamed(self._mapping(raw))
        if self.code_field is not None:
            values = self._with_code(values, self.code_field)
        flaws = [
            flaw for name, value in values.items() if (flaw := self._flaw(name, value))
        ]
        if flaws:
            raise _Unusable("\n".join(flaws))
        return self._validated(values)

    def _mapping(self, raw: object) -> dict[Any, Any]:
        if _is_mapping(raw):
            return dict(raw)
        if isinstance(raw, BaseModel):
            return raw.model_dump(exclude_unset=True)
        if isinstance(raw, (bytes, bytearray)):
            raw = _decoded(bytes(raw))
        if raw is None:
            return self._nothing()
        if isinstance(raw, str):
            return self._from_text(raw)
        raise _Unusable(f"The arguments must be one JSON object, not {quoted(raw)}.")

    def _nothing(self) -> dict[str, Any]:
        if any(field.is_required() for field in self.fields.values()):
            raise _Unusable("The arguments are empty.")
        self.repairs.append("read empty arguments as {}")
        return {}

    def _from_text(self, text: str) -> dict[Any, Any]:
        if len(text) > TEXT_MAX_CHARS:
            raise _Unusable(
                f"The arguments are {len(text):,} characters long, more than the "
                f"{TEXT_MAX_CHARS:,} that are read."
            )
        if not text.strip():
            return self._nothing()
        try:
            value, repairs = read_json(text)
        except NotJson as error:
            return self._bare(text, f"The arguments are not JSON: {error}.")
        if isinstance(value, str) and not self.bare:
            value, repairs = _twice_encoded(value, repairs)
        if is_object(value) and not (self.bare and self._foreign(value)):
            self.repairs.extend(repairs)
            return value
        if value is None and not self.bare:
            return self._nothing()
        return self._bare(
            text, f"The arguments must be one JSON object, not {quoted(value)}."
        )

    def _foreign(self, values: dict[str, Any]) -> bool:
        return not any(self._property(name) == self.code_field for name in values)

    def _bare(self, text: str, problem: str) -> dict[str, Any]:
        start = _PROPERTY_START.match(text)
        if not self.bare or (start and self._property(start[1])):
            raise _Unusable(problem)
        self.repairs.append("took the whole text as the code")
        return {str(self.code_field): text}

    def _property(self, name: object) -> str | None:
        return property_meant(name, self.model)

    def _renamed(self, values: dict[Any, Any]) -> dict[str, Any]:
        renamed: dict[str, Any] = {}
        unknown: list[object] = []
        for position, (name, value) in enumerate(values.items()):
            is_tried = name in self.fields or position < _NAMES_TRIED
            meant = self._property(name) if is_tried else None
            if meant is None or (meant != name and (meant in values | renamed)):
                unknown.append(name)
                continue
            if meant != name:
                self.repairs.append(f"read {quoted(name)} as `{meant}`")
            renamed[meant] = value
        if unknown:
            raise _Unusable(_unknown(unknown))
        return renamed

    def _with_code(self, values: dict[str, Any], field: str) -> dict[str, Any]:
        values = self._known_language(self._nested(values, field))
        text, language = values.get(field), values.get("language", self.language)
        if not isinstance(text, str) or self._flaw(field, text):
            return values
        if not isinstance(language, (str, type(None))):
            return values
        code = repair_code(text, language)
        if code.problem is not None:
            raise _Unusable(f"{code.problem[0].upper()}{code.problem[1:]}.")
        if not code.repairs:
            return values
        self.repairs.extend(code.repairs)
        changed = {**values, field: code.text}
        fenced = code.language not in (None, language or "python")
        if fenced and "language" in self.fields:
            self.repairs.append(f"ran it as {code.language}, as its fence says")
            changed["language"] = code.language
        return changed

    def _nested(self, values: dict[str, Any], field: str) -> dict[str, Any]:
        """Use a JSON object of arguments that stands where the code belongs."""
        text = values.get(field)
        if not isinstance(text, str) or len(text) > VALUE_MAX_BYTES:
            return values
        if not text.lstrip().startswith(("{", "```", "~~~")):
            return values
        try:
            found, _ = read_json(text)
        except NotJson:
            return values
        if not is_object(found) or not found:
            return values
        inner = {self._property(name): value for name, value in found.items()}
        if None in inner or len(inner) < len(found) or field not in inner:
            return values
        self.repairs.append(f"read the JSON object in `{field}` as the arguments")
        outer = {k: v for k, v in values.items() if k != field and v is not None}
        return {str(name): value for name, value in inner.items()} | outer

    def _known_language(self, values: dict[str, Any]) -> dict[str, Any]:
        named = values.get("language")
        if not isinstance(named, str):
            return values
        known = LANGUAGES_MEANT.get(named.strip().lower())
        if known in (None, named):
            return values
        self.repairs.append(f"read the language {quoted(named)} as {known}")
        return {**values, "language": known}

    def _flaw(self, name: str, value: object) -> str | None:
        """What keeps a text from being run or written, or None."""
        if not isinstance(value, str):
            return None
        size = len(value)
        if not value.isascii():
            try:
                size = len(value.encode())
            except UnicodeEncodeError as error:
                where = _where(value, error.start)
                return f"`{name}` has half a surrogate pair, which is no text, {where}."
        if size > VALUE_MAX_BYTES:
            return (
                f"`{name}` has {size:,} bytes; at most {VALUE_MAX_BYTES:,} are taken."
            )
        if name == self.code_field and "\0" in value:
            where = _where(value, value.index("\0"))
            return f"`{name}` has a NUL character, which no language takes, {where}."
        return None

    def _validated(self, values: dict[str, Any]) -> M:
        try:
            return self.model.model_validate(values)
        except ValidationError as error:
            mended, repairs = put_right(error, values, self.model)
            flaws = words(error, self.model)
        if repairs:
            try:
                arguments = self.model.model_validate(mended)
            except ValidationError as error:
                flaws = words(error, self.model)
            else:
                self.repairs.extend(repairs)
                return arguments
        raise _Unusable("\n".join(flaws))


def _is_mapping(raw: object) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(raw, Mapping)


def _twice_encoded(
    value: str, repairs: tuple[str, ...]
) -> tuple[object, tuple[str, ...]]:
    try:
        inner, more = read_json(value)
    except NotJson:
        return value, repairs
    if not is_object(inner):
        return value, repairs
    return inner, (*repairs, *more, "decoded the arguments twice")


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        message = f"The arguments are not UTF-8: {error.reason} at byte {error.start}."
        raise _Unusable(message) from error


def _where(text: str, position: int) -> str:
    before = text[:position]
    line, column = before.count("\n") + 1, position - before.rfind("\n")
    return f"at line {line}, character {column}"


def _unknown(names: list[object]) -> str:
    shown = ", ".join(quoted(name) for name in names[:8])
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"Unknown properties: {shown}{more}."
