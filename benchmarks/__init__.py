"""Programs that measure or verify what the documents claim; run one with ``python -m``."""
