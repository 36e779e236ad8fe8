"""The corpus of abusive texts and templates: literal or refused, each in little time and memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.text_corpus import FIELDS, MESSAGES, TEMPLATES

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(sys.platform != "linux", reason="a child's memory is read from /proc")
def test_every_attack_is_literal_or_refused_by_name() -> None:
    """Each in a child of 64 MiB; the command reports more, and how long they take.

    Here templates are bounded by the work that they are refused for, and all of it by the time
    after which the system ends a child.
    """
    command = [sys.executable, "-m", "benchmarks.text_abuse", "--json"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    rows = json.loads(run.stdout)
    assert len(rows) == len(MESSAGES) + len(FIELDS) + len(TEMPLATES) >= 200
    different = [row for row in rows if row["found"] != row["expected"]]
    assert different == []
    assert [row for row in rows if row["memory_bytes"] > 64 << 20] == []
