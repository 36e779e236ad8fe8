"""The compiled library gives, on every tier of this machine, the digest pinned for all machines."""

import pytest
from tools.digest_check import MAX_TOKENS, PROMPT
from tools.wheel_targets import PINNED_DIGEST

import sslm
from sslm.native_library import available_tiers
from tests.converted import stories_artifact


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("tier", available_tiers())
def test_the_answer_has_the_pinned_digest(tier: str, threads: int) -> None:
    """Wheels of other machines are held to the same digest by tools/build_wheels.py."""
    artifact = stories_artifact()
    with sslm.load(artifact, backend="native", tier=tier, threads=threads) as model:
        assert model.verify().ok
        assert model.generate(PROMPT, max_tokens=MAX_TOKENS).digest == PINNED_DIGEST
