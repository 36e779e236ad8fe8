"""What a fuzz target is, and how it says what became of an input."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sslm.errors.base import SslmError

SEEDS_FOLDER: Final = Path(__file__).parent / "seeds"


class BrokenPromiseError(Exception):
    """The product did something that it promises not to do."""


def require(is_kept: bool, promise: str) -> None:
    """Raise BrokenPromiseError, with *promise* as its text, unless it is kept."""
    if not is_kept:
        raise BrokenPromiseError(promise)


class Outcomes(Counter[str]):
    """How often inputs came to which end: names of error classes, or of what was reached."""

    def reached(self, what: str) -> None:
        """Count one input that came so far."""
        self[what] += 1

    @contextmanager
    def refusals(self, *families: type[SslmError]) -> Iterator[None]:
        """Let errors of these families end the block, and count each by its cause."""
        try:
            yield
        except families as error:
            # The message is made only when it is asked for, and must not fail then.
            require(bool(str(error)), f"{error.cause} has a message")
            self[error.cause] += 1


ByteMutator = Callable[[bytes, int], bytes]
"""libFuzzer's own mutation: bytes and the most bytes of the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A reader, validator or parser under test.

    Args:
        name: Of the target, its module and its folder of seeds.
        subject: What it feeds to what, in a few words.
        run: Takes an input and counts what became of it; raises only for findings.
        modules: Names of the modules whose lines it is meant to reach; a package means all in it.
        size_bytes_max: Of an input.
        reaches: Outcomes without which a search was empty: of sound inputs, at their furthest.
        dictionary: Byte strings that mutations may put in.
        mutate: Makes another input of one: (data, most bytes, seed, libFuzzer's own mutation).
    """

    name: str
    subject: str
    run: Callable[[bytes, Outcomes], None]
    modules: tuple[str, ...]
    size_bytes_max: int
    reaches: tuple[str, ...]
    dictionary: tuple[bytes, ...] = ()
    mutate: Callable[[bytes, int, int, ByteMutator], bytes] | None = None

    @property
    def seeds_folder(self) -> Path:
        """Where the inputs lie that the search begins with."""
        return SEEDS_FOLDER / self.name

    def seeds(self) -> list[bytes]:
        """Return the inputs that the search begins with, by name; a target may have none."""
        if not self.seeds_folder.is_dir():
            return []
        return [path.read_bytes() for path in sorted(self.seeds_folder.iterdir())]
