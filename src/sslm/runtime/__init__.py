"""Sequences and their memory: the token loop sees ids, never strings or floats."""
