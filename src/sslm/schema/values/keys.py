"""Languages of keys, by the patterns that they match."""

from sslm.errors.schema import (
    PatternSyntaxError,
    UnsatisfiableSchemaError,
    UnsupportedPatternError,
)
from sslm.schema.documents.canonical import canonical_json
from sslm.schema.regular.compiler import LanguageCompiler
from sslm.schema.regular.language import Both, Bytes, Language, Sequence, Without, either
from sslm.schema.values.patterns import pattern_language
from sslm.schema.values.strings import any_text


class KeyLanguages:
    """The languages of the keys of all places, each made once.

    Args:
        compiler: Decides which of them have a key.
    """

    def __init__(self, compiler: LanguageCompiler) -> None:
        self._compiler = compiler
        self._any = any_text()
        self._patterns: dict[str, Language | None] = {}
        self._matches: dict[tuple[str, str], bool] = {}
        self._free: dict[tuple[object, ...], Language] = {}

    def matching(self, key: str, patterns: tuple[str, ...]) -> frozenset[str]:
        """Return those of *patterns* that *key* matches."""
        return frozenset(pattern for pattern in patterns if self._is_match(key, pattern))

    def has_keys(
        self, names: tuple[str, ...], patterns: tuple[str, ...], matched: frozenset[str]
    ) -> bool:
        """Tell whether a key besides *names* matches exactly *matched* of *patterns*."""
        return not self._compiler.is_empty(self.free(names, patterns, matched))

    def free(
        self, names: tuple[str, ...], patterns: tuple[str, ...], matched: frozenset[str]
    ) -> Language:
        """Return the keys, as written with quotes, besides *names* of one class of patterns.

        A pattern that cannot be an automaton is left out: the schema that has it is refused.
        """
        key = (names, patterns, matched)
        if key not in self._free:
            content = self._any
            wanted = [self._language(one) for one in patterns if one in matched]
            if kept := [one for one in wanted if one is not None]:
                content = Both((content, *kept))
            removed: list[Language] = [Bytes(canonical_json(name)[1:-1]) for name in names]
            for pattern in patterns:
                unwanted = self._language(pattern)
                if pattern not in matched and unwanted is not None:
                    removed.append(unwanted)
            if removed:
                content = Without(content, either(removed))
            self._free[key] = Sequence((Bytes(b'"'), content, Bytes(b'"')))
        return self._free[key]

    def _is_match(self, key: str, pattern: str) -> bool:
        at = (key, pattern)
        if at not in self._matches:
            language = self._language(pattern)
            text = canonical_json(key)[1:-1]
            try:
                matches = language is not None and self._compiler.automaton(language).matches(text)
            except UnsatisfiableSchemaError:
                matches = False
            self._matches[at] = matches
        return self._matches[at]

    def _language(self, pattern: str) -> Language | None:
        if pattern not in self._patterns:
            try:
                self._patterns[pattern] = pattern_language(pattern)
            except (PatternSyntaxError, UnsupportedPatternError):
                self._patterns[pattern] = None
        return self._patterns[pattern]
