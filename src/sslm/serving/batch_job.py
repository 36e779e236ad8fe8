"""A job: the requests of one file are answered into another one, which may have been begun."""

import datetime
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final, cast

from sslm import limits
from sslm.answer_schemas.binder import Finish
from sslm.answer_schemas.schema import Schema
from sslm.answering.batch import DEFAULT_BATCH_SIZE
from sslm.answering.request import AnswerOptions
from sslm.answering.results import Completion
from sslm.answering.rows import RowRequest
from sslm.arguments import checked_int
from sslm.engine.model import Model
from sslm.errors.base import ArgumentError, ArtifactError, NumericError, SchemaError, SslmError
from sslm.errors.batches import BatchModelError, BatchValueError
from sslm.errors.showing import briefly
from sslm.progress import Progress, untold
from sslm.sampling.seeds import answer_seed, row_seed
from sslm.serving.batch_input import BatchInput, InputRow
from sslm.serving.batch_lines import JobOptions, LineMaker
from sslm.serving.batch_output import BatchOutput
from sslm.serving.openai_request import Asked, ModelNames, asked, require_fields

_LINE_FIELDS: Final = ("custom_id", "method", "url", "body")
_OF_THE_REQUEST: Final = (ArgumentError, ArtifactError, NumericError, SchemaError)
"""Families of errors that the same request has everywhere; others depend on the machine."""


@dataclass(slots=True, kw_only=True)
class JobSummary:
    """What has come of a job.

    Args:
        rows: Requests in the file.
        answered: Those of them that have an answer.
        refused: Those that have an error instead.
        resumed: Those that were written before this run.
        prompt_tokens: Of what was answered in this run.
        completion_tokens: Likewise.
        sha256: Of the file of answers.
    """

    rows: int
    answered: int = 0
    refused: int = 0
    resumed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    sha256: str = ""


@dataclass(slots=True)
class _Place:
    """A row whose results come next."""

    row: InputRow
    asked: Asked | None
    seed: int
    count: int


class BatchJob:
    """Answers what is left of a file of requests.

    Args:
        model: Open.
        source: The requests.
        options: What decides the answers beside them.
        batch_size: How many are computed at one time.
        date: As in *options*.
        schema: As in *options*.
    """

    def __init__(
        self,
        model: Model,
        source: BatchInput,
        options: JobOptions,
        *,
        date: datetime.date | None = None,
        schema: Schema | None = None,
        batch_size: int = DEFAULT_BATCH_SIZE,
    ) -> None:
        self._model = model
        self._source = source
        self._options = options
        self._date = date
        self._schema = schema
        self._batch_size = batch_size
        self._lines = LineMaker(
            model_id=model.model_id,
            arithmetic_version=model.arithmetic_version,
            job=options,
            tokenizer=model.tokenizer,
        )
        self._names = ModelNames(
            name=options.model, model_id=model.model_id, is_any=options.is_any_model
        )
        self._places: deque[_Place] = deque()
        self.summary = JobSummary(rows=source.row_count)
        """What has come of it so far."""

    def run(
        self,
        path: Path,
        *,
        deadline_s: float | None = None,
        on_progress: Progress = untold,
    ) -> JobSummary:
        """Write what is missing in a file of answers, in the order of the requests.

        What was written stays, whatever this raises, and the same job goes on behind it.

        Args:
            path: The file; made if it is not there.
            deadline_s: Seconds for this run, or None.
            on_progress: Told how many lines the file has, and how many it will have.

        Raises:
            BatchOutputMismatchError, BatchBusyError: If the file cannot be gone on with; nothing of
                it was touched.
            DiskFullError, UnwritableFileError: If a line cannot be written.
            BatchInputChangedError: If the requests are not what they were.
            BatchModelError: If one asks for the model by a name that is not its own.
            ResourceError: If a row has no memory or no time, with a note that names it.
            StateError: If the model is closed meanwhile.
        """
        summary = self.summary
        with BatchOutput(path) as output:
            output.resume(self._lines.head(row) for row in self._source.rows())
            summary.resumed = output.written.rows
            self._count(output)
            on_progress(summary.resumed, summary.rows)
            rows = self._model.answer_rows(
                self._requests(summary.resumed), batch_size=self._batch_size, deadline_s=deadline_s
            )
            with closing(rows) as results:
                for line, is_refused in self._answers(results):
                    output.append(line, refused=is_refused)
                    self._count(output)
                    on_progress(output.written.rows, summary.rows)
            output.sync()
            summary.sha256 = output.sha256()
        return summary

    def _count(self, output: BatchOutput) -> None:
        self.summary.refused = output.written.refused
        self.summary.answered = output.written.rows - output.written.refused

    def _requests(self, skipped: int) -> Iterator[RowRequest | SslmError]:
        """Give what is to be computed, and note whose it is; several answers are several rows."""
        for row in islice(self._source.rows(), skipped, None):
            try:
                found, seed = self._asked(row)
            except BatchModelError as error:
                # The job's fault, not the row's: it goes on where names are said to matter less.
                error.add_note(f"in the row {briefly(row.row_id)}")
                raise
            except SslmError as error:
                self._places.append(_Place(row, None, 0, 1))
                yield error
                continue
            self._places.append(_Place(row, found, seed, found.count))
            own = self._with_defaults(found.row.options)
            for index in range(found.count):
                options = own | AnswerOptions(seed=answer_seed(seed, index))
                yield replace(found.row, options=options, date=self._date)

    def _asked(self, row: InputRow) -> tuple[Asked, int]:
        """Return what a row asks for, and its seed."""
        fields = row.fields()
        require_fields("", fields, _LINE_FIELDS)
        if fields.get("method") != "POST":
            raise BatchValueError("method", briefly(fields.get("method")), "POST")
        found = asked(
            fields.get("url"),
            fields.get("body"),
            names=self._names,
            max_tokens=self._options.max_tokens,
        )
        seed = found.row.options.get("seed")
        if seed is None:
            return found, row_seed(self._options.seed, row.row_id)
        return found, checked_int("seed", seed, lowest=0, highest=limits.SEED_MAX)

    def _with_defaults(self, options: AnswerOptions) -> AnswerOptions:
        """Return the options of a request with what the job says of schemas, where it does not."""
        if self._schema is not None and "schema" not in options:
            options = options | AnswerOptions(schema=self._schema)
        if self._options.finish and options.get("schema") is not None and "finish" not in options:
            options = options | AnswerOptions(finish=cast(Finish, self._options.finish))
        return options

    def _answers(self, results: Iterator[Completion | SslmError]) -> Iterator[tuple[bytes, bool]]:
        """Give the lines of rows, and whether each is a refusal."""
        for first in results:
            place = self._places.popleft()
            several = [first, *islice(results, place.count - 1)]
            completions = [one for one in several if isinstance(one, Completion)]
            error = next((one for one in several if isinstance(one, SslmError)), None)
            if error is not None and not isinstance(error, _OF_THE_REQUEST):
                error.add_note(f"in the row {briefly(place.row.row_id)}")
                raise error
            if error is not None:
                yield self._lines.refusal(place.row, error), True
            elif place.asked is not None:
                self._tell(completions)
                yield self._lines.answer(place.row, place.asked, place.seed, completions), False

    def _tell(self, completions: list[Completion]) -> None:
        self.summary.prompt_tokens += completions[0].usage.prompt_tokens
        self.summary.completion_tokens += sum(one.usage.completion_tokens for one in completions)
