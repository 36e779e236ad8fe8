"""Schemas: languages of byte strings, and the automata that decide them."""
