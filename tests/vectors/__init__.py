"""Test vectors of the arithmetic, computed with Python integers from docs/arithmetic.md alone."""
