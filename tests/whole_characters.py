"""Where texts of UTF-8 may be cut, for models of truth that share no code with what they check."""


def whole_characters(content: bytes) -> str:
    """Return the longest beginning that is UTF-8."""
    for size in range(len(content), 0, -1):
        try:
            return content[:size].decode()
        except UnicodeDecodeError:
            continue
    return ""
