"""Sequences as bytes, and back."""
