"""Requests that become part of a conversation as a whole, or not at all."""
