"""Fuzzing of everything that reads what others wrote; ``python -m fuzz --list`` names the targets.

A target is a function of bytes that may end in named errors of stated families and in nothing
else. It needs nothing but the package, so that every saved input can be replayed anywhere; only
the search for new inputs needs atheris (``pip install sslm[fuzz]``).
"""
