"""Tokens of OpenAI's vocabularies, counted offline: llama-index-core ships them.

`tiktoken` fetches a vocabulary from the network unless it is found in a folder, and
checks it against a hash of its own. Source: `llama_index.core.utils` of 0.14.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import tiktoken

NAMES: tuple[str, ...] = ("o200k_base", "cl100k_base")
"""Of GPT-4o and later, and of GPT-4."""


def tokens_in(text: str) -> dict[str, int]:
    """Count the tokens of a text, by the name of the vocabulary."""
    return {name: len(_encoding(name).encode_ordinary(text)) for name in NAMES}


@cache
def _encoding(name: str) -> tiktoken.Encoding:
    spec = find_spec("llama_index.core")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    (home,) = spec.submodule_search_locations
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(Path(home) / "_static" / "tiktoken_cache")
    try:
        return tiktoken.get_encoding(name)
    finally:
        if before is None:
            del os.environ["TIKTOKEN_CACHE_DIR"]
        else:
            os.environ["TIKTOKEN_CACHE_DIR"] = before
