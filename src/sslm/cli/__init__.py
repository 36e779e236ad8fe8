"""The command line: one module per command, each of which parses, calls and prints."""

from sslm.cli.app import main

__all__ = ["main"]
