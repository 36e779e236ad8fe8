"""Files of requests that the search begins with: what is asked in many ways, and what is odd."""

import json
from typing import Any

_MESSAGES = [{"role": "user", "content": "aa"}]


def batch_seeds() -> dict[str, bytes]:
    """Requests of both kinds with all kinds of options, and lines that are none."""
    return {
        "text": _text("a", prompt="aa"),
        "ids": _text("b", prompt=[2, 3], max_tokens=3, stop_token_ids=[5]),
        "chat": _chat("c"),
        "chat_logprobs": _chat("d", logprobs=True, top_logprobs=2, max_completion_tokens=1),
        "sampled": _text("e", prompt="aa", temperature=1, top_k=5, top_p="0.9", min_p=0, seed=3),
        "several": _text("f", prompt="a", n=3, temperature=2, logprobs=1, stop=["zz"]),
        "damped": _text("g", prompt="aa", damping="0.9", damping_order=2, damping_top_k=3),
        "biased": _text("h", prompt="aa", logit_bias={"0": -100, "2": 5}, presence_penalty=1),
        "penalties": _chat("i", frequency_penalty=2, repetition_penalty="1.5", model="small"),
        "rows": b"\n".join((_text("j", prompt="a"), b"", _chat("k"), _text("l", prompt="a a"))),
        "windows": _text("m", prompt="a") + b"\r\n" + _text("n", prompt="a a") + b"\r\n",
        "decimals": _line("o", "/v1/completions", {"prompt": "a"})[:-2] + b',"top_p":0.5}}',
        "refused": b"\n".join((_text("p", prompt=""), _chat("q", stream=True), _text("r", n=0))),
        "another_model": _chat("s", model="other"),
        "unknown_field": _text("t", prompt="a", echo=True),
        "twice": b"\n".join((_text("u", prompt="a"), _text("u", prompt="a a"))),
        "no_id": b'{"method":"POST"}',
        "deep": b"[" * 40 + b"]" * 40,
        "half_a_character": b'{"custom_id":"\\ud800"}',
        "list": b"[]",
    }


def _text(row_id: str, **body: Any) -> bytes:
    return _line(row_id, "/v1/completions", body)


def _chat(row_id: str, **body: Any) -> bytes:
    return _line(row_id, "/v1/chat/completions", {"messages": _MESSAGES} | body)


def _line(row_id: str, url: str, body: dict[str, Any]) -> bytes:
    fields = {"custom_id": row_id, "method": "POST", "url": url, "body": body}
    return json.dumps(fields, separators=(",", ":")).encode()
