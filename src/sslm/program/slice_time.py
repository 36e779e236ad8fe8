"""How long a slice may take."""

from collections.abc import Callable, Iterator

from sslm.program.program import Program, SegmentKind


class SliceTime:
    """Ends a slice before a unit that might take it beyond its time, and notes what units took.

    The first unit of a slice runs in any case. No result depends on it, only how far a slice goes.

    Args:
        clock: Returns nanoseconds.
        work_clock: Returns those of the calling thread's work.
        deadline_ns: When the slice has to end, by the clock.
        unit_ns: What a unit of it may take, as far as is known.

    Attributes:
        unit_ns: As given, or as long as the longest unit took.
        layer_ns: What the longest layer took, 0 if none was run.
        block_ns: What the longest block of the head took, likewise.
        began_ns: When its work began, by the clock of work.
        ended_ns: When that ended, likewise.
    """

    def __init__(
        self,
        clock: Callable[[], int],
        work_clock: Callable[[], int],
        *,
        deadline_ns: int,
        unit_ns: int,
    ) -> None:
        self._clock = clock
        self._work_clock = work_clock
        self._deadline_ns = deadline_ns
        self._has_begun = False
        self.unit_ns = unit_ns
        self.layer_ns = self.block_ns = 0
        self.began_ns = self.ended_ns = 0

    def begin(self) -> None:
        """Note that its work begins."""
        self.began_ns = self._work_clock()

    def end(self) -> None:
        """Note that its work has ended."""
        self.ended_ns = self._work_clock()

    @property
    def left_ns(self) -> int:
        """Nanoseconds from now on, at least 1."""
        return max(1, self._deadline_ns - self._clock())

    def segments(self, program: Program, first: int, last: int) -> Iterator[int]:
        """Yield the segments first … last - 1, each after the one before, while time is left.

        None at all if a run of the same slice was before it, and its time is over.
        """
        started_ns = self._clock()
        if self._has_begun and not self._has_room(started_ns):
            return
        self._has_begun = True
        for index in range(first, last):
            yield index
            if _ends_unit(program, index):
                now_ns = self._clock()
                self._note(now_ns - started_ns, is_layer=index < program.first_head_index)
                started_ns = now_ns
                if not self._has_room(now_ns):
                    return

    def longest_ns(self, kind: SegmentKind) -> int:
        """Return what the longest unit of a kind took, 0 if none was run."""
        return self.block_ns if kind is SegmentKind.HEAD else self.layer_ns

    def _has_room(self, now_ns: int) -> bool:
        return now_ns + self.unit_ns <= self._deadline_ns

    def _note(self, elapsed_ns: int, *, is_layer: bool) -> None:
        self.unit_ns = max(self.unit_ns, elapsed_ns)
        if is_layer:
            self.layer_ns = max(self.layer_ns, elapsed_ns)
        else:
            self.block_ns = max(self.block_ns, elapsed_ns)


def _ends_unit(program: Program, index: int) -> bool:
    """Tell whether a unit ends behind a segment: embedding and selection belong to neighbours."""
    following = program.segments[index + 1 : index + 2]
    is_before_select = any(segment.kind is SegmentKind.SELECT for segment in following)
    return program.segments[index].kind is not SegmentKind.EMBED and not is_before_select
