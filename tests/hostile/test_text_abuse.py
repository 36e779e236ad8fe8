"""The corpus of abusive texts and templates: literal or refused, each in little time and memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.text_corpus import FIELDS, MESSAGES, TEMPLATES

ROOT = Path(__file__).parents[2]
TIME_LIMIT_S = 3.0
"""Thrice the time that ``benchmarks.text_abuse`` asks for, as tests share a machine."""


@pytest.mark.skipif(sys.platform != "linux", reason="a child's memory is read from /proc")
def test_every_attack_is_literal_or_refused_by_name() -> None:
    """Each in a child of 64 MiB; the command reports more."""
    command = [sys.executable, "-m", "benchmarks.text_abuse", "--json"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    rows = json.loads(run.stdout)
    assert len(rows) == len(MESSAGES) + len(FIELDS) + len(TEMPLATES) >= 200
    different = [row for row in rows if row["found"] != row["expected"]]
    assert different == []
    costly = [row for row in rows if row["time_s"] > TIME_LIMIT_S or row["memory_bytes"] > 64 << 20]
    assert costly == []
