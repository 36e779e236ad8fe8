"""The arithmetic of ``benchmarks/versus_llama_cpp.py``, on numbers made up for it."""

from typing import Any

import pytest
from benchmarks.versus.figures import Figure, Speeds, all_figures, cost_figures
from benchmarks.versus.rounds import (
    BATCH,
    DECODE,
    DEEP,
    INT8,
    OPENVINO,
    PREFILL,
    Q8_0,
    Samples,
)
from benchmarks.versus.tables import HEAD, figure_rows, markdown, op_rows, plain, speed_rows


def answers(tokens: int, *seconds: float, read_bytes: int = 0) -> list[dict[str, Any]]:
    return [
        {"tokens": tokens, "wall_s": one, "cpu_s": one / 2, "read_bytes": read_bytes}
        for one in seconds
    ]


@pytest.fixture
def samples() -> Samples:
    return Samples(
        answers={
            (1, PREFILL, INT8): answers(512, 0.5, 0.4, 0.9),
            (1, PREFILL, f"{Q8_0}, build 1"): answers(512, 2.0, 1.0, 1.5),
            (1, PREFILL, f"{Q8_0}, build 2"): answers(512, 1.0, 1.0, 1.0),
            (1, PREFILL, OPENVINO): answers(512, 0.25),
            (1, DECODE, INT8): answers(100, 1.0, read_bytes=100_000_000_000),
            (1, DECODE, f"{Q8_0}, build 1"): answers(100, 2.0),
            (1, DECODE, f"{Q8_0}, build 2"): answers(100, 4.0),
            (1, DEEP, INT8): answers(50, 0.6, read_bytes=55_000_000_000),
            (1, DEEP, f"{Q8_0}, build 1"): answers(50, 3.0),
            (1, BATCH, INT8): answers(400, 1.25, read_bytes=100_000_000_000),
            (2, DECODE, INT8): answers(100, 0.5, read_bytes=100_000_000_000),
            (2, DECODE, f"{Q8_0}, build 1"): answers(100, 1.0),
        },
        ceilings={(1, INT8): [100e9, 125e9, 200e9], (2, INT8): [250e9]},
        described={
            (1, INT8): {
                "load_s": 0.1,
                "peak_bytes": 1,
                "prefill_op_ns": {"linear": 60, "logits": 20, "attention": 15, "digests": 5},
                "decode_op_ns": {"linear": 70, "logits": 28, "attention": 1, "digests": 1},
            }
        },
    )


def figures_of(samples: Samples, **options: Any) -> dict[str, Figure]:
    speeds = Speeds(samples, options.pop("clock", "wall"))
    found = all_figures(speeds, (1, 2), options.pop("large", {}), options.pop("costs", {}))
    assert len({figure.key for figure in found}) == len(found)
    return {figure.key: figure for figure in found}


def test_ratios_are_those_of_medians_with_the_fastest_build(samples: Samples) -> None:
    found = figures_of(samples)
    prefill = found["prefill_512_int8_over_q8_0_ratio_1t"]
    # Medians: 512 / 0.5 of ours, 512 / 1.0 of the second build, which is the faster one here.
    assert (prefill.ours, prefill.theirs, prefill.value) == (1024, 512, 2)
    assert (prefill.note, prefill.target, prefill.is_met) == (f"{Q8_0}, build 2", 1.6, True)
    decode = found["decode_int8_over_q8_0_ratio_1t"]
    assert (decode.value, decode.note, decode.is_met) == (2, f"{Q8_0}, build 1", True)
    openvino = found["prefill_512_int8_over_openvino_ratio_1t"]
    assert (openvino.value, openvino.target, openvino.is_met) == (0.5, 0.75, False)


def test_two_threads_are_told_without_a_target_where_there_is_none(samples: Samples) -> None:
    decode = figures_of(samples)["decode_int8_over_q8_0_ratio_2t"]
    assert (decode.value, decode.target, decode.is_met) == (2, None, None)


def test_decode_stands_beside_the_ceiling(samples: Samples) -> None:
    found = figures_of(samples)
    one = found["decode_int8_read_over_ceiling_ratio_1t"]
    assert (one.ours, one.theirs, one.value) == (100, 125, 0.8)
    assert found["decode_int8_read_over_ceiling_ratio_2t"].value == 0.8
    # Seconds of the CPU say nothing of the memory.
    assert not any("ceiling" in key for key in figures_of(samples, clock="cpu"))


def test_a_context_costs_more_only_beyond_its_bytes(samples: Samples) -> None:
    found = figures_of(samples)
    # 12 ms over 10 ms, of 1.1 GB over 1.0 GB a token.
    ours = found["context_2000_int8_time_over_bytes_ratio_1t"]
    assert ours.value == pytest.approx(1.2 / 1.1)
    assert ours.ours == pytest.approx(12)
    assert ours.theirs == pytest.approx(10)
    assert ours.is_met is False
    # Theirs is the plain quotient of times.
    assert found["context_2000_llama_cpp_q8_0_time_ratio_1t"].value == pytest.approx(3)
    batch = found["batch_4_over_1_int8_ratio_1t"]
    assert (batch.value, batch.target, batch.is_met) == (3.2, 2.5, True)


def test_shares_of_ops_leave_out_what_multiplies_by_weights(samples: Samples) -> None:
    found = figures_of(samples)
    largest = found["prefill_512_largest_other_op_ratio_1t"]
    assert largest.value == pytest.approx(0.15)
    assert largest.is_met is False
    assert largest.note.startswith("attention")
    digests = found["decode_digests_ratio_1t"]
    assert digests.value == pytest.approx(0.01)
    assert digests.is_met is True


def test_other_benchmarks_are_held_to_their_targets(samples: Samples) -> None:
    facts = {
        "large_decode_over_ceiling_ratio": 0.91,
        "large_decode_gb_per_s": 9.1,
        "large_read_gb_per_s": 10.0,
        "large_weight_bytes": 1_200_000_000,
        "large_context_time_over_bytes_ratio": 1.09,
        "large_context_over_none_ratio": 1.2,
        "large_context_bytes_ratio": 1.1,
    }
    found = figures_of(samples, large={1: facts, 2: facts})
    assert found["decode_large_read_over_ceiling_ratio_1t"].is_met is True
    assert found["decode_large_read_over_ceiling_ratio_2t"].is_met is None
    assert found["context_2000_large_time_over_bytes_ratio_1t"].is_met is False
    costs = {"plan_bytes": 17 << 20, "import_s": 0.1, "open_s": 0.3, "load_import_s": 0.2}
    by_key = {figure.key: figure for figure in cost_figures(costs)}
    assert {key: figure.is_met for key, figure in by_key.items()} == {
        "plan_mib": False,
        "open_s": True,
        "import_s": True,
        "load_import_s": None,
    }
    assert by_key["plan_mib"].value == 17


def test_every_quotient_that_is_a_target_says_so_in_its_key(samples: Samples) -> None:
    for key, figure in figures_of(samples).items():
        assert "ratio" in key
        assert figure.facts()["met"] is figure.is_met


def test_tables_have_a_row_for_each(samples: Samples) -> None:
    speeds = Speeds(samples, "wall")
    figures = all_figures(speeds, (1,), {}, {})
    lines = plain(HEAD, figure_rows(figures)).splitlines()
    assert len(lines) == 1 + len(figures)
    assert any("MISSED" in line and "≥ 0.75" in line for line in lines)
    assert len(speed_rows(speeds)) == len(samples.answers)
    head, rows = op_rows(speeds)
    assert head[3:] == ["linear", "logits", "attention", "digests"]
    assert rows[0] == [INT8, "prefill", "1", "60.0", "20.0", "15.0", "5.0"]
    assert markdown(("a", "b"), [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
