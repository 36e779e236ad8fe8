"""The options that commands share, each declared once."""
