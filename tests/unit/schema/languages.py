"""What an expression means, said a second time and as plainly as can be; and random expressions."""

from itertools import product

from hypothesis import strategies as st

from sslm.schema.regular.language import (
    Both,
    Bytes,
    Either,
    ExactlyOne,
    Language,
    Named,
    Nothing,
    OneOf,
    Repeat,
    Sequence,
    Shortest,
    Whole,
    Without,
)

ALPHABET = b"ab"
LENGTH = 5
UNIVERSE = [bytes(one) for n in range(LENGTH + 1) for one in product(ALPHABET, repeat=n)]


def strings(  # noqa: PLR0911, PLR0912 - one branch a kind of expression
    language: Language, longest: int = LENGTH
) -> frozenset[bytes]:
    """Return all strings of an expression that have at most *longest* bytes of the alphabet."""

    def joined(left: frozenset[bytes], right: frozenset[bytes]) -> frozenset[bytes]:
        return frozenset(a + b for a in left for b in right if len(a) + len(b) <= longest)

    match language:
        case Nothing():
            return frozenset()
        case Bytes(value):
            return frozenset({value} if len(value) <= longest else ())
        case OneOf(ranges):
            return frozenset(
                bytes([b]) for b in ALPHABET for low, high in ranges if low <= b <= high
            )
        case Sequence(parts):
            found = frozenset({b""})
            for part in parts:
                found = joined(found, strings(part, longest))
            return found
        case Either(parts):
            return frozenset().union(*(strings(part, longest) for part in parts))
        case Repeat(part, least, most):
            once, level, found = strings(part, longest), frozenset({b""}), frozenset[bytes]()
            # Beyond this many repetitions nothing new is short enough.
            for count in range(least + longest + 2 if most is None else most + 1):
                if count >= least:
                    found |= level
                level = joined(level, once)
            return found
        case Both(parts):
            return frozenset.intersection(*(strings(part, longest) for part in parts))
        case Without(base, removed):
            return strings(base, longest) - strings(removed, longest)
        case ExactlyOne(parts):
            sets = [strings(part, longest) for part in parts]
            return frozenset(s for s in frozenset().union(*sets) if sum(s in o for o in sets) == 1)
        case Shortest(part):
            inside = strings(part, longest)
            return frozenset(s for s in inside if not any(s[:n] in inside for n in range(len(s))))
        case Whole(part) | Named(part):
            return strings(part, longest)
    raise TypeError(f"{language!r} is no language")


def _combined(parts: st.SearchStrategy[Language]) -> st.SearchStrategy[Language]:
    some = st.lists(parts, max_size=3).map(tuple)
    few = st.lists(parts, min_size=1, max_size=3).map(tuple)
    counts = st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 4)))
    return st.one_of(
        st.builds(Sequence, some),
        st.builds(Either, some),
        st.builds(lambda part, pair: Repeat(part, *pair), parts, counts),
        st.builds(Both, few),
        st.builds(Without, parts, parts),
        st.builds(ExactlyOne, some),
        st.builds(Shortest, parts),
        st.builds(Whole, parts),
        st.builds(Named, parts, st.just("somewhere")),
    )


BASES: st.SearchStrategy[Language] = st.one_of(
    st.just(Nothing()),
    st.builds(Bytes, st.binary(max_size=2).map(lambda b: bytes(ALPHABET[x & 1] for x in b))),
    st.sampled_from([OneOf(((97, 97),)), OneOf(((97, 98),)), OneOf(((98, 98), (97, 97)))]),
)

LANGUAGES = st.recursive(BASES, _combined, max_leaves=8)
