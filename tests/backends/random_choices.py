"""Random choices of all kinds over random logits, some of them at the ends of what is possible."""

from dataclasses import replace
from typing import Any

import numpy as np

from sslm.limits import DAMPING_ORDER_MAX, SEED_MAX
from sslm.program.choice import MICRO, Choice, Decoder
from sslm.program.spans import NOT_ALLOWED
from tests.backends.choices import Chooser

LOGIT_MAX = 1 << 62
EXPONENTS = (-110, -62, -45, -40, -20, -12, -3, 0, 24)
OPTIONS: dict[str, tuple[int, ...]] = {
    "repetition": (MICRO, MICRO, 1_300_000, 500_000, 2 * MICRO, 1),
    "presence": (0, 0, MICRO, -2 * MICRO, 1),
    "frequency": (0, 0, MICRO, -MICRO, 500_001),
    "temperature": (MICRO, 1, 700_000, 2 * MICRO, 100 * MICRO, 2000 * MICRO),
    "top_k": (0, 1, 2, 40, 500, 2000, 100_000),
    "top_p": (MICRO, 1, 500_000, 950_000, 999_999),
    "min_p": (0, 0, 1, 50_000, MICRO),
    "seed": (0, 1, SEED_MAX, 1 << 32),
    "damping": (0, 65536, (1 << 20) - 1),
    "damping_order": (1, 2, 3, 5, DAMPING_ORDER_MAX),
}


def random_logits(random: np.random.Generator, shape: tuple[int, int], exponent: int) -> np.ndarray:
    """Return int64 logits that stand for numbers of some size: spread, flat, equal, or sorted."""
    scale = random.choice([0.001, 0.5, 3, 10, 100, 2000])
    real = random.normal(random.choice([0, 0, -30]), scale, shape)
    if random.integers(0, 4) == 0:
        real = np.round(real)
    end = float(LOGIT_MAX >> 1)
    logits = np.clip(np.round(real * 2.0**-exponent), -end, end).astype(np.int64)
    match random.integers(0, 6):
        case 0:
            logits = np.sort(logits, axis=1)
        case 1:
            logits = np.sort(logits, axis=1)[:, ::-1]
        case 2:
            is_left_out = random.random(shape) < random.choice([0.1, 0.9, 0.999])
            logits = np.where(is_left_out, NOT_ALLOWED, logits)
    return np.ascontiguousarray(logits)


def random_choice(random: np.random.Generator, vocab_size: int) -> Choice:
    picked: dict[str, Any] = {
        name: int(random.choice(np.array(values, dtype=object))) for name, values in OPTIONS.items()
    }
    decoder = Decoder(int(random.integers(0, 3)))
    if decoder is Decoder.DAMPED:
        picked["top_k"] = picked["top_k"] or 6
    ids = sorted(set(random.integers(0, vocab_size, random.integers(0, 6)).tolist()))
    sizes = random.choice([-100 * MICRO, 0, 5 * MICRO, 100 * MICRO, 1, -3], len(ids))
    bias = tuple(zip(ids, sizes.tolist(), strict=True)) if random.integers(0, 2) else ()
    return Choice(decoder=decoder, bias=bias, **picked)


def random_chooser(random: np.random.Generator, vocab_size: int) -> Chooser:
    rows = int(random.choice([1, 1, 1, 5]))
    exponents = random.choice(EXPONENTS, rows)
    logits = [random_logits(random, (1, vocab_size), int(exponent)) for exponent in exponents]
    length = int(random.integers(rows, 80))
    # A few ids only, so that they repeat; or any.
    kinds = min(vocab_size, int(random.choice([1, 3, 20, vocab_size])))
    return Chooser(
        logits=np.concatenate(logits),
        exponents=exponents,
        choice=random_choice(random, vocab_size),
        token_ids=random.integers(0, kinds, length).tolist(),
        answer_start=int(random.integers(0, length + 1)),
    )


def alone(choice: Choice) -> list[Choice]:
    """Return a choice with each of its options alone."""
    default = Choice(decoder=choice.decoder, top_k=6 if choice.decoder is Decoder.DAMPED else 0)
    return [replace(default, **{name: getattr(choice, name)}) for name in (*OPTIONS, "bias")]
