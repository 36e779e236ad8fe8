"""Conversations with a model, of which each request computes only what is new."""
