"""Sending a model to another process: its spec goes, and opens the same file there."""

import copy
import multiprocessing
import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

from sslm.engine.model import Model, ModelSpec
from sslm.errors.base import ArtifactError
from sslm.errors.engine import ModelHashMismatchError
from sslm.errors.reading import UnreadableFileError
from sslm.errors.runtime import NotCopyableError, ObjectClosedError
from tests.converted import stories_artifact

PROMPT = "Once upon a time"


@pytest.fixture
def model() -> Iterator[Model]:
    with Model(stories_artifact(), context_tokens=100) as opened:
        yield opened


def test_a_spec_says_how_the_model_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(stories_artifact(), tmp_path / "m.sslm")
    monkeypatch.chdir(tmp_path)
    with Model(
        "m.sslm", tier="scalar", threads=2, context_tokens=50, memory_bytes=1 << 30, mmap=False
    ) as model:
        monkeypatch.chdir("/")
        assert model.spec == ModelSpec(
            path=str(tmp_path / "m.sslm"),
            sha256=model.file_sha256,
            backend="auto",
            tier="scalar",
            threads=2,
            context_tokens=50,
            memory_bytes=1 << 30,
            text_bytes=1 << 20,
            mmap=False,
        )
        with model.spec.load() as again:
            assert again.spec == model.spec
    with pytest.raises(FrozenInstanceError):
        model.spec.threads = 3  # type: ignore[misc]


def test_a_pickled_model_gives_the_same_answers(model: Model) -> None:
    expected = model.generate(PROMPT, max_tokens=8)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        sent = pickle.dumps(model, protocol)
        assert len(sent) < 1000
        with pickle.loads(sent) as again:
            assert again.spec == model.spec
            assert again.generate(PROMPT, max_tokens=8) == expected
    assert pickle.loads(pickle.dumps(model.spec)) == model.spec


def test_another_file_under_the_same_path_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.sslm"
    shutil.copy(stories_artifact(), path)
    with Model(path) as model:
        sent = pickle.dumps(model)
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    # Whatever is wrong with the file, it is not opened.
    with pytest.raises(ArtifactError):
        pickle.loads(sent)
    path.unlink()
    with pytest.raises(UnreadableFileError):
        pickle.loads(sent)


def test_the_hash_is_insisted_on(model: Model) -> None:
    with pytest.raises(ModelHashMismatchError):
        replace(model.spec, sha256="00" * 32).load()


def test_copies_are_refused_by_name(model: Model) -> None:
    makers: tuple[Callable[[object], object], ...] = (copy.copy, copy.deepcopy)
    for make in makers:
        with pytest.raises(NotCopyableError, match=r"spec\.load"):
            make(model)
    with model.stream(PROMPT) as stream:
        for make in (*makers, pickle.dumps):
            with pytest.raises(NotCopyableError, match="stream"):
                make(stream)
    from sslm.runtime.sequences.options import SequenceOptions

    with model._runner.sequence(SequenceOptions(context_tokens=2)) as sequence:
        for make in (*makers, pickle.dumps):
            with pytest.raises(NotCopyableError, match="sequence"):
                make(sequence)


def test_a_tokenizer_survives_pickle(model: Model) -> None:
    again = pickle.loads(pickle.dumps(model.tokenizer))
    assert again.encode(PROMPT) == model.tokenizer.encode(PROMPT)


def test_a_closed_model_has_a_spec_if_it_had_one(model: Model) -> None:
    spec = model.spec
    model.close()
    assert model.spec == spec
    other = Model(stories_artifact())
    other.close()
    with pytest.raises(ObjectClosedError):
        pickle.dumps(other)


def answer(model: Model) -> tuple[str, int]:
    """Runs in another process, to which the model was pickled."""
    with model:
        return model.generate(PROMPT, max_tokens=8).digest, os.getpid()


def fail(model: Model) -> None:
    """Raises there, so that the error is sent back."""
    with model:
        model.generate([1] * 200)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_pools_of_processes_take_models(model: Model, method: str) -> None:
    expected = model.generate(PROMPT, max_tokens=8).digest
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        digest, process = pool.submit(answer, model).result(60)
        assert digest == expected
        assert process != os.getpid()
        error = pool.submit(fail, model).exception(60)
    assert (error.needed_tokens, error.limit_tokens) == (201, 100)  # type: ignore[union-attr]
