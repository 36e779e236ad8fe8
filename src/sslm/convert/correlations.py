"""How the inputs of a matrix go together, on the calibration texts."""

from typing import Final

import numpy as np

from sslm.convert.balance import Balance
from sslm.convert.flips import ERROR_BITS, Float64Array
from sslm.convert.inputs import Inputs, Site, site_of

_INPUT_BITS_MAX: Final = 11
_FLOAT64_BITS: Final = 53
_DAMPING_DIVISOR: Final = 10
"""A tenth of the mean square is added to every input's own: calibration is not everything."""


class Correlations:
    """Products of the inputs of each matrix, summed over the calibration texts.

    Args:
        inputs: As they were seen.
        balance: Which will divide them.
        head: The matrix that is the output projection.
    """

    def __init__(self, inputs: Inputs, balance: Balance, head: str) -> None:
        self._inputs = inputs
        self._balance = balance
        self._head = head
        self._site: Site | None = None
        self._latest = np.zeros((0, 0))

    def of(self, name: str) -> Float64Array | None:
        """Return integers, as float64 [in_features, in_features], or None if *name* has no input.

        They are small enough for ``flip_codes``.
        """
        site = site_of(name, self._head)
        if site is None:
            return None
        # Matrices that share an input follow one another; one is kept, since they are large.
        if site != self._site:
            self._site, self._latest = site, self._products(site)
        return self._latest

    def _products(self, site: Site) -> Float64Array:
        rows = self._inputs.rows(site) / self._balance.of_input(site)
        largest = np.abs(rows).max()
        if largest == 0.0:
            return np.eye(rows.shape[1])
        exponent = _input_bits(*rows.shape) - int(np.frexp(largest)[1])
        whole = np.rint(np.ldexp(rows, exponent))
        products: Float64Array = whole.T @ whole
        diagonal = np.diag_indices(len(products))
        damping = np.floor(products[diagonal].sum() / (len(products) * _DAMPING_DIVISOR))
        products[diagonal] += np.maximum(damping, 1.0)
        return products


def _input_bits(tokens: int, in_features: int) -> int:
    """Return how many bits an input may have for sums over tokens and features to be exact."""
    room = _FLOAT64_BITS - 1 - ERROR_BITS - tokens.bit_length() - in_features.bit_length()
    return min(_INPUT_BITS_MAX, room // 2)
