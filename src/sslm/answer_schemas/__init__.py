"""Schemas of answers: what callers describe, compiled, kept, and bound to a model."""
