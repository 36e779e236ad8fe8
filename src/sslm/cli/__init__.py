"""The command line: one module per command, each of which parses, calls and prints."""

from sslm.cli.entry import main

__all__ = ["main"]
