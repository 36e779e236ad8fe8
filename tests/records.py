"""Records made by hand, and sealed again after a change."""

from array import array
from dataclasses import replace

from sslm.formats.choice import SavedChoice
from sslm.formats.records.writer import RecordedSchema, RecordFinish, SavedRecord

PLAIN_CHOICE = SavedChoice(
    decoder=0,
    bias=(),
    repetition=1_000_000,
    presence=0,
    frequency=0,
    temperature=1_000_000,
    top_k=0,
    top_p=1_000_000,
    min_p=0,
    seed=0,
    damping=0,
    damping_order=1,
)
RICH_CHOICE = SavedChoice(
    decoder=1,
    bias=((3, -5_000_000), (40, 250_000)),
    repetition=1_100_000,
    presence=-500_000,
    frequency=250_000,
    temperature=700_000,
    top_k=40,
    top_p=950_000,
    min_p=10_000,
    seed=(7 << 32) + 9,
    damping=29_491,
    damping_order=3,
)
RECORD = SavedRecord(
    model_id=b"m" * 32,
    arithmetic_version=1,
    context_tokens=64,
    max_tokens=5,
    is_continuation=True,
    choice=PLAIN_CHOICE,
    stop=(),
    stop_token_ids=(2,),
    finish=RecordFinish.LENGTH,
    stop_index=0,
    prompt_ids=array("i", [1, 20, 3]),
    token_ids=array("i", [4, 5, 6, 7, 8]),
    digest=b"d" * 32,
    links=bytes(range(160)),
)
RICH_RECORD = replace(
    RECORD,
    is_continuation=False,
    choice=RICH_CHOICE,
    stop=("\n", "né"),
    stop_token_ids=(2, 9),
    finish=RecordFinish.STOP_STRING,
    stop_index=1,
    token_ids=array("i", [4, 5]),
    links=bytes(range(64)),
    segments=bytes(range(24)),
    segment_count=3,
)
SCHEMA_RECORD = replace(
    RECORD,
    finish=RecordFinish.DEAD_END,
    schema=RecordedSchema(digest=b"s" * 32, name="side-1", is_fitted=True, allows_ends=False),
)
