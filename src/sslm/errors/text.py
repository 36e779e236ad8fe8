"""What can be wrong with a text, a vocabulary or a chat template."""

from typing import ClassVar, Final

from sslm.errors.base import ArgumentError, ArtifactError, ResourceError
from sslm.errors.causes import Cause, ManyCausesError
from sslm.errors.status import Status


class TextTypeError(ArgumentError):
    """Something that has to be a text is not a ``str``."""

    status = Status.TEXT_TYPE
    message = "{what} has to be a str, found {found}; decode bytes before passing them"
    what: str
    found: str


class TextUnicodeError(ArgumentError):
    """A text holds a lone surrogate, so that it has no UTF-8 form."""

    status = Status.TEXT_UNICODE
    message = (
        "{what} holds the lone surrogate U+{code_point:04X} at character {position}: the text was "
        "not valid Unicode where it came from; decode it with errors='replace' or repair it"
    )
    what: str
    code_point: int
    position: int


class TextTooLongError(ArgumentError):
    """A text has more characters than this package tokenizes or renders."""

    status = Status.TEXT_TOO_LONG
    message = "{what} has {size_chars} characters, the limit is {limit_chars}"
    what: str
    size_chars: int
    limit_chars: int


class TextBytesError(ArgumentError):
    """A text has more bytes than the model was opened for."""

    status = Status.TEXT_BYTES
    message = (
        "{what} has {size_bytes} bytes of UTF-8, and text_bytes allows {limit_bytes}; shorten it, "
        "or open the model with a larger text_bytes"
    )
    what: str
    size_bytes: int
    limit_bytes: int


_TOO_MUCH: Final = Cause(
    "TokenizerMemoryError",
    "{task} may take {needed_bytes} bytes of memory for a moment, and {what} leaves {free_bytes}; "
    "give it less text, or raise that limit",
    ("task", "needed_bytes", "what", "free_bytes"),
)


class TokenizerMemoryError(ManyCausesError, ResourceError):
    """There may not be the memory to tokenize a text, or to build a tokenizer."""

    causes: ClassVar = dict.fromkeys(
        (Status.TOKENIZER_MEMORY_BUDGET, Status.TOKENIZER_ADDRESS_SPACE), _TOO_MUCH
    )


class TextNotEncodableError(ArgumentError):
    """A text needs a byte for which the vocabulary has no token."""

    status = Status.TEXT_NOT_ENCODABLE
    message = (
        "the vocabulary has no token for byte 0x{byte:02X}, which the text needs "
        "(UTF-8 of {character!r}); remove that character"
    )
    byte: int
    character: str


class TokenizerFailedError(ArgumentError):
    """The tokenizer library gave up on a text that passed every check."""

    status = Status.TOKENIZER_FAILED
    message = "the tokenizer library failed on a text of {size_chars} characters: {reason}"
    size_chars: int
    reason: str


class TokenizerBuildError(ArtifactError):
    """The tokenizer library gave up on a vocabulary that passed every check."""

    status = Status.TOKENIZER_BUILD
    message = "the tokenizer library failed on a vocabulary of {token_count} tokens: {reason}"
    token_count: int
    reason: str


class TokenizerIdError(ArgumentError):
    """A token id is not one of the vocabulary."""

    status = Status.TOKENIZER_ID
    message = "token id {token_id} is not in the vocabulary, whose ids are 0 to {last_id}"
    token_id: int
    last_id: int


class MessageRoleError(ArgumentError):
    """A chat message has a role that chat templates do not know."""

    status = Status.MESSAGE_ROLE
    message = "the role of a message has to be one of {roles}, found {found!r}"
    found: str
    roles: tuple[str, ...]


class MessageFieldError(ArgumentError):
    """A chat message is not made of exactly the fields ``role`` and ``content``."""

    status = Status.MESSAGE_FIELD
    message = "a message has exactly the text fields 'role' and 'content': {problem}"
    problem: str


class MessageCountError(ArgumentError):
    """A conversation has no messages, or too many."""

    status = Status.MESSAGE_COUNT
    message = "a conversation has from 1 to {limit} messages, found {count}"
    count: int
    limit: int


class ChatRefusedError(ArgumentError):
    """The chat template itself refuses the conversation."""

    status = Status.CHAT_REFUSED
    message = "the model's chat template refuses this conversation: {reason}"
    reason: str


class TemplateWorkError(ArgumentError):
    """Rendering a template would take more work or memory than it may."""

    status = Status.TEMPLATE_WORK
    message = "the chat template asks for {what}, beyond the limit of {limit}; rendering stopped"
    what: str
    limit: int


class VocabularySizeError(ArtifactError):
    """A vocabulary has no entries, or more than it may."""

    status = Status.VOCABULARY_SIZE
    message = "the vocabulary has {count} {what}, expected from {least} to {most}"
    what: str
    count: int
    least: int
    most: int


class VocabularyCountError(ArtifactError):
    """The lists of a vocabulary differ in length."""

    status = Status.VOCABULARY_COUNT
    message = "the vocabulary has {token_count} tokens but {count} {what}; one each is needed"
    what: str
    count: int
    token_count: int


class TokenSpellingError(ArtifactError):
    """A token is too long, or not valid Unicode."""

    status = Status.TOKEN_SPELLING
    message = "token {token_id} {problem}"
    token_id: int
    problem: str


class DuplicateTokenError(ArtifactError):
    """Two tokens of a vocabulary are spelled alike."""

    status = Status.TOKEN_DUPLICATE
    message = "tokens {first_id} and {second_id} are both spelled {spelling!r}"
    first_id: int
    second_id: int
    spelling: str


class TokenTypeError(ArtifactError):
    """A token has a type that vocabularies do not have."""

    status = Status.TOKEN_TYPE
    message = "token {token_id} has the type {found}, expected a number from 1 to 6"
    token_id: int
    found: int


class ByteTokenError(ArtifactError):
    """A byte token is not spelled as one, or stands where none belongs."""

    status = Status.BYTE_TOKEN
    message = (
        "token {token_id}, {spelling!r}, is declared a byte token; those are spelled <0x00> to "
        "<0xFF> (upper-case digits) and belong to SentencePiece vocabularies only"
    )
    token_id: int
    spelling: str


class ByteTokensMissingError(ArtifactError):
    """A SentencePiece vocabulary does not have all 256 byte tokens."""

    status = Status.BYTE_TOKENS_MISSING
    message = (
        "the vocabulary has {count} of the 256 byte tokens, so that some texts have no tokens; "
        "the first one missing is <0x{first_missing:02X}>"
    )
    count: int
    first_missing: int


class TokenNotByteLevelError(ArtifactError):
    """A token of a byte-level vocabulary holds a character that stands for no byte."""

    status = Status.TOKEN_NOT_BYTE_LEVEL
    message = "token {token_id}, {spelling!r}, holds {character!r}, which stands for no byte"
    token_id: int
    spelling: str
    character: str


class MergePartError(ArtifactError):
    """A merge joins something that is not a plain token."""

    status = Status.MERGE_PART
    message = "merge {merge_index} joins {part}, which is not an ordinary token of the vocabulary"
    merge_index: int
    part: str


class MergeResultError(ArtifactError):
    """What a merge produces is not a plain token."""

    status = Status.MERGE_RESULT
    message = "merge {merge_index} produces {result!r}, which is not an ordinary token"
    merge_index: int
    result: str


class DuplicateMergeError(ArtifactError):
    """Two merges join the same pair, so that its rank is unclear."""

    status = Status.MERGE_DUPLICATE
    message = "merges {first_index} and {second_index} join the same pair, {pair!r}"
    first_index: int
    second_index: int
    pair: tuple[str, str]


class SpecialTokenIdError(ArtifactError):
    """A named token id of a vocabulary lies outside it."""

    status = Status.SPECIAL_TOKEN_ID
    message = "{name} is {found}, expected an id from 0 to {last_id}"
    name: str
    found: int
    last_id: int


class TokenScoreError(ArtifactError):
    """A token's score is not a finite number."""

    status = Status.TOKEN_SCORE
    message = "token {token_id} has the score {found}, expected a finite number"
    token_id: int
    found: str


class VocabularyFieldError(ArtifactError):
    """A vocabulary has a field that its kind does not know, or lacks one that it needs."""

    status = Status.VOCABULARY_FIELD
    message = "a vocabulary of kind {kind} {problem}"
    kind: str
    problem: str


class TokenizerUnsupportedError(ArtifactError):
    """A file names a tokenizer that this package does not have."""

    status = Status.TOKENIZER_UNSUPPORTED
    message = "{key} is {found!r}, which is not supported; supported: {supported}"
    key: str
    found: str
    supported: str


class TemplateSizeError(ArtifactError):
    """A chat template is empty or longer than it may be."""

    status = Status.TEMPLATE_SIZE
    message = "the chat template has {size_chars} characters, expected from 1 to {limit_chars}"
    size_chars: int
    limit_chars: int


class TemplateSyntaxError(ArtifactError):
    """A chat template is not valid Jinja."""

    status = Status.TEMPLATE_SYNTAX
    message = "the chat template cannot be compiled (line {line}): {reason}"
    line: int
    reason: str


class TemplateFeatureError(ArtifactError):
    """A chat template uses a part of Jinja that is not safe, or not bounded, here."""

    status = Status.TEMPLATE_FEATURE
    message = "the chat template uses {feature}, which is refused (line {line})"
    feature: str
    line: int


class TemplateFailedError(ArtifactError):
    """A chat template failed while it was rendered."""

    status = Status.TEMPLATE_FAILED
    message = "rendering the chat template failed: {reason}"
    reason: str


class TemplateHidesContentError(ArtifactError):
    """A template rewrites message texts, so that their control tokens cannot be kept literal."""

    status = Status.TEMPLATE_HIDES_CONTENT
    message = (
        "the chat template changes or inspects message texts in a way that hides which part of "
        "the prompt they are, so control tokens inside them cannot be kept literal; remove "
        "markup from the messages, or render the prompt yourself and pass it as text"
    )
