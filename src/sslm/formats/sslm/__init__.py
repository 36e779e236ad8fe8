"""The sections of .sslm files; see docs/format.md."""
