"""Which combinations are measured, and what they are called."""

from sslm.bench import Case, all_cases


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
