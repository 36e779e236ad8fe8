"""Requests as other programs write them, and the answers that they get."""
