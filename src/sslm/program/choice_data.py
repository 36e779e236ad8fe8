"""How a sequence chooses, as plain data, which Python and C read alike."""

import ctypes
from array import array
from typing import Self

from sslm.program.choice import Choice, score_of


class ChoiceStruct(ctypes.Structure):
    """``sslm_choice`` of sslm_native.h."""

    _fields_ = (
        ("scores", ctypes.c_void_p),
        ("seen", ctypes.c_void_p),
        ("token_ids", ctypes.c_void_p),
        ("bias_ids", ctypes.c_void_p),
        ("biases", ctypes.c_void_p),
        ("seed", ctypes.c_uint64),
        ("exponent_mantissa", ctypes.c_int64),
        ("exponent_shift", ctypes.c_int32),
        ("decoder", ctypes.c_int32),
        ("answer_start", ctypes.c_int32),
        ("bias_count", ctypes.c_int32),
        ("repetition", ctypes.c_int32),
        ("presence", ctypes.c_int32),
        ("frequency", ctypes.c_int32),
        ("top_k", ctypes.c_int32),
        ("top_p", ctypes.c_int32),
        ("min_p", ctypes.c_int32),
        ("damping", ctypes.c_int32),
        ("damping_order", ctypes.c_int32),
    )


def scratch_size_bytes(vocab_size: int) -> int:
    """Return the bytes that choosing by scores needs: the scores, and a bit for each id."""
    return 4 * vocab_size + 4 * ((vocab_size + 31) // 32)


class ChoiceData:
    """A choice bound to a sequence's tokens; it never changes, another one replaces it.

    Args:
        choice: How to choose.
        answer_start: Position of the answer's first token: those before are the prompt's.
        token_ids: int32, one for each position of the sequence.
        scratch: ``scratch_size_bytes(vocab_size)`` bytes, aligned to 4, zero between runs behind
            the scores; or nothing, for a plain choice.
        vocab_size: Ids are below it.
    """

    def __init__(
        self,
        choice: Choice,
        *,
        answer_start: int,
        token_ids: memoryview,
        scratch: memoryview,
        vocab_size: int,
    ) -> None:
        self.choice = choice
        self.answer_start = answer_start
        self.token_ids = token_ids
        self._scratch = scratch
        self._bias_ids = array("i", [token_id for token_id, _ in choice.bias])
        self._biases = array("i", [score_of(micro) for _, micro in choice.bias])
        scale = choice.exponent_scale()
        scores = ctypes.addressof(ctypes.c_char.from_buffer(scratch)) if scratch.nbytes else None
        self.struct = ChoiceStruct(
            scores=scores,
            seen=scores and scores + 4 * vocab_size,
            token_ids=ctypes.addressof(ctypes.c_char.from_buffer(token_ids)),
            bias_ids=self._bias_ids.buffer_info()[0],
            biases=self._biases.buffer_info()[0],
            seed=choice.seed,
            exponent_mantissa=scale.mantissa,
            exponent_shift=scale.shift,
            decoder=choice.decoder,
            answer_start=answer_start,
            bias_count=len(choice.bias),
            repetition=choice.repetition,
            presence=score_of(choice.presence),
            frequency=score_of(choice.frequency),
            top_k=choice.top_k,
            top_p=choice.top_p,
            min_p=choice.min_p,
            damping=choice.damping,
            damping_order=choice.damping_order,
        )

    def decides_as(self, choice: Choice, answer_start: int) -> bool:
        """Return whether another choice takes the same token after any beginning."""
        is_same_answer = answer_start == self.answer_start or not choice.counts_answer
        return is_same_answer and choice.deciding() == self.choice.deciding()

    def without_scratch(self) -> Self:
        """Return what is left to see once nothing is chosen by it any more."""
        seen = object.__new__(type(self))
        seen.__dict__.update(self.__dict__)
        seen._scratch = memoryview(b"")
        return seen

    @property
    def address(self) -> int:
        """Where the struct lies, as long as this object lives."""
        return ctypes.addressof(self.struct)
