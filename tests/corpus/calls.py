"""Calls of the Python API: what each returns, or which error it raises."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import asdict, is_dataclass
from functools import partial
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, Final

import sslm

Call = tuple[str, Callable[[], object]]
_MESSAGES: Final = [{"role": "user", "content": "Hello"}]
_RIVER: Final = {
    "type": "object",
    "properties": {"river": {"enum": ["Rhine", "Nile"]}, "deep": {"type": "boolean"}},
    "required": ["river", "deep"],
    "additionalProperties": False,
}
_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "drawn": {"temperature": 0.8, "seed": 7},
    "filtered": {"temperature": 1.2, "top_k": 30, "top_p": 0.9, "min_p": 0.01, "seed": 2},
    "penalised": {"repetition_penalty": 1.3, "presence_penalty": 0.5, "frequency_penalty": 0.1},
    "biased": {"logit_bias": {263: -100, 300: 4}},
    "damped": {"damping": 2, "damping_order": 3},
    "stopped": {"stop": ["."], "max_tokens": 30},
    "ended by an id": {"stop_token_ids": [403], "max_tokens": 30},
    "logprobs": {"logprobs": 2, "max_tokens": 4},
    "prompt logprobs": {"prompt_logprobs": 1, "max_tokens": 2},
    "schema": {"schema": _RIVER, "max_tokens": 50},
    "schema cut": {"schema": _RIVER, "max_tokens": 9, "finish": "cut"},
    "schema to its end": {"schema": _RIVER, "max_tokens": 50, "end_of_text": "never"},
}
_WRONG: Final[dict[str, dict[str, Any]]] = {
    "temperature": {"temperature": -1},
    "temperature of text": {"temperature": "hot"},
    "temperature true": {"temperature": True},
    "top_p": {"top_p": 2},
    "top_k": {"top_k": -1},
    "min_p": {"min_p": -0.5},
    "seed": {"seed": 2**64},
    "max_tokens": {"max_tokens": 0},
    "stop": {"stop": [""]},
    "stop of a number": {"stop": 3},
    "stop ids": {"stop_token_ids": [512]},
    "bias": {"logit_bias": {512: 1}},
    "bias value": {"logit_bias": {5: 1000}},
    "damping and draws": {"damping": 1, "temperature": 1},
    "unknown": {"best_of": 3},
    "logprobs": {"logprobs": 21},
    "deadline": {"deadline_s": 0},
    "schema": {"schema": {"allOf": [{"const": 1}, {"const": 2}]}},
    "schema type": {"schema": 7},
    "schema budget": {"schema": _RIVER, "max_tokens": 3},
    "finish": {"schema": _RIVER, "finish": "foo"},
    "end_of_text": {"schema": _RIVER, "end_of_text": "foo"},
}


def all_calls(folder: Path) -> Iterator[Call]:
    """Yield the calls on models that are open meanwhile; *folder* has the inputs of commands."""
    with (
        sslm.load(folder / "stories.sslm", tier="scalar") as stories,
        sslm.load(folder / "talker.sslm", tier="scalar") as talker,
        sslm.load(folder / "int4.sslm", tier="scalar") as int4,
    ):
        yield from _answers(stories, talker)
        yield from _refusals(stories, talker)
        yield from _other_faces(stories, talker, int4, folder)


def outcome_of(call: Callable[[], object], folder: Path) -> Any:
    """Return what a call gave, as JSON can hold it, without times and the place of the inputs."""
    try:
        return _plain(call())
    except (sslm.SslmError, TypeError, ValueError) as error:
        own = error if isinstance(error, sslm.SslmError) else None
        facts = {} if own is None else own.facts()
        return {
            "error": type(error).__name__ if own is None else own.cause,
            "status": None if own is None else int(own.status),
            "message": str(error).replace(str(folder), "{folder}"),
            "facts": {
                name: str(fact).replace(str(folder), "{folder}")
                for name, fact in facts.items()
                if not name.startswith("elapsed")
            },
        }


def _answers(stories: sslm.Model, talker: sslm.Model) -> Iterator[Call]:
    prompts: tuple[str | list[int], ...] = ("Once upon a time", [1, 403, 407], "Grüße \N{DRAGON}")
    for (name, options), prompt in product(_OPTIONS.items(), prompts):
        wanted = {"max_tokens": 10, **options}
        yield f"generate {name} {prompt}", partial(stories.generate, prompt, **wanted)
    for name, options in _OPTIONS.items():
        wanted = {"max_tokens": 10, **options}
        yield f"chat {name}", partial(talker.chat, _MESSAGES, **wanted)
        yield f"stream {name}", partial(_streamed, stories, wanted)
        yield f"session {name}", partial(_talk, talker, wanted)
        yield f"sequence {name}", partial(_sliced, stories, wanted)
        yield (
            f"generate_many {name}",
            partial(stories.generate_many, ["Lily", "Tom and"], **wanted),
        )
        yield f"agenerate {name}", partial(_awaited, stories.agenerate, "Lily", wanted)
        yield f"achat {name}", partial(_awaited, talker.achat, _MESSAGES, wanted)
        yield f"generate_n {name}", partial(stories.generate_n, "Lily", n=2, **wanted)


def _refusals(stories: sslm.Model, talker: sslm.Model) -> Iterator[Call]:
    for name, options in _WRONG.items():
        yield f"generate wrong {name}", partial(stories.generate, "Hi", **options)
        yield f"sequence wrong {name}", partial(stories.sequence, "Hi", **options)
    prompts: dict[str, Any] = {
        "empty": "",
        "no ids": [],
        "id": [512],
        "negative": [-1],
        "type": 7,
        "long": "x " * 3000,
        "surrogate": "\ud800",
    }
    for name, prompt in prompts.items():
        yield f"prompt {name}", partial(stories.generate, prompt, max_tokens=3)
    conversations: dict[str, Any] = {
        "none": [],
        "role": [{"role": "king", "content": "x"}],
        "keys": [{"role": "user"}],
        "type": "Hello",
        "content": [{"role": "user", "content": 3}],
        "control": [{"role": "user", "content": "<s>hi</s>"}],
    }
    for name, messages in conversations.items():
        yield f"messages {name}", partial(talker.chat, messages, max_tokens=3)
    yield "chat without a template", lambda: stories.chat(_MESSAGES, max_tokens=3)


def _other_faces(
    stories: sslm.Model, talker: sslm.Model, int4: sslm.Model, folder: Path
) -> Iterator[Call]:
    yield "int4", lambda: int4.generate("Once upon a time", max_tokens=12)
    for model, name in ((stories, "stories"), (talker, "talker"), (int4, "int4")):
        yield f"names {name}", partial(_names, model)
        yield f"footprint {name}", partial(_footprints, model)
        yield f"verify {name}", partial(_verified, model)
    yield "session footprint", talker.session_footprint
    yield "tokenizer", lambda: stories.tokenizer.encode("Once upon a time <s>")
    yield "tokenizer bytes", lambda: [stories.tokenizer.token_bytes(one) for one in range(300, 320)]
    yield "edited session", lambda: _edited(talker)
    yield "saved session", lambda: _saved(talker, kv=False)
    yield "saved session with states", lambda: _saved(talker, kv=True)
    yield "prefix", lambda: _prefixed(stories)
    yield "schema check", lambda: sslm.Schema.check({"type": "object", "$dynamicRef": "#a"})
    for spacing, free in product(("compact", "spaced", "flexible"), ("allow", "omit")):
        yield (
            f"schema {spacing} {free}",
            partial(_schema_facts, stories, spacing=spacing, free_keys=free),
        )
    yield "schema file", lambda: _schema_file(stories, folder)
    for name, options in _OPTIONS.items():
        if "prompt_logprobs" not in options:
            yield f"record {name}", partial(_recorded, stories, folder, options)


def _streamed(model: sslm.Model, options: dict[str, Any]) -> object:
    with model.stream("Lily", **options) as stream:
        texts = [(chunk.text, chunk.token_ids) for chunk in stream]
        return texts, stream.result()


def _awaited(
    ask: Callable[..., Coroutine[Any, Any, object]], prompt: object, options: dict[str, Any]
) -> object:
    return asyncio.run(ask(prompt, **options))


def _names(model: sslm.Model) -> object:
    return model.model_id, model.file_sha256, model.arithmetic_version


def _footprints(model: sslm.Model) -> object:
    return model.footprint(), model.footprint(4)


def _verified(model: sslm.Model) -> object:
    return model.verify().digest


def _talk(model: sslm.Model, options: dict[str, Any]) -> object:
    with model.session() as session:
        return [session.say(text, **options) for text in ("Hello", "And you?")]


def _sliced(model: sslm.Model, options: dict[str, Any]) -> object:
    with model.sequence("Lily", **options) as sequence:
        while not sequence.done:
            sequence.advance(layers=3)
        return sequence.result()


def _edited(model: sslm.Model) -> object:
    with model.session(system="Be kind.") as session:
        answers = [session.say("Hello", max_tokens=5), session.say("More", max_tokens=5)]
        answers.append(session.edit(2, "Good bye", max_tokens=5))
        session.undo()
        return answers, [asdict(message) for message in session.messages]


def _saved(model: sslm.Model, *, kv: bool) -> object:
    with model.session() as session:
        session.say("Hello", max_tokens=5)
        blob = session.save(kv=kv)
    with model.restore_session(blob) as restored:
        return sha256(blob).hexdigest(), len(blob), restored.say("And?", max_tokens=5)


def _prefixed(model: sslm.Model) -> object:
    with model.kv_pool(512) as pool, model.prefix("Once upon a time", pool=pool) as prefix:
        while not prefix.done:
            prefix.advance(layers=50)
        answers = []
        for seed in (1, 2):
            with model.sequence(
                " there", prefix=prefix, max_tokens=8, temperature=1, seed=seed
            ) as sequence:
                while not sequence.done:
                    sequence.advance(layers=7)
                answers.append(sequence.result())
        return answers


def _schema_facts(model: sslm.Model, **options: Any) -> object:
    schema = sslm.Schema.compile(_RIVER, tokenizer=model.tokenizer, **options)
    answer = model.generate("A river:", schema=schema, max_tokens=60)
    return schema.digest, schema.state_count, schema.mask_count, schema.shortest_tokens, answer


def _schema_file(model: sslm.Model, folder: Path) -> object:
    path = folder / "river.sslms"
    sslm.Schema.compile(_RIVER, tokenizer=model.tokenizer, name="river").save(path)
    loaded = sslm.Schema.load(path, tokenizer=model.tokenizer)
    return sha256(path.read_bytes()).hexdigest(), loaded.digest, loaded.name


def _recorded(model: sslm.Model, folder: Path, options: dict[str, Any]) -> object:
    path = folder / "call.sslmr"
    answer = model.generate("Tom", record=path, **{"max_tokens": 10, **options})
    schema = options.get("schema")
    report = sslm.replay(path, model=folder / "stories.sslm", schema=schema)
    return sha256(path.read_bytes()).hexdigest(), report.identical, answer.digest


def _plain(value: object) -> Any:
    if isinstance(value, sslm.Completion):
        return {
            "text": value.text,
            "token_ids": value.token_ids,
            "digest": value.digest,
            "finish_reason": value.finish_reason,
            "stop_reason": value.stop_reason,
            "length_reason": value.length_reason,
            "seed": value.seed,
            "choosing": str(value.choosing),
            "logprobs": str(value.logprobs),
            "prompt_logprobs": str(value.prompt_logprobs),
            "forced_tokens": value.forced_tokens,
            "tokens": [
                value.usage.prompt_tokens,
                value.usage.completion_tokens,
                value.usage.cached_tokens,
                value.usage.computed_tokens,
            ],
        }
    if is_dataclass(value) and not isinstance(value, type):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)
