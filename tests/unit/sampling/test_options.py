from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslm import limits
from sslm.errors.choosing import ChoiceConflictError
from sslm.errors.runtime import OptionRangeError
from sslm.program.choice import MICRO, Choice, Decoder
from sslm.sampling.options import ChoosingOptions, options_of, seeded_choice

VOCAB_SIZE = 1000


def _choice(**options: Any) -> Choice:
    return seeded_choice(options, VOCAB_SIZE).choice  # type: ignore[arg-type]


def test_nothing_asked_is_plain_greedy() -> None:
    assert _choice() == Choice()
    assert _choice(**dict.fromkeys(ChoosingOptions.__annotations__)) == Choice()
    assert Choice().is_plain


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0, "top_k": 40, "top_p": 0.9, "min_p": 0.1, "seed": 7},
        {"temperature": "-0.0"},
        {"logit_bias": {5: 0, 6: "0.0000001"}},
        {"logit_bias": {}, "presence_penalty": 0, "frequency_penalty": -0.0},
        {"repetition_penalty": 1},
    ],
)
def test_what_has_no_effect_is_plain_greedy(options: dict[str, Any]) -> None:
    assert _choice(**options) == Choice()


def test_the_seed_that_was_asked_for_is_kept_where_nothing_is_drawn() -> None:
    found = seeded_choice({"seed": 7}, VOCAB_SIZE)
    assert (found.seed, found.choice.seed) == (7, 0)
    drawn = seeded_choice({"seed": 7, "temperature": 1}, VOCAB_SIZE)
    assert (drawn.seed, drawn.choice.seed) == (7, 7)
    other = drawn.with_seed(limits.SEED_MAX)
    assert (other.seed, other.choice.seed) == (limits.SEED_MAX, limits.SEED_MAX)
    assert seeded_choice({"temperature": 1}, VOCAB_SIZE).seed == 0


def test_options_of_sampling_become_integers() -> None:
    assert _choice(temperature=0.7, top_k=40, top_p="0.95", min_p=Decimal("0.05")) == Choice(
        decoder=Decoder.SAMPLING, temperature=700_000, top_k=40, top_p=950_000, min_p=50_000
    )
    assert _choice(temperature=1, top_k=VOCAB_SIZE).top_k == 0
    assert _choice(temperature=1, top_k=VOCAB_SIZE - 1).top_k == VOCAB_SIZE - 1


def test_penalties_and_biases_become_integers() -> None:
    assert _choice(
        repetition_penalty=1.1,
        presence_penalty=-0.5,
        frequency_penalty=2,
        logit_bias={9: -100, 3: 0.25, 4: 0},
    ) == Choice(
        repetition=1_100_000,
        presence=-500_000,
        frequency=2 * MICRO,
        bias=((3, 250_000), (9, -100 * MICRO)),
    )


def test_damping_becomes_integers() -> None:
    assert _choice(damping=2) == Choice(
        decoder=Decoder.DAMPED, damping=65536, damping_order=2, top_k=6
    )
    assert _choice(damping="0.00002", damping_order=16, damping_top_k=VOCAB_SIZE) == Choice(
        decoder=Decoder.DAMPED, damping=1, damping_order=16, top_k=VOCAB_SIZE
    )
    assert _choice(damping=0).decoder is Decoder.DAMPED
    # By default there are six to choose among, where the vocabulary has them.
    assert seeded_choice({"damping": 2}, 5).choice.top_k == 5
    assert _choice(damping="31.99998").damping == 2**20 - 1


OUT_OF_RANGE: dict[str, tuple[Any, ...]] = {
    "temperature": (-1, 0.001, 100.1, float("nan"), True, "hot", []),
    "top_k": (-1, 2**20 + 1, 1.0, "5", False),
    "top_p": (0, 1.000001, -0.1, "1e-7", True, float("inf")),
    "min_p": (-0.1, 1.1, True),
    "seed": (-1, 2**64, 1.0, "7", True),
    "repetition_penalty": (0, 0.001, 101, True),
    "presence_penalty": (-2.1, 2.000001, True),
    "frequency_penalty": (-2.1, 2.000001, 10**400),
    "logit_bias": (
        *([], "x", 5, {1000: 1}, {-1: 1}, {True: 1}),
        *({"5": 1}, {5: 101}, {5: None}, {5: True}, {5.0: 1}),
        dict.fromkeys(range(limits.LOGIT_BIAS_COUNT_MAX + 1), 1),
    ),
    "damping": (-0.1, 32, "31.99999", True),
}


@pytest.mark.parametrize(
    ("option", "value"),
    [(option, value) for option, values in OUT_OF_RANGE.items() for value in values],
    ids=lambda value: repr(value)[:30],
)
def test_what_is_out_of_range_is_refused_by_name(option: str, value: Any) -> None:
    options: Any = {option: value}
    with pytest.raises(OptionRangeError) as raised:
        seeded_choice(options, 2000 if value and len(str(value)) > 99 else VOCAB_SIZE)
    assert raised.value.option == option


def test_the_vocabulary_bounds_what_damped_greedy_chooses_among() -> None:
    assert _choice(damping=1, damping_top_k=VOCAB_SIZE).top_k == VOCAB_SIZE
    with pytest.raises(OptionRangeError) as raised:
        _choice(damping=1, damping_top_k=VOCAB_SIZE + 1)
    assert raised.value.facts() == {
        "option": "damping_top_k",
        "found": str(VOCAB_SIZE + 1),
        "expected": f"an integer from 1 to {VOCAB_SIZE}",
    }
    # Filters keep a part of what there is: one that keeps everything is none.
    assert _choice(temperature=1, top_k=VOCAB_SIZE + 1).top_k == 0


@pytest.mark.parametrize("option", ["damping_order", "damping_top_k"])
@pytest.mark.parametrize("value", [0, -1, 2**20 + 1, True, "2"])
def test_options_of_damping_are_refused_by_name(option: str, value: object) -> None:
    with pytest.raises(OptionRangeError) as raised:
        _choice(damping=1, **{option: value})
    assert raised.value.option == option


def test_what_contradicts_is_refused() -> None:
    with pytest.raises(ChoiceConflictError, match="damping cannot be used with a temperature"):
        _choice(damping=1, temperature=0.5)
    with pytest.raises(ChoiceConflictError, match="damping_order cannot be used without damping"):
        _choice(damping_order=2)
    with pytest.raises(ChoiceConflictError, match="damping_top_k cannot be used without damping"):
        _choice(damping_top_k=2, temperature=1)
    assert _choice(damping=1, temperature=0).decoder is Decoder.DAMPED


def test_options_are_told_as_they_were_rounded() -> None:
    told = options_of(_choice(temperature="0.70000049", top_p=0.95, seed=3, logit_bias={7: 1}))
    assert told == {
        "temperature": Decimal("0.7"),
        "top_p": Decimal("0.95"),
        "seed": 3,
        "logit_bias": {7: Decimal(1)},
    }
    assert options_of(Choice()) == {}
    assert options_of(_choice(damping=2)) == {
        "damping": Decimal(2),
        "damping_order": 2,
        "damping_top_k": 6,
    }


def _decimals(lowest: int, highest: int) -> st.SearchStrategy[Any]:
    return st.integers(lowest, highest).map(lambda micro: Decimal(micro) / MICRO)


@given(
    options=st.fixed_dictionaries(
        {},
        optional={
            "temperature": _decimals(MICRO // 100, 100 * MICRO),
            "top_k": st.integers(0, 2**20),
            "top_p": _decimals(1, MICRO),
            "min_p": _decimals(0, MICRO),
            "seed": st.integers(0, limits.SEED_MAX),
            "repetition_penalty": _decimals(MICRO // 100, 100 * MICRO),
            "presence_penalty": _decimals(-2 * MICRO, 2 * MICRO),
            "frequency_penalty": _decimals(-2 * MICRO, 2 * MICRO),
            "logit_bias": st.dictionaries(
                st.integers(0, VOCAB_SIZE - 1), _decimals(-100 * MICRO, 100 * MICRO), max_size=5
            ),
        },
    ),
    is_damped=st.booleans(),
)
def test_options_that_were_told_come_to_the_same_choice(
    options: dict[str, Any], is_damped: bool
) -> None:
    if is_damped:
        options = {**options, "temperature": 0, "damping": Decimal("1.234")}
    choice = _choice(**options)
    assert _choice(**options_of(choice)) == choice
