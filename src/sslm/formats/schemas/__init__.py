"""Compiled schemas; see docs/format.md, 16."""
