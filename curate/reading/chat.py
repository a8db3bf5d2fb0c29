"""Find the text of a problem in a prompt, which may be a conversation in one of the usual forms.

a text, such as that of a statement
[{"role": "user", "content": "..."}]              TRL, verl and chat datasets; content may be a list of parts
[{"from": "human", "value": "..."}]               ShareGPT
{"messages": [...]}                               a conversation inside an object
'[{"role": "user", "content": "..."}]'            any of these as JSON text
"""

import json
from typing import Any

_ROLES, _CONTENTS = ("role", "from"), ("content", "value", "text")
_USERS, _SYSTEMS = ("user", "human"), ("system", "developer")
_INSIDE = ("messages", "conversations", "conversation", "prompt")
_MAX_NESTED = 4


def prompt_texts(value: Any, *, nested: int = 0) -> list[str] | None:
    """Return the texts of a prompt that may state the problem; None if the value is neither a text nor a conversation.

    value   a prompt in one of the forms above
    nested  how many times the prompt was inside another value

    The texts are the text itself, or the user's messages of a conversation. If there are none, they are the system
    prompts; without these, the list is empty. What a model answers never counts.
    """
    if isinstance(value, str):
        parsed = _parsed(value) if nested < _MAX_NESTED else None
        inside = None if parsed is None else prompt_texts(parsed, nested=nested + 1)
        return [value] if inside is None else inside
    if isinstance(value, dict) and nested < _MAX_NESTED:
        inside = next((value[name] for name in _INSIDE if value.get(name)), None)
        return None if inside is None else prompt_texts(inside, nested=nested + 1)
    if isinstance(value, list) and value and all(_is_message(message) for message in value):
        by_users = [text for message in value if (text := _text_by(_USERS, message))]
        return by_users or [text for message in value if (text := _text_by(_SYSTEMS, message))]
    return None


def _parsed(text: str) -> Any:
    """Return the value of JSON text that may be a conversation; None for any other text."""
    if text.lstrip()[:1] not in ("[", "{"):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and any(isinstance(value.get(name), str) for name in _ROLES)


def _text_by(roles: tuple[str, ...], message: dict[str, Any]) -> str:
    """Return the text of a message if its author has one of these roles, and otherwise an empty text."""
    role = next(message[name] for name in _ROLES if isinstance(message.get(name), str))
    content = next((message[name] for name in _CONTENTS if message.get(name)), "")
    if role.lower() not in roles:
        return ""
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else part for part in content]
        return "\n".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""
