"""Run tests as on a machine that is many times slower or faster: see ``python -m tests.paced``."""
