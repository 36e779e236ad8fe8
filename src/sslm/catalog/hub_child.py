"""What asks a hub: a program of its own, so that no setting or telemetry of the caller's matters.

    python hub_child.py list|fetch REQUEST.json RESULT.json

It imports nothing of this package. It writes its answer as JSON: what it found, or which kind of
error met it.
"""

import errno
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KINDS = {
    "GatedRepoError": "access",
    "RepositoryNotFoundError": "repo",
    "RevisionNotFoundError": "revision",
    "RemoteEntryNotFoundError": "file",
    "HFValidationError": "server",
    "FileMetadataError": "server",
    "JSONDecodeError": "server",
    "DecodingError": "server",
    "InvalidURL": "server",
    "TooManyRedirects": "server",
    "UnsupportedProtocol": "server",
    "TransportError": "unreachable",
}
"""What each class of error means, by its name or that of one it derives from."""

FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}


class Limits:
    """Counts requests and bytes of all answers together.

    Args:
        request_count_max: Most requests.
        size_bytes_max: Most bytes.
    """

    def __init__(self, request_count_max: int, size_bytes_max: int) -> None:
        self._requests_left = request_count_max
        self._bytes_left = size_bytes_max
        self.exceeded: tuple[str, str] | None = None

    def on_request(self, request: Any) -> None:
        """Count one request."""
        del request
        self._requests_left -= 1
        if self._requests_left < 0:
            self._refuse("unreachable", "the connection was lost again and again")

    def on_response(self, response: Any) -> None:
        """Count what is read of an answer, as it is sent: packed bytes could unfold to many."""
        if response.headers.get("content-encoding", "identity") != "identity":
            self._refuse("server", "its answer is packed, which was not asked for")
        response.stream = self._counted(response.stream)

    def _refuse(self, kind: str, reason: str) -> None:
        import httpx2

        self.exceeded = kind, reason
        raise httpx2.TransportError(reason)

    def _counted(self, stream: Any) -> Any:
        import httpx2

        limits = self

        class Counted(httpx2.SyncByteStream):
            def __iter__(self) -> Iterator[bytes]:
                for block in stream:
                    limits.take(len(block))
                    yield block

            def close(self) -> None:
                stream.close()

        return Counted()

    def take(self, size_bytes: int) -> None:
        """Count bytes."""
        self._bytes_left -= size_bytes
        if self._bytes_left < 0:
            self._refuse("size", "its answer is larger than it may be")


def main() -> None:
    """Do what the request asks for."""
    action, request_path, result_path = sys.argv[1:]
    request = json.loads(Path(request_path).read_text(encoding="utf-8"))
    limits = Limits(request["request_count_max"], request["size_bytes_max"])
    try:
        result = _ask(action, request, limits)
    except Exception as error:
        kind, reason = limits.exceeded or (_kind(error), " ".join(str(error).split()))
        result = {"error": kind, "reason": reason[:300] or type(error).__name__}
    Path(result_path).write_text(json.dumps(result), encoding="utf-8")


def _ask(action: str, request: dict[str, Any], limits: Limits) -> dict[str, Any]:
    import httpx2
    from huggingface_hub import HfApi, hf_hub_download, set_client_factory

    set_client_factory(
        lambda: httpx2.Client(
            event_hooks={"request": [limits.on_request], "response": [limits.on_response]},
            headers={"Accept-Encoding": "identity"},
            follow_redirects=True,
            timeout=request["timeout_s"],
        )
    )
    if action == "list":
        found = HfApi(endpoint=request["endpoint"]).model_info(
            request["repo"],
            revision=request["revision"],
            files_metadata=True,
            timeout=request["timeout_s"],
        )
        files = [
            {
                "name": one.rfilename,
                "size_bytes": one.size,
                "sha256": None if one.lfs is None else one.lfs.sha256,
            }
            for one in (found.siblings or [])
        ]
        return {"commit": found.sha, "files": files}
    path = hf_hub_download(
        request["repo"],
        request["file"],
        revision=request["revision"],
        endpoint=request["endpoint"],
        local_dir=request["folder"],
        cache_dir=request["folder"] + "/none",
        etag_timeout=request["timeout_s"],
    )
    return {"path": path}


def _kind(error: BaseException) -> str:
    """Tell what an error means; what it was raised from counts where it does not say itself."""
    names = [kind.__name__ for kind in type(error).__mro__]
    found = next((KINDS[name] for name in names if name in KINDS), None)
    status = getattr(getattr(error, "response", None), "status_code", None)
    if found not in {"access", "repo"} and status in {401, 403}:
        return "access"
    if found is None and status is not None:
        return "server"
    if found is None and isinstance(error, OSError) and error.errno in FULL:
        return "full"
    if found is None and "Consistency check failed" in str(error):
        return "cut"
    if found is None and error.__cause__ is not None:
        return _kind(error.__cause__)
    return found or "other"


if __name__ == "__main__":
    main()
