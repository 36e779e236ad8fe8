"""Saved sequences and conversations; see docs/format.md, 12 and 13."""
