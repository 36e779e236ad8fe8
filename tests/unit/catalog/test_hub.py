"""Files of a hub, fetched by the real library from a server on this machine."""

import hashlib
import importlib.util
import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sslm import limits
from sslm.catalog import hub as hub_module
from sslm.catalog import hub_child
from sslm.catalog.cache import Cache
from sslm.catalog.child_process import Ending
from sslm.catalog.hub_reference import HubReference, file_name_problem, parse_reference
from sslm.catalog.origins import read_origin
from sslm.catalog.pulling import pull
from sslm.errors.artifact import DiskFullError
from sslm.errors.base import SslmError
from sslm.errors.catalog import (
    FetchedFileMismatchError,
    HubAccessError,
    HubAnswerSizeError,
    HubFileChoiceError,
    HubFileMissingError,
    HubFileNameError,
    HubLibraryMissingError,
    HubNoModelFileError,
    HubReferenceError,
    HubRepoMissingError,
    HubRevisionMissingError,
    HubServerError,
    HubUnreachableError,
    ModelNameError,
    OfflineError,
)
from sslm.errors.engine import ModelHashMismatchError
from tests.converted import STORIES_SOURCE, stories_artifact
from tests.file_sizes import file_size_limit
from tests.unit.catalog.hostile_names import HOSTILE_NAMES, is_plain_on_windows
from tests.unit.catalog.local_hub import COMMIT, REPO, Hub, serving

pytestmark = pytest.mark.usefixtures("_quick_conversion")
FILE = "Stories.F32.gguf"
DIGEST = hashlib.sha256(STORIES_SOURCE.read_bytes()).hexdigest()


@pytest.fixture
def real_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub, and the program that asks it, as a process of its own."""
    pytest.importorskip(hub_module.LIBRARY, reason="it is in the extra `hf`, which tests need not")
    # No setting of the person who runs the tests, and none of their tokens.
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    files = {FILE: STORIES_SOURCE.read_bytes(), "README.md": b"About."}
    with serving(Hub(files=files)) as found:
        monkeypatch.setenv("HF_ENDPOINT", found.address)
        yield found


@pytest.fixture
def hub(real_hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub, asked in this process: loading the library anew takes a second each time."""
    from huggingface_hub import close_session, constants

    @contextmanager
    def run_here(arguments: list[str], **_: object) -> Iterator[None]:
        with monkeypatch.context() as patched:
            patched.setattr(sys, "argv", arguments)
            hub_child.main()
        yield

    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(hub_module, "child_process", run_here)
    monkeypatch.setattr(hub_module, "watch", lambda *_, **__: Ending.BY_ITSELF)
    yield real_hub
    close_session()


def expect(error: type[SslmError], cache: Cache, reference: str = f"hf:{REPO}") -> SslmError:
    """Pull, which must fail and leave nothing."""
    with pytest.raises(error) as caught:
        pull(reference, cache_dir=cache.folder)
    if cache.folder.exists():
        assert sorted(path.name for path in cache.folder.iterdir()) == ["lock", "models"]
        assert list((cache.folder / "models").iterdir()) == []
    return caught.value


def test_the_only_model_of_a_repository_is_pulled(real_hub: Hub, cache: Cache) -> None:
    reports: list[tuple[str, int, int]] = []
    pulled = pull(
        f"hf:{REPO}",
        sha256=DIGEST,
        cache_dir=cache.folder,
        on_progress=lambda *report: reports.append(report),
    )
    assert pulled.name == "stories.f32"
    assert pulled.path.read_bytes() == stories_artifact().read_bytes()
    assert read_origin(pulled.path) == {
        "kind": "hub",
        "repo": REPO,
        "commit": COMMIT,
        "file": FILE,
        "sha256": DIGEST,
    }
    assert {"ask the hub", "check", "convert"} <= {report[0] for report in reports}
    assert sorted(path.name for path in cache.folder.iterdir()) == ["lock", "models"]
    # The same file again: the hub is asked which one it is, and nothing is fetched.
    real_hub.requests.clear()
    assert pull(f"hf:{REPO}@main/{FILE}", cache_dir=cache.folder) == pulled
    assert len(real_hub.requests) == 1
    assert real_hub.paths()[0].startswith(f"/api/models/{REPO}/revision/main?")


def test_only_the_repository_and_the_file_are_asked_for(real_hub: Hub, cache: Cache) -> None:
    pull(f"hf:{REPO}/{FILE}", cache_dir=cache.folder)
    asked = {path.partition("?")[0] for path in real_hub.paths()}
    assert asked == {f"/api/models/{REPO}", f"/{REPO}/resolve/{COMMIT}/{FILE}"}
    assert all(
        "authorization" not in map(str.lower, headers) for _, _, headers in real_hub.requests
    )


def test_redirections_are_followed(hub: Hub, cache: Cache) -> None:
    hub.redirects = 2
    pulled = pull(f"hf:{REPO}", cache_dir=cache.folder)
    assert pulled.path.read_bytes() == stories_artifact().read_bytes()


def test_redirections_without_end_are_not(
    hub: Hub, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.redirects = 10**6
    monkeypatch.setattr(hub_module, "REQUEST_COUNT_MAX", 5)
    expect(HubUnreachableError, cache)


def test_a_lost_connection_is_taken_up_again(hub: Hub, cache: Cache) -> None:
    hub.cut_count = 1
    pulled = pull(f"hf:{REPO}", cache_dir=cache.folder)
    assert pulled.path.read_bytes() == stories_artifact().read_bytes()
    assert [method for method, _, _ in hub.requests] == ["GET", "HEAD", "GET", "GET"]


def test_a_connection_that_is_lost_always_is_named(
    hub: Hub, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.cut_count = 10**6
    monkeypatch.setattr(hub_module, "REQUEST_COUNT_MAX", 3)
    error = expect(HubUnreachableError, cache)
    assert "again and again" in str(error)
    assert f"hf download {REPO}" in str(error)


@pytest.mark.parametrize("name", [f"b/{FILE}", "other.GGUF"])
def test_several_models_are_listed_with_their_sizes(name: str, hub: Hub, cache: Cache) -> None:
    hub.files[name] = b"1234567"
    error = expect(HubFileChoiceError, cache)
    assert f"hf:{REPO}/{name}  7 bytes" in str(error)
    assert f"hf:{REPO}/{FILE}  {len(hub.files[FILE])} bytes" in str(error)
    assert pull(f"hf:{REPO}/{FILE}", cache_dir=cache.folder).name == "stories.f32"


def test_a_file_that_is_not_there_is_named_with_those_that_are(hub: Hub, cache: Cache) -> None:
    error = expect(HubFileMissingError, cache, f"hf:{REPO}/other.gguf")
    assert FILE in str(error)
    hub.files = {"README.md": b"About."}
    expect(HubNoModelFileError, cache)


@pytest.mark.parametrize(
    ("reference", "answer", "error"),
    [
        ("hf:org/nothing", None, HubRepoMissingError),
        (f"hf:{REPO}@nothing", None, HubRevisionMissingError),
        (f"hf:{REPO}", (401, "RepoNotFound"), HubRepoMissingError),
        (f"hf:{REPO}", (401, "GatedRepo"), HubAccessError),
        (f"hf:{REPO}", (403, "GatedRepo"), HubAccessError),
        (f"hf:{REPO}", (403, None), HubAccessError),
        (f"hf:{REPO}", (500, None), HubServerError),
        (f"hf:{REPO}", (418, None), HubServerError),
    ],
)
def test_each_refusal_has_its_own_error(
    reference: str,
    answer: tuple[int, str | None] | None,
    error: type[SslmError],
    hub: Hub,
    cache: Cache,
) -> None:
    if answer is not None:
        hub.status, hub.error = {"info": answer[0]}, answer[1]
    expect(error, cache, reference)


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        ({"head": 403}, "GatedRepo", HubAccessError),
        ({"get": 403}, None, HubAccessError),
        ({"get": 500}, None, HubServerError),
        ({"get": 404}, "EntryNotFound", HubFileMissingError),
    ],
)
def test_a_file_that_is_listed_and_refused(
    status: dict[str, int], code: str | None, error: type[SslmError], hub: Hub, cache: Cache
) -> None:
    hub.status, hub.error = status, code
    expect(error, cache)


@pytest.mark.parametrize(
    "info",
    [
        b"",
        b"no JSON",
        b"[]",
        json.dumps({"id": REPO, "sha": "main", "siblings": []}).encode(),
        json.dumps({"id": REPO, "sha": COMMIT, "siblings": [{"rfilename": FILE}]}).encode(),
    ],
)
def test_an_answer_that_is_none_is_named(info: bytes, hub: Hub, cache: Cache) -> None:
    hub.info = info
    error = expect(SslmError, cache)
    assert type(error).__name__ in {"HubServerError", "HubFetchError"}


def test_an_answer_without_end_is_not_read(
    hub: Hub, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HUB_ANSWER_SIZE_BYTES_MAX", 1 << 16)
    hub.info = bytes(1 << 20)
    expect(HubAnswerSizeError, cache)


def test_a_file_without_end_is_not_read(hub: Hub, cache: Cache) -> None:
    hub.endless = True
    expect(HubAnswerSizeError, cache)


def test_a_file_that_is_too_large_is_not_asked_for(
    hub: Hub, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HUB_FILE_SIZE_BYTES_MAX", 1 << 16)
    expect(HubAnswerSizeError, cache)
    assert len(hub.requests) == 1


@pytest.mark.parametrize(
    ("stated", "error"),
    [
        ({"sha256": "0" * 64}, FetchedFileMismatchError),
        ({"size": 7}, SslmError),
        ({"size": 1 << 21}, SslmError),
        ({"sha256": "no hash"}, HubServerError),
    ],
)
def test_a_file_other_than_stated_is_refused(
    stated: dict[str, object], error: type[SslmError], hub: Hub, cache: Cache
) -> None:
    hub.stated = {FILE: stated}
    expect(error, cache)


def test_a_file_other_than_asked_for_is_refused(hub: Hub, cache: Cache) -> None:
    with pytest.raises(ModelHashMismatchError):
        pull(f"hf:{REPO}", sha256="0" * 64, cache_dir=cache.folder)
    assert len(hub.requests) == 1
    # Without a hash on the hub it is fetched first.
    hub.stated = {FILE: {"sha256": None}}
    with pytest.raises(ModelHashMismatchError):
        pull(f"hf:{REPO}", sha256="0" * 64, cache_dir=cache.folder)
    assert pull(f"hf:{REPO}", sha256=DIGEST, cache_dir=cache.folder).name == "stories.f32"


@pytest.mark.parametrize("name", HOSTILE_NAMES.values(), ids=HOSTILE_NAMES.keys())
def test_a_hostile_name_is_refused_before_it_is_used(name: str) -> None:
    """As a file's name, as a folder's, and as one that a person wrote."""
    for path in (f"{name}/model.gguf", f"folder/{name}/model.gguf"):
        is_plain = file_name_problem(path) is None
        assert not is_plain or all(is_plain_on_windows(part) for part in path.split("/"))
        assert not is_plain or name == "folder/model"
    for reference in (f"hf:{name}", f"hf:{name}/repo", f"hf:org/{name}", f"hf:org/repo@{name}"):
        try:
            parsed = parse_reference(reference)
        except HubReferenceError:
            continue
        for part in (*parsed.repo.split("/"), parsed.revision or "x"):
            assert part.isascii()
            assert part.replace("-", "").replace("_", "").replace(".", "").isalnum()


@pytest.mark.parametrize(
    "name", ["../a.gguf", "CON.gguf", "a\\b.gguf", "C:a.gguf", "a \u202e.gguf"]
)
def test_a_hostile_name_that_the_hub_lists_is_refused(name: str, hub: Hub, cache: Cache) -> None:
    hub.files = {name: b"1"}
    expect(HubFileNameError, cache)
    assert len(hub.requests) == 1


def test_a_name_that_cannot_be_that_of_a_model_is_refused(hub: Hub, cache: Cache) -> None:
    hub.files = {"a+b.gguf": STORIES_SOURCE.read_bytes()}
    expect(ModelNameError, cache)


@pytest.mark.parametrize("text", ["hf:", "hf:repo", "hf:a/b/", "hf:a/b/c.bin", "hf:a/b@/c.gguf"])
def test_what_is_no_reference_is_named(text: str, cache: Cache) -> None:
    expect(HubReferenceError, cache, text)


def test_a_reference_is_read() -> None:
    parsed = parse_reference("hf:Org-1/my.repo_2@v1.0/deep/a b.gguf")
    expected = HubReference(repo="Org-1/my.repo_2", revision="v1.0", file="deep/a b.gguf")
    assert parsed == expected
    assert str(parsed) == "hf:Org-1/my.repo_2@v1.0/deep/a b.gguf"


def test_offline_asks_nobody(hub: Hub, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OfflineError, match=f"hf download {REPO} .* `sslm pull ./"):
        pull(f"hf:{REPO}", download=False, cache_dir=cache.folder)
    for name in ("SSLM_OFFLINE", "HF_HUB_OFFLINE"):
        with monkeypatch.context() as one:
            one.setenv(name, "1")
            expect(OfflineError, cache)
    assert hub.requests == []


def test_without_the_library_the_message_says_how_to_get_it(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    error = expect(HubLibraryMissingError, cache)
    assert "pip install 'sslm[hf]'" in str(error)


def test_a_frozen_program_is_not_started_as_a_python(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert "is frozen" in str(expect(HubLibraryMissingError, cache))


def test_a_hub_that_is_not_there_is_named(
    hub: Hub, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as server:
        # A port that is taken, but where nobody listens.
        server.bind(("127.0.0.1", 0))
        address = "http:" + f"//127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("HF_ENDPOINT", address)
        expect(HubUnreachableError, cache)
    assert hub.requests == []


def test_an_interrupt_ends_the_fetch(real_hub: Hub, cache: Cache) -> None:
    def interrupt(what: str, done: int, total: int) -> None:
        if what in ("check", "convert"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull(f"hf:{REPO}", cache_dir=cache.folder, on_progress=interrupt)
    assert sorted(path.name for path in cache.folder.iterdir()) == ["lock", "models"]
    assert real_hub.requests


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on the size of files")
def test_a_full_disk_has_its_own_error(real_hub: Hub, cache: Cache) -> None:
    with file_size_limit(100_000):
        expect(DiskFullError, cache)
    assert real_hub.requests
