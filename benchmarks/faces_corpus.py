"""Sixty requests that differ in whatever the faces of the package could treat differently."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

from sslm.answering.request import AnswerOptions
from sslm.engine.model import Model

CONTEXT_TOKENS = 512
"""Of the model under test, so that the end of the context is soon reached."""
REQUEST_COUNT = 60

TEXTS = (
    ".",
    " ",
    "\n",
    "\t\r\n \u00a0",
    "a",
    "Once upon a time",
    " Lily went to the park",
    "-",
    "--max-tokens 3",
    "The year 1999: 3.14 % of $5,000!",
    "Zoë señor naïve Straße",
    "日本語と한국어",
    "e\u0301 is not \u00e9",
    "🙂👩‍👩‍👧 flags 🇳🇴",
    "שלום עולם \u202eabc",
    'quotes " and \\ and \' and {"json": [1]}',
    "null byte \x00 here",
)
CONTROLS = (
    "</s>",
    "<s>Once</s>",
    "<unk><0x0A>",
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
    "<|endoftext|>",
    "[INST] <<SYS>> obey",
)
STORY = "One day, a little girl named Lily found a needle in her room. "
CHATS = (
    [{"role": "user", "content": "Name a river."}],
    [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hi"}],
    [{"role": "user", "content": "<|im_end|> </s> Zoë 🙂"}],
    [{"role": "user", "content": "What is 2 + 2?"}],
)


@dataclass(frozen=True)
class Asked:
    """A request, in the words of every face.

    Args:
        name: What is special about it.
        prompt: Text, ids or messages.
        max_tokens: Most ids of the answer.
        stop: Strings that end it.
        is_argument: Whether the text is an argument of the command, not its stdin.
        choosing: How its tokens are chosen.
    """

    name: str
    prompt: Any
    max_tokens: int = 12
    stop: tuple[str, ...] = field(default=())
    is_argument: bool = True
    choosing: AnswerOptions = field(default_factory=AnswerOptions)

    @property
    def is_chat(self) -> bool:
        """Whether the prompt is messages."""
        return isinstance(self.prompt, list) and isinstance(self.prompt[0], dict)

    @property
    def has_command(self) -> bool:
        """Whether a command can ask it: commands take no ids."""
        return isinstance(self.prompt, str) or self.is_chat

    @property
    def is_drawn(self) -> bool:
        """Whether tokens are drawn."""
        return bool(self.choosing.get("temperature"))

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments of every call."""
        return {"max_tokens": self.max_tokens, "stop": self.stop, **self.choosing}

    @property
    def option_key(self) -> tuple[object, ...]:
        """The options as a key."""
        return self.max_tokens, self.stop, repr(self.choosing)

    @property
    def stdin(self) -> str | None:
        """What the command reads."""
        if self.is_chat:
            return str(self.prompt[-1]["content"]) + "\n"
        return None if self.is_argument else str(self.prompt)

    def batch_line(self, row_id: str) -> dict[str, Any]:
        """Return the request as a line of a batch file has it."""
        url = "/v1/chat/completions" if self.is_chat else "/v1/completions"
        # Of its own, as a row that says none has one by its id.
        seed = {"seed": self.choosing.get("seed", 0)}
        body = {"messages" if self.is_chat else "prompt": self.prompt} | self.options | seed
        plain = json.loads(json.dumps(body, default=str))
        return {"custom_id": row_id, "method": "POST", "url": url, "body": plain}

    def arguments(self, model: Model, *more: str) -> list[str]:
        """Return the command's arguments."""
        name = "chat" if self.is_chat else "generate"
        arguments = [name, "--model", str(model.path), "--context-tokens", str(CONTEXT_TOKENS)]
        arguments += ["--max-tokens", str(self.max_tokens), *more]
        arguments += [word for stop in self.stop for word in ("--stop", stop)]
        for name, value in self.choosing.items():
            for text in _as_typed(value):
                arguments += [f"--{name.replace('_', '-')}", text]
        if not self.is_chat:
            return [*arguments, "--", self.prompt if self.is_argument else "-"]
        if len(self.prompt) > 1:
            arguments += ["--system", self.prompt[0]["content"]]
        return arguments


def corpus(model: Model) -> list[Asked]:
    """Return the requests for a model; one without a chat template gets other texts for chats."""
    requests = [
        # "-" stands for stdin, and the system's arguments have no null byte.
        Asked(repr(text), text, is_argument=index % 2 == 0 and text != "-" and "\0" not in text)
        for index, text in enumerate((*TEXTS, *CONTROLS))
    ]
    requests += _ids(model)
    requests += [
        Asked(f"{count} sentences", STORY * count, is_argument=count % 2 == 0)
        for count in (1, 4, 9, 12)
    ]
    requests += [Asked(f"one token after {text!r}", text, max_tokens=1) for text in TEXTS[4:7]]
    requests += _stops(model)
    requests += [
        Asked("a long answer", "Once upon a time", max_tokens=400),
        Asked("another long answer", "The end", max_tokens=300),
    ]
    if model.artifact.chat_template is None:
        requests += [Asked(f"{one[-1]['content']} as text", one[-1]["content"]) for one in CHATS]
    else:
        requests += [Asked(f"chat: {one[-1]['content']}", one, max_tokens=20) for one in CHATS]
    requests += _choices(requests[-1])
    if len(requests) != REQUEST_COUNT:
        raise AssertionError(f"{len(requests)} requests")
    return requests


def _choices(last: Asked) -> list[Asked]:
    """Return requests whose tokens are chosen in every way; the last ones ask as *last* does."""
    text = "Once upon a time"
    ways: dict[str, AnswerOptions] = {
        "sampled": {"temperature": 1},
        "sampled with another seed": {"temperature": "0.9", "seed": 2**64 - 1},
        "sampled among few": {"temperature": 1.5, "top_k": 5, "seed": 3},
        "sampled with every filter": {"temperature": 2, "top_k": 40, "top_p": 0.9, "min_p": 0.01},
        "penalties": {"repetition_penalty": 1.3, "presence_penalty": 0.5, "frequency_penalty": -1},
        "biases": {"logit_bias": {5: 1.5, 300: -100, 301: "2.25"}},
        "damped": {"damping": 2},
        "damped by long n-grams": {"damping": "0.5", "damping_order": 4, "damping_top_k": 20},
    }
    asked = [Asked(name, text, max_tokens=24, choosing=way) for name, way in ways.items()]
    drawn: AnswerOptions = {"temperature": 0.8, "repetition_penalty": 1.1, "seed": 7}
    return [
        *asked,
        replace(last, name="the last one, sampled", choosing=drawn),
        replace(last, name="the last one, damped", choosing={"damping": 1}),
    ]


def _as_typed(value: object) -> list[str]:
    """Return the values of a command's option that mean the same."""
    if isinstance(value, dict):
        return [f"{token_id}={bias}" for token_id, bias in value.items()]
    return [str(value)]


def _ids(model: Model) -> list[Asked]:
    last = model.tokenizer.vocab_size - 1
    prompts = {
        "the first id": [1],
        "the last id": [1, last],
        "an end token among the ids": [*model.artifact.vocabulary.end_token_ids, 5],
        "a chunk of 64": [1 + n % 60 for n in range(64)],
        "a chunk and a row": [1 + n % 60 for n in range(65)],
        "the end of the context": [1 + n % 60 for n in range(CONTEXT_TOKENS - 3)],
    }
    return [Asked(name, ids) for name, ids in prompts.items()]


def _stops(model: Model) -> list[Asked]:
    prompt = "Once upon a time"
    answer = model.generate(prompt, max_tokens=24)
    ends = [
        len(model.tokenizer.decode(answer.token_ids[:count], is_continuation=True))
        for count in range(25)
    ]
    across = answer.text[ends[6] - 1 : ends[7] + 1]
    middle = len(answer.text) // 2
    stops: dict[str, tuple[str, ...]] = {
        "a stop across tokens": (across,),
        "a stop of one character": (answer.text[middle],),
        "a stop at the beginning": (answer.text[:1],),
        "a stop that never comes": ("\u2603 never",),
        "a stop that only begins": (answer.text[-1] + "\u2603",),
        "the earlier of two stops": (answer.text[middle : middle + 3], across),
        "a stop that ends with the answer": (answer.text[-3:],),
        "an empty line and others": ("\n\n", "🙂", "</s>"),
    }
    return [Asked(name, prompt, max_tokens=24, stop=stop) for name, stop in stops.items()]
