"""Replaying records with models that are given, named, or found by what they are."""

import os
from pathlib import Path

from sslm import limits
from sslm.arguments import checked_int, checked_path, require_callback
from sslm.artifact import Artifact
from sslm.catalog.adding import is_sound
from sslm.catalog.cache import Cache, cache_folder
from sslm.catalog.loading import model_path
from sslm.engine.model import Model
from sslm.errors.records import RecordModelMissingError
from sslm.evidence.records import Record, as_record
from sslm.evidence.replay import ReplayReport, replay_record
from sslm.opening.model_file import checked_threads, open_artifact
from sslm.opening.runner import open_backend
from sslm.progress import Progress
from sslm.text.tokenizer import Tokenizer


def replay(
    record: Record | str | os.PathLike[str],
    model: Model | str | os.PathLike[str] | None = None,
    *,
    backend: str = "auto",
    tier: str = "auto",
    threads: int = 1,
    schema: object = None,
    slice_units: int | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    on_progress: Progress | None = None,
) -> ReplayReport:
    """Execute a recorded request again, and say whether it is identical, or where it is not.

    Args:
        record: A record, or the path of one.
        model: The model that it was made with: one that is open, a path, or a name in the cache.
            None looks for it in the cache by what it is.
        backend: ``auto`` (native), ``native`` or ``reference``; an open model's own does not
            matter.
        tier: A CPU tier by name, or ``auto`` for the best.
        threads: 1 starts no thread.
        schema: What the recorded answer follows, if it follows a schema: as calls take it. None
            looks for it in the model's file, by the name that the record has of it.
        slice_units: Layers, or blocks of the head, of each call; None for no bound.
        cache_dir: Where converted models are kept; None for ``SSLM_CACHE_DIR`` or the user's cache.
        on_progress: Told how many tokens of the answer are replayed, and how many there are.

    Raises:
        NotARecordError: If the file is no record.
        ArtifactError: If the record is damaged, or of another model; one class per cause.
        RecordModelMissingError: If no model was given and the cache does not have it.
        UnknownModelError: If there is no model of the name that was given; nothing is fetched.
        TierUnavailableError, BackendUnavailableError: If what was forced cannot run here.
        RecordSchemaError, RecordSchemaMissingError: If the schema at hand is not the record's, or
            there is none.
        OptionRangeError: If an option is out of range.
    """
    threads = checked_threads(backend, tier, threads, None)
    require_callback("on_progress", on_progress)
    if slice_units is not None:
        most = limits.SLICE_UNITS_MAX
        slice_units = checked_int("slice_units", slice_units, lowest=1, highest=most)
    record = as_record(record)

    def run(artifact: Artifact, tokenizer: Tokenizer) -> ReplayReport:
        return replay_record(
            record.saved,
            artifact,
            tokenizer,
            open_backend=lambda: open_backend(backend, tier=tier, threads=threads),
            threads=threads,
            schema=schema,
            slice_units=slice_units,
            on_progress=on_progress or (lambda done, total: None),
        )

    if isinstance(model, Model):
        return run(model.artifact, model.tokenizer)
    with open_artifact(recorded_model(record, model, cache_dir), mmap=True) as artifact:
        return run(artifact, artifact.tokenizer())


def recorded_model(
    record: Record,
    name_or_path: str | os.PathLike[str] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
) -> Path:
    """Return the path of a record's model: the one that is named, or that of the cache.

    Raises:
        OptionRangeError: If what is named is neither a text nor a path.
        RecordModelMissingError: If none is named and none in the cache is the one.
        UnknownModelError: If there is no model of this name; nothing is fetched.
    """
    cache = Cache(cache_folder(cache_dir))
    if name_or_path is not None:
        checked_path("model", name_or_path)
        return model_path(name_or_path, cache, download=False)
    models = cache.models()
    for model in models:
        if is_sound(model.path, record.model_id):
            return model.path
    raise RecordModelMissingError(record.model_id, len(models))
