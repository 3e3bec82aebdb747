"""The keys by which a pool tells conversations apart, and the names made of them."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import NamedTuple
from uuid import UUID

from .faults import ConfigError, startup_fault

KEY_MAX_CHARS = 1024
_ID_CHARS = 32
_NOTHING = ("None", "null", "undefined")
"""What a missing id reads once it was made text; all callers without one would meet."""


class Conversation(NamedTuple):
    """Who talks: an id that is unique within its tenant."""

    tenant: str | None
    key: str


def conversation_of(key: object, tenant: object = None) -> Conversation:
    """Check what a caller gave as the conversation's key.

    Args:
        key: The framework's own id: text, or a number or UUID, which count as theirs.
        tenant: Whose conversation it is; None where there are no tenants.

    Returns:
        The conversation. There is none by default: without a key, callers that have
        nothing to do with each other would share files.

    Raises:
        ConfigError: `option` is `conversation` or `tenant`, and `fault` says the same
            as `startup_failed`.
    """
    whose = None if tenant is None else _checked("tenant", tenant)
    return Conversation(whose, _checked("conversation", key))


class Namer:
    """Makes names that do not show the keys they are made of.

    Args:
        secret: Keeps others from recognising keys they can guess; the same one gives
            the same names again, in another process too.
    """

    def __init__(self, secret: str | bytes) -> None:
        self._secret = secret.encode() if isinstance(secret, str) else secret

    def name(self, conversation: Conversation) -> str:
        """Give the conversation's name: 32 hexadecimal digits."""
        said = json.dumps(list(conversation)).encode()
        mac = hmac.new(b"kern-tools:" + self._secret, said, hashlib.sha256)
        return mac.hexdigest()[:_ID_CHARS]


def refused_key(option: str, message: str, remedy: str = "") -> ConfigError:
    """Make the error for a call whose conversation is not known.

    Args:
        option: `conversation` or `tenant`; the reason of the fault too.
        message: What is wrong.
        remedy: What to do, for the error alone.
    """
    error = ConfigError(message + remedy, option=option)
    error.fault = startup_fault(option, message)
    return error


def _checked(option: str, given: object) -> str:
    numbered = isinstance(given, int | UUID) and not isinstance(given, bool)
    key = str(given) if numbered else given
    why = _objection(key)
    if why is None:
        assert isinstance(key, str)
        return key
    shown = repr(given)[:80]
    message = f"{option}={shown} {why}, so that no sandbox is its own"
    raise refused_key(option, message, "; give the id itself")


def _objection(key: object) -> str | None:
    if key is None or key == "":
        return "names nobody"
    if not isinstance(key, str):
        return "is not a str"
    if not key.strip() or key in _NOTHING:
        return "stands for no id"
    if len(key) > KEY_MAX_CHARS:
        return f"is longer than {KEY_MAX_CHARS:,} characters"
    if any("\ud800" <= char <= "\udfff" or char == "\0" for char in key):
        return "holds a NUL or a lone surrogate"
    return None
