"""Bound a text, so that evidence about many rows stays small, in a way that readers see."""

EXCERPT_BYTES = 4096


def excerpt(text: str, *, max_bytes: int = EXCERPT_BYTES) -> str:
    """Return the text, or its beginning and a last line that says how long the whole text is.

    max_bytes: maximum length of the excerpt in UTF-8, without that last line

    Half surrogate pairs, which cannot be encoded, become escapes such as \\udc80.
    """
    # No character takes less than one byte, so only the beginning of a huge text has to be encoded.
    encoded = text[: max_bytes + 1].encode("utf-8", "backslashreplace")
    if len(encoded) <= max_bytes:
        return encoded.decode()
    return f"{encoded[:max_bytes].decode('utf-8', 'ignore')}\n[... cut: {len(text):,} characters in all]"
