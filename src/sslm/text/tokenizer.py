"""Text to token ids and back."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Final, Protocol

from sslm import limits
from sslm.errors.runtime import ContextLengthError, PaddingTokenIdError, TokenIdTypeError
from sslm.errors.showing import briefly
from sslm.errors.text import TextTooLongError, TextTypeError, TextUnicodeError, TokenizerIdError
from sslm.text.special_tokens import SpecialTokenFinder
from sslm.text.structure import structure_of
from sslm.text.text_bounds import TextBounds
from sslm.text.vocabulary import (
    TokenizerKind,
    TokenType,
    Vocabulary,
    byte_of_byte_token,
    bytes_of_spelling,
)

_UNBOUNDED: Final = TextBounds()


def _unbounded() -> None:
    """Let a text take its time."""


class _Encoder(Protocol):
    """Turns plain text into ids."""

    def encode(self, text: str, require_time: Callable[[], None]) -> list[int]:
        """Return the ids of *text*; *require_time* is called every now and then, to stop."""
        ...


class Tokenizer:
    """Turns text into the token ids of one vocabulary, and ids into bytes and text.

    Control tokens stand for structure, never for text: :meth:`encode` takes their spellings
    literally, and only :meth:`encode_with_controls` recognises them. User-defined tokens are
    text with an id of its own, and are found by both.

    Safe to share between threads. Building one takes about 0.1 s for 49,152 tokens.

    Args:
        vocabulary: Of the model.
        chat_template: Its source, whose markers are control tokens; or None.
        padding_count: Ids behind those of the vocabulary that the model has rows for.
        bounds: What a text may take; they are not sent with a pickled tokenizer. By default there
            is no bound but the memory that the system leaves.

    Attributes:
        vocabulary: As given.
        control_ids: The id of each control token, by its spelling: those of
            :func:`sslm.text.structure.structure_of`.
        controls: Finds their spellings.
        end_token_ids: Every id that ends an answer.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        chat_template: str | None = None,
        padding_count: int = 0,
        bounds: TextBounds = _UNBOUNDED,
    ) -> None:
        self.vocabulary = vocabulary
        self._padding_count = padding_count
        self._bounds = bounds
        self._chat_template = chat_template
        structure = structure_of(vocabulary, chat_template)
        self._encoder = _encoder_for(vocabulary, structure.control_ids)
        self._token_size_chars_max = max(1, *map(len, vocabulary.tokens))
        self.end_token_ids = structure.end_token_ids
        self.control_ids: Mapping[str, int] = MappingProxyType(
            {
                vocabulary.tokens[token_id]: token_id
                for token_id in structure.control_ids
                if vocabulary.tokens[token_id]
            }
        )
        self.controls = SpecialTokenFinder(self.control_ids)
        self._user_defined = SpecialTokenFinder(
            {
                vocabulary.tokens[token_id]: token_id
                for token_id in vocabulary.ids_of_type(TokenType.USER_DEFINED)
                if vocabulary.tokens[token_id]
                and vocabulary.tokens[token_id] not in self.control_ids
            }
        )

    def __reduce__(self) -> tuple[type["Tokenizer"], tuple[Vocabulary, str | None, int]]:
        """Send what the tokenizer is made of; whoever receives it builds it again."""
        return Tokenizer, (self.vocabulary, self._chat_template, self._padding_count)

    @property
    def vocab_size(self) -> int:
        """The number of tokens; ids are below it."""
        return len(self.vocabulary.tokens)

    def encode(
        self,
        text: str,
        *,
        add_bos: bool | None = None,
        add_eos: bool | None = None,
        require_time: Callable[[], None] = _unbounded,
    ) -> list[int]:
        """Return the ids of *text*, in which nothing is a control token.

        Args:
            text: Valid Unicode, at most ``limits.TEXT_SIZE_CHARS_MAX`` characters. It is not
                normalized. Empty text has no ids of its own.
            add_bos: Whether the begin token goes in front; None does as the vocabulary says.
            add_eos: Whether the end token goes behind; None does as the vocabulary says.
            require_time: Called every now and then, and raises to stop. Plain text of a byte-level
                vocabulary that no special token interrupts is tokenized without a call.

        Raises:
            TextTypeError: If *text* is no ``str``.
            TextUnicodeError: If it holds a lone surrogate.
            TextTooLongError: If it is longer than the limit.
            TextBytesError, TokenizerMemoryError: As :meth:`admitted`.
            TextNotEncodableError: If the vocabulary has no token for one of its bytes.
        """
        checked = checked_text("the text", text)
        with self.admitted("the text", checked):
            ids = self.encode_parts([checked], require_time)
        return self._framed(ids, add_bos=add_bos, add_eos=add_eos)

    def admitted(self, what: str, text: str) -> AbstractContextManager[None]:
        """Return the block in which a text may be given to :meth:`encode_parts`.

        Raises:
            TextBytesError: If it has more bytes than the bounds allow.
            TokenizerMemoryError: If there may not be the memory to tokenize it.
        """
        return self._bounds.admitted(what, text)

    def require_room(self, text: str, *, context_tokens: int, model_tokens: int) -> None:
        """Raise if *text* is seen to be too long for a context, at once and without tokenizing it.

        No token stands for more characters than its spelling has: in the byte alphabet each
        character is a byte, and so at most one of the text; a byte token is part of one; all other
        tokens are spelled as the text is. Nothing is normalized away before.

        Args:
            text: Any.
            context_tokens: Most tokens of prompt and answer.
            model_tokens: Of the largest context that the model allows, for the error.

        Raises:
            ContextLengthError: If no tokens of this vocabulary could spell the text with one
                position left for an answer; its ``needed_tokens`` is a lower bound.
        """
        least = -(-len(text) // self._token_size_chars_max) + 1
        if least > context_tokens:
            raise ContextLengthError(least, context_tokens, model_tokens)

    def encode_with_controls(
        self, text: str, *, add_bos: bool | None = None, add_eos: bool | None = None
    ) -> list[int]:
        """Return the ids of *text*, all of it trusted: control tokens in it are recognised.

        Arguments and errors are those of :meth:`encode`. For text that holds what others wrote,
        see :func:`sslm.text.chat_encoding.encode_chat`.
        """
        checked = checked_text("the text", text)
        with self.admitted("the text", checked):
            ids = self.encode_parts(self.split_controls(checked))
        return self._framed(ids, add_bos=add_bos, add_eos=add_eos)

    def split_controls(
        self, text: str, require_time: Callable[[], None] = _unbounded
    ) -> Iterator[str | int]:
        """Yield the ids of the control tokens spelled in *text*, and the plain text between."""
        return self.controls.split(text, require_time)

    def encode_parts(
        self, parts: Iterable[str | int], require_time: Callable[[], None] = _unbounded
    ) -> list[int]:
        """Return the ids of *parts*: control token ids as they are, each string as plain text.

        Within the block of :meth:`admitted`. Two strings must not follow one another: they would
        not merge across the border. For *require_time* see :meth:`encode`.
        """
        ids: list[int] = []
        for part in parts:
            if isinstance(part, int):
                ids.append(part)
                continue
            for piece in self._user_defined.split(part, require_time):
                if isinstance(piece, int):
                    ids.append(piece)
                else:
                    ids += self._encode_plain(piece, require_time)
        return ids

    def encode_continuation(self, text: str) -> list[int]:
        """Return the ids of plain text that goes on behind other text: nothing comes first.

        Errors are those of :meth:`encode`.
        """
        ids: list[int] = []
        checked = checked_text("the text", text)
        with self.admitted("the text", checked):
            for piece in self._user_defined.split(checked):
                if isinstance(piece, int):
                    ids.append(piece)
                else:
                    ids += self._encoder.encode(piece, _unbounded)
        return ids

    def token_bytes(self, token_id: int) -> bytes:
        """Return the UTF-8 bytes, not always whole characters, that *token_id* adds to a text.

        Tokens that stand for no text (control, unknown, unused) have none. The bytes of a text
        are those of its tokens joined, less the space prefix where the vocabulary has one.

        Raises:
            TokenizerIdError: If *token_id* is not in the vocabulary.
            PaddingTokenIdError: If it only pads the model's vocabulary.
            TokenIdTypeError: If it is no ``int``.
        """
        spelling, kind = self.spelling(token_id), self.vocabulary.token_types[token_id]
        if kind == TokenType.USER_DEFINED:
            return spelling.encode()
        if kind == TokenType.BYTE:
            byte = byte_of_byte_token(spelling)
            return b"" if byte is None else bytes([byte])
        if kind != TokenType.NORMAL:
            return b""
        if self.vocabulary.kind is TokenizerKind.BYTE_BPE:
            return bytes_of_spelling(spelling)
        return spelling.replace("\u2581", " ").encode()

    def spelling(self, token_id: int) -> str:
        """Return how the vocabulary spells *token_id*, for showing it; errors as token_bytes."""
        return self._spelling_at(0, token_id)

    def _spelling_at(self, index: int, token_id: int) -> str:
        # A truth value is no id, though Python counts it.
        if not isinstance(token_id, int) or isinstance(token_id, bool):
            raise TokenIdTypeError(briefly(token_id), index, type(token_id).__name__)
        if 0 <= token_id - self.vocab_size < self._padding_count:
            size = self.vocab_size + self._padding_count
            raise PaddingTokenIdError(token_id, index, self.vocab_size - 1, size)
        if not 0 <= token_id < self.vocab_size:
            raise TokenizerIdError(token_id, self.vocab_size - 1)
        return self.vocabulary.tokens[token_id]

    def decode_bytes(self, ids: Sequence[int], *, is_continuation: bool = False) -> bytes:
        """Return the bytes of *ids*, which need not be whole characters.

        Args:
            ids: Any ids of the vocabulary.
            is_continuation: True if other text comes before, so that a leading space counts.
        """
        for index, token_id in enumerate(ids):
            self._spelling_at(index, token_id)
        data = b"".join(map(self.token_bytes, ids))
        is_prefixed = self.vocabulary.add_space_prefix and not is_continuation
        return data.removeprefix(b" ") if is_prefixed else data

    def decode(self, ids: Sequence[int], *, is_continuation: bool = False) -> str:
        """Return the text of *ids*; bytes that are no UTF-8 become U+FFFD.

        Arguments are those of :meth:`decode_bytes`.
        """
        return self.decode_bytes(ids, is_continuation=is_continuation).decode(errors="replace")

    def _encode_plain(self, text: str, require_time: Callable[[], None]) -> list[int]:
        # The prefix goes before each run of plain text: the first, and after every special token.
        prefixed = " " + text if self.vocabulary.add_space_prefix else text
        return self._encoder.encode(prefixed, require_time)

    def _framed(self, ids: list[int], *, add_bos: bool | None, add_eos: bool | None) -> list[int]:
        vocabulary = self.vocabulary
        begins = vocabulary.add_bos if add_bos is None else add_bos
        ends = vocabulary.add_eos if add_eos is None else add_eos
        bos = [vocabulary.bos_token_id] if begins and vocabulary.bos_token_id is not None else []
        eos = [vocabulary.eos_token_id] if ends and vocabulary.eos_token_id is not None else []
        return [*bos, *ids, *eos]


def checked_text(what: str, text: object) -> str:
    """Return *text* if it is a ``str`` of valid Unicode within the limit; *what* names it.

    Raises:
        TextTypeError, TextTooLongError, TextUnicodeError: As their names say.
    """
    if not isinstance(text, str):
        raise TextTypeError(what, type(text).__name__)
    if len(text) > limits.TEXT_SIZE_CHARS_MAX:
        raise TextTooLongError(what, len(text), limits.TEXT_SIZE_CHARS_MAX)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TextUnicodeError(what, ord(text[error.start]), error.start) from None
    return text


def _encoder_for(vocabulary: Vocabulary, control_ids: Iterable[int]) -> _Encoder:
    if vocabulary.kind is TokenizerKind.BYTE_BPE:
        from sslm.text.byte_bpe import ByteBpeEncoder

        return ByteBpeEncoder(vocabulary, control_ids)
    from sslm.text.sentencepiece import SentencePieceEncoder

    return SentencePieceEncoder(vocabulary)
