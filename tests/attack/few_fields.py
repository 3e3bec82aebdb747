"""Models of which an example has a few fields of any value, and leaves the others out.

With all fields drawn each time most of a search goes into drawing; with some of them
it takes half the time and meets the same values in the same company.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from pydantic import BaseModel

M = TypeVar("M", bound=BaseModel)
Fields = Mapping[str, SearchStrategy[object]]


@st.composite
def few_fields(draw: DrawFn, model: type[M], always: Fields, sometimes: Fields) -> M:
    """Build models.

    Args:
        draw: Given by Hypothesis.
        model: What is built.
        always: What each field may be that every example has.
        sometimes: The same of those of which an example has about five, or all.
    """
    letters = {chr(ord("A") + number): name for number, name in enumerate(sometimes)}
    drawn = draw(st.text("".join(letters), max_size=2 * len(letters)))
    drawn_names = {letters[letter] for letter in drawn}
    chosen = {name: sometimes[name] for name in sometimes if name in drawn_names}
    values = {name: draw(each) for name, each in {**always, **chosen}.items()}
    return model.model_validate(values)
