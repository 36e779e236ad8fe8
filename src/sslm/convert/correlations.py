"""How the inputs of a matrix go together, on the calibration texts."""

from typing import Final

import numpy as np

from sslm.convert.balance import Balance
from sslm.convert.flips import ERROR_BITS, Float64Array
from sslm.convert.inputs import Inputs, Site, site_of
from sslm.convert.int4_rounding import CORRELATION_BITS

_INPUT_BITS_MAX: Final = 11
_FLOAT64_BITS: Final = 53
_DAMPING: Final = (1, 10)
"""A tenth of the mean square is added to every input's own: calibration is not everything."""

_INT4_INPUT_BITS_MAX: Final = 13
_INT4_DAMPING: Final = (2, 5)
"""Two fifths for four bits: their errors are large, and what undoes one of them on the texts must
do so elsewhere. Held-out text has its least error between a fifth and one."""


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

        They are small enough for ``flip_codes``, or ``round_to_int4``.
        """
        site = site_of(self._balance.config, name, self._head)
        if site is None:
            return None
        # Matrices that share an input follow one another; one is kept, since they are large.
        if site != self._site:
            self._site, self._latest = site, self._products(site)
        return self._latest

    def _products(self, site: Site) -> Float64Array:
        rows = self._inputs.rows(site) / self._balance.of_input(site)
        return _damped(_products_of(rows, ERROR_BITS, _INPUT_BITS_MAX), *_DAMPING)


class Int4Correlations(Correlations):
    """The same for ``round_to_int4``, which can bear less of chance."""

    def _products(self, site: Site) -> Float64Array:
        rows = self._inputs.rows(site) / self._balance.of_input(site)
        products = _damped(_products_of(rows, 0, _INT4_INPUT_BITS_MAX), *_INT4_DAMPING)
        # The magnitudes of a row are integers whose sum stays below 2**53.
        shift = int(np.frexp(np.abs(products).sum(axis=1).max())[1]) - CORRELATION_BITS
        if shift > 0:
            products = np.trunc(np.ldexp(products, -shift))
            diagonal = np.diag_indices(len(products))
            products[diagonal] = np.maximum(products[diagonal], 1.0)
        return products


def _products_of(rows: Float64Array, room_bits: int, bits_max: int) -> Float64Array:
    """Return exact products of rows, rounded to bits that leave sums over features this room."""
    largest = np.abs(rows).max()
    if largest == 0.0:
        return np.eye(rows.shape[1])
    tokens, in_features = rows.shape
    room = _FLOAT64_BITS - 1 - room_bits - tokens.bit_length() - in_features.bit_length()
    bits = min(bits_max, room // 2)
    exponent = bits - int(np.frexp(largest)[1])
    whole = np.rint(np.ldexp(rows, exponent))
    products: Float64Array = whole.T @ whole
    return products


def _damped(products: Float64Array, numerator: int, denominator: int) -> Float64Array:
    """Add this share of the mean of the diagonal, at least 1, to the diagonal, in place."""
    diagonal = np.diag_indices(len(products))
    share = products[diagonal].sum() * numerator / (len(products) * denominator)
    products[diagonal] += np.maximum(np.floor(share), 1.0)
    return products
