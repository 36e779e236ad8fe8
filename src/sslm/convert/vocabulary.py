"""The vocabulary of a GGUF file.

Keys and defaults are those of GGUF's specification (ggml, docs/gguf.md) and of llama.cpp: what it
makes of a file is what the file means.
"""

from typing import Final

from sslm import limits
from sslm.errors.text import MergePartError, TokenizerUnsupportedError, TokenTypeError
from sslm.formats.gguf.metadata import GgufMetadata
from sslm.text.vocabulary import (
    BYTE_OF_CHARACTER,
    PreTokenizer,
    TokenizerKind,
    TokenType,
    Vocabulary,
    byte_of_byte_token,
)

_MODEL_KEY: Final = "tokenizer.ggml.model"
_PRE_KEY: Final = "tokenizer.ggml.pre"
_TOKENS_KEY: Final = "tokenizer.ggml.tokens"
_TYPES_KEY: Final = "tokenizer.ggml.token_type"
_SCORES_KEY: Final = "tokenizer.ggml.scores"
_MERGES_KEY: Final = "tokenizer.ggml.merges"
_TEMPLATE_KEY: Final = "tokenizer.chat_template"
_NAME_SIZE_BYTES_MAX: Final = 1024

_KINDS: Final = {"gpt2": TokenizerKind.BYTE_BPE, "llama": TokenizerKind.SENTENCEPIECE}
_BYTE_BPE_RULES: Final[dict[str, PreTokenizer]] = {
    **{rule.value: rule for rule in PreTokenizer if rule is not PreTokenizer.DEFAULT},
    "llama3": PreTokenizer.LLAMA_BPE,
    "llama-v3": PreTokenizer.LLAMA_BPE,
}
_SENTENCEPIECE_RULES: Final[dict[str, PreTokenizer]] = {
    "default": PreTokenizer.DEFAULT,
    "llama": PreTokenizer.DEFAULT,
}

# Control tokens so spelled end an answer even if no key names them. The last three end a document
# of code, after which an answer has nothing more to say.
_END_SPELLINGS: Final = frozenset(
    {
        "<|im_end|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|end|>",
        "<|end_of_text|>",
        "<|endoftext|>",
        "<|eos|>",
        "<end_of_turn>",
        "<turn|>",
        "<EOT>",
        "</s>",
        "<|fim_pad|>",
        "<|repo_name|>",
        "<|file_sep|>",
    }
)


def vocabulary_from_gguf(metadata: GgufMetadata) -> Vocabulary:
    """Return the vocabulary that *metadata* describes.

    Raises:
        TokenizerUnsupportedError: If the file's tokenizer or pre-tokenizer is not one we have.
        ArtifactError: Of the class for the defect found; see sslm.errors.text for those of
            vocabularies and sslm.errors.gguf for missing or mistyped keys.
    """
    kind, rule = _algorithm(metadata)
    tokens = metadata.strings(_TOKENS_KEY, at_most=limits.VOCAB_SIZE_MAX)
    token_types = _token_types(metadata, kind, tokens)
    is_sentencepiece = kind is TokenizerKind.SENTENCEPIECE
    if is_sentencepiece:
        scores = metadata.f32_array(_SCORES_KEY, at_most=limits.VOCAB_SIZE_MAX)
        merges: tuple[tuple[int, int], ...] = ()
    else:
        scores = ()
        merges = _merges(metadata, tokens)
    eos_token_id = _named_id(metadata, "eos", 2 if is_sentencepiece else None)
    adds_bos_unless_told = is_sentencepiece or rule is PreTokenizer.LLAMA_BPE
    return Vocabulary(
        kind=kind,
        pre_tokenizer=rule,
        tokens=tokens,
        token_types=token_types,
        scores=scores,
        merges=merges,
        ignore_merges=rule is PreTokenizer.LLAMA_BPE,
        bos_token_id=_named_id(metadata, "bos", 1 if is_sentencepiece else None),
        eos_token_id=eos_token_id,
        unknown_token_id=_named_id(metadata, "unknown", 0 if is_sentencepiece else None),
        padding_token_id=_named_id(metadata, "padding", None),
        end_token_ids=_end_token_ids(metadata, tokens, token_types, eos_token_id),
        add_bos=metadata.boolean_or("tokenizer.ggml.add_bos_token", adds_bos_unless_told),
        add_eos=metadata.boolean_or("tokenizer.ggml.add_eos_token", default=False),
        add_space_prefix=is_sentencepiece
        and metadata.boolean_or("tokenizer.ggml.add_space_prefix", default=True),
    )


def chat_template_from_gguf(metadata: GgufMetadata) -> str | None:
    """Return the source of the chat template in *metadata*, or None if it has none."""
    return metadata.string_or(
        _TEMPLATE_KEY, None, at_most=limits.CHAT_TEMPLATE_SIZE_CHARS_MAX, at_least=1
    )


def _algorithm(metadata: GgufMetadata) -> tuple[TokenizerKind, PreTokenizer]:
    model = metadata.string(_MODEL_KEY, at_most=_NAME_SIZE_BYTES_MAX)
    kind = _KINDS.get(model)
    if kind is None:
        raise TokenizerUnsupportedError(_MODEL_KEY, model, ", ".join(sorted(_KINDS)))
    if kind is TokenizerKind.SENTENCEPIECE:
        rules, unless_told = _SENTENCEPIECE_RULES, "default"
    else:
        # A file without the key predates it, and does not say how its text is cut.
        rules, unless_told = _BYTE_BPE_RULES, ""
    name = metadata.string_or(_PRE_KEY, unless_told, at_most=_NAME_SIZE_BYTES_MAX)
    rule = rules.get(name)
    if rule is None:
        supported = f"for the model {model!r}: " + ", ".join(sorted(rules))
        raise TokenizerUnsupportedError(_PRE_KEY, name, supported)
    return kind, rule


def _token_types(metadata: GgufMetadata, kind: TokenizerKind, tokens: tuple[str, ...]) -> bytes:
    if _TYPES_KEY not in metadata:
        return bytes(_type_unless_told(kind, spelling) for spelling in tokens)
    found = metadata.i32_array(_TYPES_KEY, at_most=limits.VOCAB_SIZE_MAX)
    try:
        return bytes(found)
    except ValueError:
        token_id = next(index for index, one in enumerate(found) if not 0 <= one <= 255)
        raise TokenTypeError(token_id, found[token_id]) from None


def _type_unless_told(kind: TokenizerKind, spelling: str) -> TokenType:
    """Return the type of a token in a file without types: normal, as llama.cpp has it.

    It finds byte tokens by their spelling all the same; and a normal token of a byte-level
    vocabulary cannot hold a character that stands for no byte.
    """
    if kind is TokenizerKind.SENTENCEPIECE:
        return TokenType.NORMAL if byte_of_byte_token(spelling) is None else TokenType.BYTE
    is_byte_level = BYTE_OF_CHARACTER.keys() >= set(spelling)
    return TokenType.NORMAL if is_byte_level else TokenType.USER_DEFINED


def _merges(metadata: GgufMetadata, tokens: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    ids = {spelling: token_id for token_id, spelling in enumerate(tokens)}
    pairs = []
    for index, text in enumerate(metadata.strings(_MERGES_KEY, at_most=limits.MERGE_COUNT_MAX)):
        # Byte-level spellings hold no space, so the first one separates the parts.
        left, _, right = text.partition(" ")
        if left not in ids or right not in ids:
            part = right if left in ids else left
            raise MergePartError(index, repr(part[: limits.TOKEN_SIZE_CHARS_MAX]))
        pairs.append((ids[left], ids[right]))
    return tuple(pairs)


def _named_id(metadata: GgufMetadata, name: str, unless_told: int | None) -> int | None:
    key = f"tokenizer.ggml.{name}_token_id"
    return metadata.u32_or(key, unless_told, at_most=limits.VOCAB_SIZE_MAX)


def _end_token_ids(
    metadata: GgufMetadata, tokens: tuple[str, ...], token_types: bytes, eos_token_id: int | None
) -> tuple[int, ...]:
    declared = {eos_token_id, *(_named_id(metadata, name, None) for name in ("eot", "eom"))}
    by_spelling = {
        token_id
        for token_id, (spelling, kind) in enumerate(zip(tokens, token_types, strict=False))
        if kind == TokenType.CONTROL and spelling in _END_SPELLINGS
    }
    return tuple(sorted({token_id for token_id in declared | by_spelling if token_id is not None}))
