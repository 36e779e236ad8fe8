"""What it takes to open the same model again."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sslm.engine.model import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """How a model was opened; small, and what ``pickle`` sends of a model.

    Args:
        path: The file's absolute path.
        sha256: What ``sha256sum`` prints for the file.
        backend: As it was asked for: ``auto`` may choose another one on another machine.
        tier: As it was asked for.
        threads: How many threads compute.
        context_tokens: Most tokens of prompt and answer.
        memory_bytes: The bound on memory, or None.
        text_bytes: The bound on one text, or None.
        mmap: Whether the file is mapped.
    """

    path: str
    sha256: str
    backend: str
    tier: str
    threads: int
    context_tokens: int
    memory_bytes: int | None
    text_bytes: int | None
    mmap: bool

    def load(self) -> "Model":
        """Open the model, and insist that the file is the same one.

        Raises:
            ModelHashMismatchError: If it is not.
            SslmError: As :class:`sslm.Model` does.
        """
        # A model describes itself with a spec, so its module imports this one.
        from sslm.engine.model import Model

        return Model(
            self.path,
            sha256=self.sha256,
            backend=self.backend,
            tier=self.tier,
            threads=self.threads,
            context_tokens=self.context_tokens,
            memory_bytes=self.memory_bytes,
            text_bytes=self.text_bytes,
            mmap=self.mmap,
        )
