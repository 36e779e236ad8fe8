"""Small language models, bit for bit the same everywhere, inside limits that the caller sets."""
