"""The call that counts."""

import pytest

from sslm.program.ops import SaturationSite
from sslm.runtime.saves.saving import restore_into, save
from sslm.runtime.sequences.prefix import Prefix
from tests.runtime_cases import Case

PROMPT = [index * 5 % 37 for index in range(70)]


@pytest.mark.published_call("sslm_stats", here="Sequence.stats")
def test_layers_are_counted_against_their_ceiling(case: Case) -> None:
    layers = case.program.layer_count
    with case.sequence() as sequence:
        assert (sequence.stats().layers_run, sequence.stats().layers_ceiling) == (0, 0)
        sequence.push(PROMPT)
        runs = []
        while sequence.pending_count:
            case.step(sequence)
            stats = sequence.stats()
            runs.append((stats.layers_run, stats.layers_ceiling, stats.pending_tokens))
        # Two chunks, of 64 and 6 tokens, of which the second goes through the head.
        first = [(count, layers, 70) for count in range(1, layers)] + [(layers, layers, 6)]
        assert runs[:layers] == first
        assert runs[layers : 2 * layers] == [
            (layers + count, 2 * layers, 6) for count in range(1, layers + 1)
        ]
        assert runs[-1] == (2 * layers, 2 * layers, 0)
        sequence.decode()
        case.run(sequence)
        assert sequence.stats().layers_run == sequence.stats().layers_ceiling == 3 * layers


@pytest.mark.published_call("sslm_stats", case="pages, forced tokens", here="Sequence.stats")
def test_pages_are_counted(case: Case) -> None:
    pool = case.pool()
    with case.filled(PROMPT, pool) as sequence:
        stats = sequence.stats()
        assert (stats.positions, stats.resident_pages, stats.shared_pages) == (70, 2, 0)
        assert stats.forced_tokens == 0
        with Prefix(case.filled(PROMPT, pool)) as prefix, case.sequence(pool) as other:
            prefix.freeze()
            prefix.adopt_into(other)
            assert (other.stats().resident_pages, other.stats().shared_pages) == (2, 1)
        sequence.reset()
        assert sequence.stats().resident_pages == 0


@pytest.mark.published_call(
    "sslm_stats", case="values that were clamped", here="Sequence.saturations"
)
def test_saturations_are_those_of_a_lone_run(case: Case) -> None:
    with case.filled(PROMPT) as sequence:
        assert sequence.stats().saturations == sequence.saturations
        assert len(sequence.saturations) == 6
        case.require_as_alone(sequence, PROMPT)


@pytest.mark.published_call(
    "sslm_stats", case="clamped values go with a prefix, a save and a reset", here="Sequence.stats"
)
def test_saturations_go_where_the_tokens_go(case: Case) -> None:
    expected = {site.name.lower(): 3 + site for site in SaturationSite}
    pool = case.pool()
    sequence = case.filled(PROMPT, pool)
    # These models clamp nothing: let it be as if they had.
    counts = sequence.memory.saturations.cast("q")
    for site in SaturationSite:
        counts[site] = 3 + site
    blob = save(sequence)
    with Prefix(sequence) as prefix, case.sequence(pool) as adopter, case.sequence() as restored:
        prefix.freeze()
        prefix.adopt_into(adopter)
        restore_into(restored, blob)
        for other in (adopter, restored):
            assert other.stats().saturations == expected
            other.decode()
            case.run(other)
            assert other.stats().saturations == expected
            other.reset()
            assert set(other.stats().saturations.values()) == {0}
