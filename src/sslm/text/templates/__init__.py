"""Chat templates: Jinja programs that turn a conversation into a prompt, within bounds."""
