"""Every table entry against 200-bit real arithmetic."""

import mpmath

from sslm.numerics.tables import POW2_NODE_COUNT, SIGMOID_NODE_COUNT, pow2_nodes, sigmoid_nodes


def test_pow2_nodes_are_rounded_powers_of_two() -> None:
    with mpmath.workprec(200):
        expected = [int(mpmath.nint(mpmath.power(2, 24 - mpmath.mpf(j) / 64))) for j in range(65)]
    assert list(pow2_nodes()) == expected
    assert len(expected) == POW2_NODE_COUNT
    assert [expected[j] for j in (0, 1, 32, 64)] == [16777216, 16596492, 11863283, 8388608]


def test_sigmoid_nodes_are_rounded_sigmoids() -> None:
    with mpmath.workprec(200):
        expected = [
            int(mpmath.nint(2**28 / (1 + mpmath.exp(mpmath.mpf(j) / 64)))) for j in range(1025)
        ]
    assert list(sigmoid_nodes()) == expected
    assert len(expected) == SIGMOID_NODE_COUNT
    assert [expected[j] for j in (0, 64, 1024)] == [134217728, 72193413, 30]


def test_items_are_32_bits() -> None:
    assert pow2_nodes().itemsize == sigmoid_nodes().itemsize == 4
