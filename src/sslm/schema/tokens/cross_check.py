"""Whether the tables of a vocabulary are those that an automaton gives."""

from collections.abc import Iterable

from sslm.schema.regular.budget import Report
from sslm.schema.tokens.spans import FREE, Split
from sslm.schema.tokens.step_table import NO_STATE
from sslm.schema.tokens.tables import TokenTables, build_token_tables
from sslm.schema.tokens.trie import TokenTrie


def first_difference(
    tables: TokenTables,
    trie: TokenTrie,
    split: Split | None,
    *,
    leaves_blank: bool = False,
    report: Report = lambda what, done, total: None,
) -> tuple[str, int] | None:
    """Work tables out again, and return what differs first, and in which state; or None.

    Takes as long as building them.

    Args:
        tables: Of an automaton that was checked; what is asked is whether the rest belongs to it.
        trie: The vocabulary's content.
        split: The tokenizer's own, or None if spans without a choice are spelled anyhow.
        leaves_blank: Whether a blank at the end of a span is left to the choice behind it.
        report: Told how far it is; what it raises ends it.

    Raises:
        SchemaError: What building them raises.
    """
    expected = build_token_tables(
        tables.table, trie, split, leaves_blank=leaves_blank, report=report
    )
    pairs: tuple[tuple[str, Iterable[object], Iterable[object]], ...] = (
        ("the only token", tables.only.tokens, expected.only.tokens),
        ("what the only token leads to", tables.only.targets, expected.only.targets),
        ("the distance to an end", tables.distances, expected.distances),
        ("the mask", _masks_by_state(tables), _masks_by_state(expected)),
    )
    for what, found, right in pairs:
        for state, (one, other) in enumerate(zip(found, right, strict=True)):
            if one != other:
                return what, state
    return None


def _masks_by_state(tables: TokenTables) -> Iterable[bytes | None]:
    for state, index in enumerate(tables.mask_indices):
        has_mask = index != NO_STATE and tables.only.tokens[state] == FREE
        yield tables.masks[index] if has_mask else None
