"""A model file as the rest of the package knows it."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from sslm.artifact.file_bytes import FileBytes
from sslm.artifact.golden import Golden
from sslm.artifact.provenance import Provenance
from sslm.artifact.stored_schemas import StoredSchemas
from sslm.closing import Closing
from sslm.hashes import Sha256
from sslm.memory import huge_page_bytes
from sslm.model.config import ModelConfig
from sslm.model.fraction_bits import FractionBits
from sslm.program.tensors import Tensor
from sslm.text.structure import structure_of
from sslm.text.text_bounds import TextBounds
from sslm.text.tokenizer import Tokenizer
from sslm.text.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Artifact(Closing):
    """An open artifact, verified; a context manager.

    Args:
        config: Sizes and switches of the model.
        fraction_bits: Fixed-point formats of its int32 sites.
        arithmetic_version: Of the arithmetic that its numbers are for.
        tensors: All tensors by name, in ascending order of the names. Their bytes are the file's,
            not copies.
        vocabulary: From which a tokenizer is built.
        chat_template: Jinja source, or None if the model has none.
        provenance: Where the artifact came from.
        golden: Runs that any machine can replay, or None.
        schemas: Compiled for its vocabulary, by name.
        vocabulary_sha256: 32 bytes, of what the file says of its vocabulary.
        model_id: 32 bytes, the name of all that can change a token.
        file_size_bytes: Size of the file.
        file: The bytes behind ``tensors``.
    """

    config: ModelConfig
    fraction_bits: FractionBits
    arithmetic_version: int
    tensors: Mapping[str, Tensor]
    vocabulary: Vocabulary
    chat_template: str | None
    provenance: Provenance
    golden: Golden | None
    schemas: StoredSchemas
    vocabulary_sha256: bytes
    model_id: bytes
    file_size_bytes: int
    file: FileBytes

    @property
    def weights_size_bytes(self) -> int:
        """Bytes of all constant tensors."""
        return sum(tensor.data.nbytes for tensor in self.tensors.values())

    @property
    def padding_count(self) -> int:
        """How many ids at the end of the model's vocabulary have no token."""
        return self.config.vocab_size - len(self.vocabulary.tokens)

    def tokenizer(self, bounds: TextBounds | None = None) -> Tokenizer:
        """Build the tokenizer, which knows the markers of the chat template.

        Args:
            bounds: What a text may take; None leaves only what all texts may.
        """
        return Tokenizer(
            self.vocabulary,
            self.chat_template,
            padding_count=self.padding_count,
            bounds=bounds or TextBounds(),
        )

    def end_token_ids(self) -> frozenset[int]:
        """Return every id that ends an answer, as the tokenizer has them."""
        return structure_of(self.vocabulary, self.chat_template).end_token_ids

    def file_sha256(self) -> bytes:
        """Compute the 32 bytes that ``sha256sum`` prints for the file; takes a pass over it."""
        return Sha256(self.file.view).digest()

    def huge_page_bytes(self) -> int | None:
        """Return how many bytes of the file lie in huge pages; None if the system does not say."""
        return huge_page_bytes(self.file.view)

    def close(self) -> None:
        """Give the file back; may be called again.

        The tensors' bytes go with it. While something else still looks at them, such as an open
        plan, the file stays mapped until that is done.
        """
        for tensor in self.tensors.values():
            with suppress(BufferError):
                tensor.data.release()
        self.file.close()
