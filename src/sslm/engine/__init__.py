"""The facade: open an artifact, choose a backend, generate text."""
