"""Which combinations are measured, and what they are called."""

from dataclasses import replace

import pytest

from sslm.bench import LENGTHS, Case, all_cases, fit_cases
from sslm.errors.commands import BenchContextError


def test_names_are_those_of_llama_bench() -> None:
    assert Case(kind="prompt", tokens=512).name == "pp512"
    assert Case(kind="generation", tokens=128).name == "tg128"
    assert Case(kind="generation", tokens=128, batch=4, depth=2000).name == "tg128 b4 @ d2000"


def test_batches_and_depths_vary_around_the_first() -> None:
    cases = all_cases(
        prompts=[128, 0, 512], generations=[32], batches=[1, 4], depths=[0, 2000], threads=[1, 2]
    )
    names = ["pp128", "pp512", "tg32", "tg32 b4", "tg32 @ d2000"]
    assert [(case.name, case.threads) for case in cases] == [
        (name, threads) for threads in (1, 2) for name in names
    ]


def test_one_depth_holds_for_all() -> None:
    cases = all_cases(prompts=[8], generations=[4], batches=[2], depths=[64], threads=[1])
    assert [case.name for case in cases] == ["pp8 @ d64", "tg4 b2 @ d64"]
    assert [case.context_tokens for case in cases] == [72, 68]


def test_nothing_is_left_of_zeros() -> None:
    assert all_cases(prompts=[0], generations=[0], batches=[1], depths=[0], threads=[1]) == ()


PROMPT = Case(kind="prompt", tokens=128)
DEEP = Case(kind="generation", tokens=128, depth=2000)


def test_what_fits_stays_as_it_is() -> None:
    fitted = fit_cases([PROMPT, DEEP], 2128)
    assert fitted.cases == (PROMPT, DEEP)
    assert fitted.changes == {}


@pytest.mark.parametrize(
    ("limit", "fixed", "name"),
    [
        (2127, (), "tg128 @ d1999"),
        (130, (), "tg128 @ d2"),
        (128, (), "tg128"),
        (100, (), "tg100"),
        (1, (), "tg1"),
        (130, ("generations",), "tg128 @ d2"),
        (2001, ("depths",), "tg1 @ d2000"),
        (2050, ("depths", "prompts"), "tg50 @ d2000"),
    ],
)
def test_what_nobody_insists_on_gives_way(limit: int, fixed: tuple[str, ...], name: str) -> None:
    fitted = fit_cases([DEEP], limit, fixed=fixed)
    assert [case.name for case in fitted.cases] == [name]
    assert fitted.changes == {DEEP: fitted.cases[0]}


def test_the_order_stays_and_nothing_is_measured_twice() -> None:
    cases = [replace(PROMPT, tokens=512), PROMPT, replace(PROMPT, tokens=600), DEEP]
    cases += [replace(case, threads=2) for case in cases]
    fitted = fit_cases(cases, 256, fixed=())
    shown = [(case.name, case.threads) for case in fitted.cases]
    assert shown == [
        (name, threads) for threads in (1, 2) for name in ("pp256", "pp128", "tg128 @ d128")
    ]
    assert fitted.changes[cases[0]] == replace(PROMPT, tokens=256)
    assert fitted.changes[cases[2]] is None


@pytest.mark.parametrize(
    ("case", "limit", "fixed", "facts"),
    [
        (DEEP, 512, ("depths",), ("depths", 2000, 511, "tg1 @ d2000", 2001, 512)),
        (DEEP, 2100, LENGTHS, ("depths", 2000, 1972, "tg128 @ d2000", 2128, 2100)),
        (DEEP, 100, ("generations",), ("generations", 128, 100, "tg128", 128, 100)),
        (PROMPT, 100, LENGTHS, ("prompts", 128, 100, "pp128", 128, 100)),
        (
            replace(PROMPT, depth=20),
            100,
            LENGTHS,
            ("prompts", 128, 80, "pp128 @ d20", 148, 100),
        ),
    ],
)
def test_what_is_insisted_on_is_refused_with_the_largest_that_fits(
    case: Case, limit: int, fixed: tuple[str, ...], facts: tuple[object, ...]
) -> None:
    with pytest.raises(BenchContextError) as caught:
        fit_cases([case], limit, fixed=fixed)
    assert tuple(caught.value.facts().values()) == facts
