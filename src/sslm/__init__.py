"""Small language models, bit for bit the same everywhere, inside limits that the caller sets."""

from sslm.version import VERSION

# Type checkers know the name; importing it would take most of the time that the package takes.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from sslm.answer_schemas.schema import Schema
    from sslm.answering.async_stream import AsyncStream
    from sslm.answering.live_prefix import LivePrefix
    from sslm.answering.live_scheduler import LiveScheduler, SliceFailure
    from sslm.answering.live_sequence import LiveSequence
    from sslm.answering.request import AnswerOptions, RecordedOptions
    from sslm.answering.results import (
        Completion,
        Footprint,
        SessionFootprint,
        StreamChunk,
        Usage,
    )
    from sslm.answering.stream import Stream
    from sslm.catalog.loading import load
    from sslm.catalog.replaying import replay
    from sslm.conversation.session import Session, SessionStream
    from sslm.engine.model import Model, ModelSpec
    from sslm.errors.base import (
        ArgumentError,
        ArtifactError,
        NetworkError,
        NumericError,
        ResourceError,
        SslmError,
        StateError,
    )
    from sslm.errors.catalog import OfflineError, UnknownModelError
    from sslm.errors.choosing import ChoiceConflictError, UnknownOptionError
    from sslm.errors.engine import ModelHashMismatchError, NoChatTemplateError
    from sslm.errors.native import ParallelForBrokenError
    from sslm.errors.program import BackendUnavailableError, TierUnavailableError
    from sslm.errors.runtime import (
        ContextLengthError,
        DeadlineExceededError,
        EmptyPromptError,
        ForkedProcessError,
        MemoryBudgetError,
        NotCopyableError,
        ObjectClosedError,
        OptionRangeError,
        TokenIdRangeError,
    )
    from sslm.errors.status import Status
    from sslm.evidence.records import Record, read_record
    from sslm.evidence.replay import ReplayDifference, ReplayReport
    from sslm.evidence.verification import VerifyReport
    from sslm.opening.shared_pool import SharedPool
    from sslm.opening.workspace import workspace_size_bytes
    from sslm.program.parallel_for import ParallelFor
    from sslm.sampling.logprobs import Logprob, TokenLogprob
    from sslm.sampling.options import ChoosingOptions
    from sslm.schema.documents.refusals import Unsupported
    from sslm.text.message import Message

__all__ = [
    "AnswerOptions",
    "ArgumentError",
    "ArtifactError",
    "AsyncStream",
    "BackendUnavailableError",
    "ChoiceConflictError",
    "ChoosingOptions",
    "Completion",
    "ContextLengthError",
    "DeadlineExceededError",
    "EmptyPromptError",
    "Footprint",
    "ForkedProcessError",
    "LivePrefix",
    "LiveScheduler",
    "LiveSequence",
    "Logprob",
    "MemoryBudgetError",
    "Message",
    "Model",
    "ModelHashMismatchError",
    "ModelSpec",
    "NetworkError",
    "NoChatTemplateError",
    "NotCopyableError",
    "NumericError",
    "ObjectClosedError",
    "OfflineError",
    "OptionRangeError",
    "ParallelFor",
    "ParallelForBrokenError",
    "Record",
    "RecordedOptions",
    "ReplayDifference",
    "ReplayReport",
    "ResourceError",
    "Schema",
    "Session",
    "SessionFootprint",
    "SessionStream",
    "SharedPool",
    "SliceFailure",
    "SslmError",
    "StateError",
    "Status",
    "Stream",
    "StreamChunk",
    "TierUnavailableError",
    "TokenIdRangeError",
    "TokenLogprob",
    "UnknownModelError",
    "UnknownOptionError",
    "Unsupported",
    "Usage",
    "VerifyReport",
    "__version__",
    "load",
    "read_record",
    "replay",
    "workspace_size_bytes",
]

__version__ = VERSION

_HOMES = {
    "load": "sslm.catalog.loading",
    "read_record": "sslm.evidence.records",
    "replay": "sslm.catalog.replaying",
    "AnswerOptions": "sslm.answering.request",
    "AsyncStream": "sslm.answering.async_stream",
    "ChoosingOptions": "sslm.sampling.options",
    "Completion": "sslm.answering.results",
    "Footprint": "sslm.answering.results",
    "LivePrefix": "sslm.answering.live_prefix",
    "LiveScheduler": "sslm.answering.live_scheduler",
    "LiveSequence": "sslm.answering.live_sequence",
    "Logprob": "sslm.sampling.logprobs",
    "Message": "sslm.text.message",
    "Model": "sslm.engine.model",
    "ModelSpec": "sslm.engine.model",
    "ParallelFor": "sslm.program.parallel_for",
    "Record": "sslm.evidence.records",
    "RecordedOptions": "sslm.answering.request",
    "ReplayDifference": "sslm.evidence.replay",
    "ReplayReport": "sslm.evidence.replay",
    "Schema": "sslm.answer_schemas.schema",
    "Session": "sslm.conversation.session",
    "SessionFootprint": "sslm.answering.results",
    "SessionStream": "sslm.conversation.session",
    "SharedPool": "sslm.opening.shared_pool",
    "SliceFailure": "sslm.answering.live_scheduler",
    "Stream": "sslm.answering.stream",
    "StreamChunk": "sslm.answering.results",
    "TokenLogprob": "sslm.sampling.logprobs",
    "Unsupported": "sslm.schema.documents.refusals",
    "Usage": "sslm.answering.results",
    "VerifyReport": "sslm.evidence.verification",
    "workspace_size_bytes": "sslm.opening.workspace",
}
"""Where public names live that are no errors; those are all found in :mod:`sslm.errors`."""


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for, so that importing the package is cheap."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module = importlib.import_module(_HOMES.get(name, "sslm.errors"))
    found: object = getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Return the public names."""
    return list(__all__)
