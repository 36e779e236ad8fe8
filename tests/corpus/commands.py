"""Command lines, in cases: the lines of a case share a folder and run one after the other."""

from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True, slots=True)
class Case:
    """Command lines that build on each other, each a tuple of arguments; and what stdin has."""

    lines: tuple[tuple[str, ...], ...]
    stdin: str = ""


def _case(*lines: str, stdin: str = "") -> Case:
    return Case(tuple(tuple(_split(line)) for line in lines), stdin)


def _split(line: str) -> list[str]:
    """Split at blanks; an underscore stands for a blank within an argument."""
    return [part.replace("_", " ") if part[:1] != "-" else part for part in line.split()]


_COMMANDS = (
    "generate",
    "chat",
    "batch",
    "replay",
    "prove",
    "verify",
    "convert",
    "inspect",
    "eval",
    "bench",
    "pull",
    "list",
    "rm",
    "doctor",
    "tokenize",
    "schema",
)
_PROMPT = "Once_upon_a_time"
_CHOICES = (
    "",
    "--temperature 0.8 --seed 7",
    "--temperature 1.3 --top-k 20 --seed 1",
    "--temperature 0.7 --top-p 0.9 --min-p 0.02",
    "--repetition-penalty 1.3",
    "--presence-penalty 0.5 --frequency-penalty 0.25",
    "--logit-bias 263=-100 --logit-bias 300=5",
    "--damping 2",
    "--damping 0.5 --damping-order 3 --damping-top-k 4",
)
_ENDS = ("", "--stop .", "--stop was --stop a", "--n 3", "--logprobs 2")
_WRONG = (
    "--temperature -1",
    "--temperature 0.001",
    "--temperature nan",
    "--top-p 7",
    "--top-p 0",
    "--min-p 2",
    "--top-k -1",
    "--seed -1",
    "--seed x",
    "--repetition-penalty 0",
    "--presence-penalty 3",
    "--frequency-penalty -3",
    "--logit-bias 5",
    "--logit-bias 999999=1",
    "--logit-bias 5=101",
    "--damping 32",
    "--damping 2 --temperature 1",
    "--damping-order 3",
    "--max-tokens 0",
    "--max-tokens x",
    "--n 0",
    "--logprobs 21",
    "--deadline-s 0",
    "--deadline-s -1",
    "--threads 0",
    "--threads 257",
    "--threads cpus",
    "--tier avx1024",
    "--tier scalar --backend reference",
    "--backend gpu",
    "--context-tokens 0",
    "--context-tokens 3",
    "--memory-bytes 1",
    "--memory-bytes 10KiB",
    "--memory-bytes ten",
    "--sha256 00",
    "--sha256 " + "0" * 64,
    "--schema missing.json",
    "--schema missing",
    "--schema empty.json",
    "--schema broken.json",
    "--schema unknown.json",
    "--schema river.json --finish foo",
    "--schema river.json --end-of-text foo",
    "--schema river.json --max-tokens 2",
    "--finish cut",
    "--end-of-text never",
    "--record missing/run.sslmr",
    "--record stories.sslm",
    "--stop",
    "--unknown-option",
)


def _generating() -> list[Case]:
    cases = [
        _case(f"generate {_PROMPT} -m stories.sslm --max-tokens 12 {choice} {end} --json")
        for choice, end in product(_CHOICES, _ENDS)
    ]
    cases += [
        _case(f"generate {_PROMPT} -m {model} --max-tokens 6 {how}")
        for model, how in product(
            ("stories.sslm", "int4.sslm"), ("", "-q", "-v", "--json", "--backend reference --json")
        )
    ]
    cases += [
        _case(f"generate A_tale: -m stories.sslm --schema {schema}.json --max-tokens 60 {how}")
        for schema, how in product(
            ("river", "order", "word", "number"),
            ("--json", "--finish cut --json", "--end-of-text never", "--temperature 1 --seed 2"),
        )
    ]
    cases += [_case(f"generate Hi -m stories.sslm {wrong} --json") for wrong in _WRONG]
    cases += [
        _case(f"generate Hi -m {model} --max-tokens 3 --json")
        for model in ("damaged.sslm", "short.sslm", "text.sslm", "missing.sslm", "nobody", ".")
    ]
    cases += [
        _case(f"generate Hi -m {model} --max-tokens 3") for model in ("damaged.sslm", "nobody")
    ]
    cases += [
        _case("generate - -m stories.sslm --max-tokens 5 --json", stdin=text)
        for text in ("Once", "", "x " * 3000, "\N{GREEK SMALL LETTER ALPHA}\n\n")
    ]
    return cases


def _recording() -> list[Case]:
    made = "generate Lily -m stories.sslm --max-tokens 8 --record run.sslmr"
    return [
        _case(f"{made} {choice} -q", *(f"replay run.sslmr -m stories.sslm {how}" for how in ways))
        for choice, ways in (
            ("", ("", "--json", "--backend reference --json", "--slice-units 1 --json")),
            ("--temperature 0.9 --seed 5", ("--json", "--from 3", "--from 3 --seed 9 --json")),
            ("--record-segments", ("--json", "--backend reference --json")),
            ("--schema river.json --max-tokens 40", ("--json", "--schema river.json --json")),
        )
    ] + [
        _case(f"{made} -q", "replay run.sslmr -m int4.sslm --json", "replay missing.sslmr --json"),
        _case("replay stories.sslm --json", "replay tale.txt -m stories.sslm --json"),
    ]


def _talking() -> list[Case]:
    lines = "Hello\nWhat is your name?\n/undo\nAgain\n/edit Other\n/edit 1 First\n/quit\n"
    wrong = ("/undo 3\n", "/nothing\n", "/edit\n", "Hi\n/edit 7 x\n", "/save\n", "//slash\n", "")
    return (
        [
            _case(f"chat -m talker.sslm --max-tokens 6 {how}", stdin=lines)
            for how in (
                "",
                "-q",
                "-v --tier scalar",
                "--system Be_brief. --temperature 0.8 --seed 4",
            )
        ]
        + [_case("chat -m talker.sslm --max-tokens 4 -q", stdin=text) for text in wrong]
        + [
            _case(
                "chat -m talker.sslm --max-tokens 4 -q",
                stdin="Hi\n/save talk.json\n/save talk.json\n",
            ),
            _case(
                "chat -m talker.sslm --max-tokens 4 -q",
                stdin="Hi\n/save talk.json\n/save! talk.json\n",
            ),
            _case("chat -m stories.sslm --max-tokens 4", stdin="Hi\n"),
            _case("chat -m talker.sslm --schema river.json --max-tokens 40 -q", stdin="A river?\n"),
            _case(
                "chat -m talker.sslm --record talks --max-tokens 4 -q",
                "replay talks/0001.sslmr -m talker.sslm --json",
                stdin="Hi\nHo\n",
            ),
            _case("chat -m talker.sslm --state-bytes 1 --json", stdin="Hi\n"),
            _case("chat -m talker.sslm --date tomorrow", stdin="Hi\n"),
        ]
    )


def _files() -> list[Case]:
    batch = "batch requests.jsonl -m talker.sslm -o out.jsonl"
    cases = [
        _case(f"{batch} -q", f"{batch} -q", f"{batch} --seed 1 -q"),
        _case(f"{batch} --json", "batch requests.jsonl -m stories.sslm -o out.jsonl --json"),
        _case(f"{batch} --seed 5 --max-tokens 3 -q"),
        _case("batch bad.jsonl -m stories.sslm -o out.jsonl --json"),
        _case("batch missing.jsonl -m stories.sslm -o out.jsonl --json"),
        _case("batch requests.jsonl -m stories.sslm -o requests.jsonl --json"),
        _case("batch requests.jsonl -m stories.sslm -o stories.sslm --json"),
    ]
    schemas = ("river", "order", "word", "number", "empty", "unknown", "broken")
    for schema in schemas:
        cases.append(_case(f"schema check {schema}.json", f"schema check {schema}.json --json"))
    for schema in ("river", "order", "word"):
        compiled = f"schema compile {schema}.json -m stories.sslm -o {schema}.sslms"
        cases.append(
            _case(
                f"{compiled} --json",
                f"{compiled} --json",
                f"{compiled} --force --json",
                f"schema show {schema}.sslms --json",
                f"schema show {schema}.sslms -m stories.sslm",
                f"generate A_thing: -m stories.sslm --schema {schema}.sslms --json",
            )
        )
    for option in ("--spacing spaced", "--spacing flexible", "--free-keys omit", "--spacing foo"):
        cases.append(
            _case(
                f"schema check order.json {option} --json",
                f"schema compile order.json -m stories.sslm -o order.sslms {option} --json",
            )
        )
    cases.append(
        _case(
            "schema add stories.sslm river.json order.json -o more.sslm --json",
            "schema list more.sslm",
            "schema list more.sslm --json",
            "schema show more.sslm river --json",
            "schema show more.sslm nothing --json",
            "schema add more.sslm river.json -o again.sslm --json",
            "generate A_river: -m more.sslm --schema river --max-tokens 40 --json",
            "inspect more.sslm --json",
        )
    )
    cases.append(_case("schema list stories.sslm", "schema show river.sslms --json"))
    return cases


def _models() -> list[Case]:
    cases = [
        _case(f"{command} {model}", f"{command} {model} --json")
        for command, model in product(
            ("inspect", "verify"),
            ("stories.sslm", "int4.sslm", "damaged.sslm", "short.sslm", "text.sslm", "no.sslm"),
        )
    ]
    cases += [
        _case(f"inspect {name} --json") for name in ("stories.gguf", "short.gguf", "tale.txt")
    ]
    cases += [
        _case(f"convert stories.gguf -o made.sslm {how} --json", "verify made.sslm --json")
        for how in ("", "--weights int4", "--weights int4 --head-weights int4", "--weights int3")
    ]
    cases += [
        _case(f"convert {source} -o made.sslm --json")
        for source in ("short.gguf", "tale.txt", "missing.gguf", "stories.sslm")
    ]
    cases.append(_case("convert stories.gguf -o tale.txt --json"))
    cases += [
        _case(
            "pull ./stories.gguf --json",
            "list",
            "list --json",
            "generate Once -m stories --max-tokens 3 --json",
            "pull ./stories.sslm --json",
            "pull ./stories.gguf --json",
            "list --json",
            "rm nobody --json",
            "rm stories --json",
            "list --json",
            "rm --all --yes --json",
        ),
        _case("pull nobody --json", "pull ./tale.txt --json", "pull hf:a/b --json"),
        _case("pull ./stories.gguf --sha256 00 --json", "rm", "rm --all"),
    ]
    cases += [
        _case(f"tokenize {words} -m stories.sslm {how}")
        for words, how in product((_PROMPT, "Grüße", "<s>"), ("", "--json"))
    ]
    cases += [
        _case("tokenize --decode 1_403_407 -m stories.sslm", "tokenize 9 --decode -m stories.sslm"),
        _case("eval stories.sslm --source stories.gguf --text tale.txt --json"),
        _case("eval stories.sslm --source int4.sslm --text tale.txt --json"),
        _case("prove Once -m stories.sslm --json"),
        _case("prove Once -m int4.sslm --max-tokens 0 --json"),
    ]
    cases += [_case(f"{command} --help") for command in _COMMANDS]
    cases += [
        _case(f"schema {verb} --help") for verb in ("check", "compile", "list", "show", "add")
    ]
    cases += [_case("--help"), _case("--version"), _case("nothing"), _case("generate"), _case("")]
    return cases


def all_cases() -> list[Case]:
    """Return every case, in the order that the recording has them."""
    return [*_generating(), *_recording(), *_talking(), *_files(), *_models()]
