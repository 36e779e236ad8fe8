"""What holds of every blob with a hash in its header, however it is spoiled."""

from sslm.errors.base import SslmError
from tests.hostile.byte_sweep import Trip, cuts, flips, sweep
from tests.saves import reseal_save, resize_save


def require_named_ends(
    sound: bytes,
    trip: Trip,
    *,
    step: int,
    header_size_bytes: int,
    integrity_error: type[SslmError],
) -> None:
    """Cut a blob and change its bytes, every *step* of them, also sealed anew.

    Nothing but what was sealed anew is taken, and that is not refused for its hash.
    """
    cut = sweep(cuts(sound, step=step), trip, sound=sound)
    assert (cut.failures, cut.loaded) == ([], 0)
    sealed_cuts = cuts(sound, step=step, first=header_size_bytes, seal=resize_save)
    sealed_cut = sweep(sealed_cuts, trip, sound=sound)
    assert (sealed_cut.failures, sealed_cut.loaded) == ([], 0)
    changed = sweep(flips(sound, step=step), trip, sound=sound)
    assert (changed.failures, changed.loaded) == ([], 0)
    sealed = sweep(flips(sound, step=step, seal=reseal_save), trip, sound=sound)
    assert sealed.failures == []
    assert sealed.loaded > 0
    assert sealed.loaded + sum(sealed.refusals.values()) == sealed.cases > 20
    # The hash is never what refuses: whoever seals again gets past it.
    errors = {refusal.error for refusal in sealed.refusals}
    assert errors
    assert integrity_error.__name__ not in errors
