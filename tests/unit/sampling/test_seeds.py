from hashlib import sha256

from sslm import limits
from sslm.sampling.seeds import answer_seed, row_seed


def test_the_first_answer_has_the_requests_own_seed() -> None:
    assert answer_seed(7, 0) == 7
    assert answer_seed(limits.SEED_MAX, 0) == limits.SEED_MAX


def test_further_answers_have_the_first_8_bytes_of_a_hash() -> None:
    message = b"sslm answer seed\0" + (7).to_bytes(8, "little") + (3).to_bytes(4, "little")
    assert answer_seed(7, 3) == int.from_bytes(sha256(message).digest()[:8], "little")
    assert answer_seed(7, 3) == 0x27E40617F5487E73


def test_a_row_has_a_seed_of_its_name_alone() -> None:
    message = b"sslm row seed\0" + (2**64 - 1).to_bytes(8, "little") + "Zeile ä".encode()
    assert row_seed(limits.SEED_MAX, "Zeile ä") == int.from_bytes(
        sha256(message).digest()[:8], "little"
    )
    assert row_seed(0, "") == 0xD05828001444E169


def test_seeds_differ_by_seed_index_and_name() -> None:
    seeds = [answer_seed(seed, index) for seed in range(20) for index in range(1, 20)]
    seeds += [row_seed(seed, str(row)) for seed in range(20) for row in range(20)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed <= limits.SEED_MAX for seed in seeds)
