"""The ways to choose that schedules draw from, and which of them decide alike."""

from typing import NamedTuple

from sslm.program.choice import MICRO, Choice, Decoder


class Way(NamedTuple):
    """A choice as the simulator knows it.

    Args:
        choice: What the runtime is told.
        decides: Equal for those that take the same token after the same beginning.
        counts_answer: Whether it matters where the answer begins.
    """

    choice: Choice
    decides: str
    counts_answer: bool = False


Key = tuple[str, int, tuple[int, ...] | None]


class Rule(NamedTuple):
    """Index of a way, where the answer begins, and the ids that may be chosen, if not all."""

    way: int = 0
    answer_start: int = 0
    allowed: tuple[int, ...] | None = None

    @property
    def is_plain(self) -> bool:
        return WAYS[self.way].decides == "plain"

    def key(self) -> Key:
        """Return what is equal for rules that take the same token."""
        way = WAYS[self.way]
        return way.decides, self.answer_start if way.counts_answer else 0, self.allowed


_HOT = Choice(decoder=Decoder.SAMPLING, temperature=8 * MICRO, seed=1)
_ALL = Choice(
    decoder=Decoder.SAMPLING,
    bias=((2, 3 * MICRO), (30, -MICRO)),
    repetition=1_300_000,
    presence=MICRO // 2,
    frequency=-MICRO // 4,
    temperature=5 * MICRO,
    top_k=20,
    top_p=900_000,
    min_p=10_000,
    seed=(1 << 64) - 1,
)
_DAMPED = Choice(decoder=Decoder.DAMPED, top_k=6, damping=1 << 18, damping_order=3)

WAYS = (
    Way(Choice(), "plain"),
    Way(Choice(seed=5, temperature=2 * MICRO, top_k=3), "plain"),
    Way(_HOT, "hot"),
    Way(Choice(decoder=Decoder.SAMPLING, temperature=8 * MICRO, seed=2), "hot, another seed"),
    Way(_ALL, "all options", counts_answer=True),
    Way(_DAMPED, "damped", counts_answer=True),
    Way(Choice(repetition=1_500_000), "repetition"),
    Way(Choice(presence=2 * MICRO, frequency=MICRO), "penalties", counts_answer=True),
    Way(Choice(bias=((7, 4 * MICRO),)), "bias"),
)
"""Each for any vocabulary of more than 30 ids."""
