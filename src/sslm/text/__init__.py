"""Text: vocabularies, tokenizing, detokenizing, and chat templates."""
