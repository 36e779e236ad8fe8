"""What callers decide about the choice of tokens: checked, in integers."""
