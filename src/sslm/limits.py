"""Every hard bound, with its unit and the reason for its value."""

from typing import Final

CONTEXT_TOKENS_MAX: Final = 1 << 20
"""Positions of one sequence. Attention's sums are proven up to this many keys."""

VOCAB_SIZE_MAX: Final = 1 << 20
"""Token ids. Four times the largest vocabulary in use."""

HIDDEN_SIZE_MAX: Final = 1 << 16
"""Width of a row: RMSNorm's sum of squares stays below 2**46, and a linear sum in 64 bits."""

LAYER_COUNT_MAX: Final = 512
"""Transformer layers of one model."""

HEAD_COUNT_MAX: Final = 1024
"""Attention heads of one layer."""

HEAD_DIM_MAX: Final = 256
"""Width of one head: a query plane times a key stays in 32 bits."""

LINEAR_COLUMNS_MAX: Final = 1 << 16
"""Inputs of one linear op: the exact sum times a 24-bit mantissa stays below 2**62."""

ROPE_FACTOR_MAX: Final = 1 << 16
"""Stretch of positions, a ratio. Far beyond any published one; keeps angles well conditioned."""

FLOAT_WEIGHTS_SIZE_BYTES_MAX: Final = 4 << 30
"""Float32 weights that the reference model keeps; further ones are dequantized at each use."""

GGUF_TENSOR_COUNT_MAX: Final = 1 << 16
"""Tensors of one GGUF file. A model of 512 layers with 40 tensors each has a third of it."""

GGUF_KEY_COUNT_MAX: Final = 1 << 16
"""Metadata keys of one GGUF file. Published files have fewer than a hundred."""

GGUF_KEY_SIZE_BYTES_MAX: Final = (1 << 16) - 1
"""UTF-8 bytes of one metadata key, as the format's specification has it."""

GGUF_STRING_SIZE_BYTES_MAX: Final = 1 << 25
"""UTF-8 bytes of one string. Some files carry a whole tokenizer description in one."""

GGUF_ARRAY_COUNT_MAX: Final = 1 << 22
"""Items of one metadata array. Four times the largest vocabulary accepted."""

GGUF_METADATA_SIZE_BYTES_MAX: Final = 1 << 26
"""Bytes of all metadata. Python strings take at most about eight times as much memory."""

GGUF_TENSOR_NAME_SIZE_BYTES_MAX: Final = 64
"""UTF-8 bytes of one tensor name, as the format's specification has it."""

GGUF_DIMENSION_COUNT_MAX: Final = 4
"""Dimensions of one tensor, as the format's specification has it."""

GGUF_TENSOR_ELEMENT_COUNT_MAX: Final = 1 << 40
"""Elements of one tensor. Byte sizes stay below 2**43, so no machine's size type can wrap."""

GGUF_ALIGNMENT_BYTES_MIN: Final = 8
"""Alignment of tensor data in bytes: the specification asks for a multiple of eight."""

GGUF_ALIGNMENT_BYTES_MAX: Final = 1 << 16
"""Alignment of tensor data in bytes: the largest page size in use."""

ROPE_TABLES_SIZE_BYTES_MAX: Final = 1 << 28
"""Bytes of the rotary tables that a conversion computes, in about 20 seconds: 262,144 positions of
heads of 256. The source states their number; nothing in it grows with them."""

DEQUANTIZED_CHUNK_ELEMENTS: Final = 1 << 17
"""Weights that are dequantized at a time: the temporaries of a step are below 4 MB, in cache."""

SSLM_SECTION_COUNT_MAX: Final = 4096
"""Sections of one .sslm file, as in the published container; the table stays below 160 KiB."""

SSLM_CONFIG_SIZE_BYTES_MAX: Final = 1 << 18
"""Bytes of an artifact's configuration. 512 layers take about 30 KiB."""

SSLM_PROVENANCE_SIZE_BYTES_MAX: Final = 1 << 16
"""Bytes of an artifact's provenance: a few names, a hash and the conversion's options."""

SSLM_GOLDEN_SIZE_BYTES_MAX: Final = 1 << 20
"""Bytes of an artifact's golden runs. 16 runs over 512 layers take about 0.6 MiB; as JSON, a byte
takes up to 44 while it is read."""

SSLM_TEMPLATE_SIZE_BYTES_MAX: Final = 1 << 18
"""UTF-8 bytes of an artifact's chat template. The longest published one has about 15 KiB."""

SSLM_TOKENIZER_SIZE_BYTES_MAX: Final = 1 << 28
"""Bytes of an artifact's tokenizer: 2**20 tokens of 100 bytes with two merges each."""

SSLM_TENSOR_COUNT_MAX: Final = 1 << 16
"""Tensors of one artifact. 512 layers of 20 tensors are about 10,000."""

SSLM_TENSOR_NAME_SIZE_BYTES_MAX: Final = 128
"""ASCII bytes of a tensor's name."""

SSLM_TENSOR_EXPONENT_MAX: Final = 1 << 10
"""Largest absolute exponent of a tensor, in bits. Ops set much tighter bounds of their own."""

SSLM_JSON_DIGITS_MAX: Final = 20
"""Digits of an integer in JSON: 64 bits. Keeps parsing linear."""

SSLM_JSON_NESTING_MAX: Final = 8
"""Values inside values of an artifact's JSON. Its sections need five."""

SSLM_GOLDEN_RUN_COUNT_MAX: Final = 16
"""Golden runs of one artifact."""

SSLM_GOLDEN_RUN_TOKENS_MAX: Final = 256
"""Tokens of prompt and answer of one golden run, so that verifying stays a matter of seconds."""

SSLM_GOLDEN_TOKEN_COUNT_MAX: Final = 4096
"""Token ids of one prompt, answer or text of the golden runs."""

SSLM_GOLDEN_TEXT_SIZE_CHARS_MAX: Final = 1 << 16
"""Characters of one text of the golden runs."""

SSLM_GOLDEN_PAIR_COUNT_MAX: Final = 1024
"""Texts with token ids among the golden runs."""

TEXT_SIZE_CHARS_MAX: Final = 1 << 22
"""Characters of one text to tokenize: four for each of 2**20 positions. Keeps it to seconds."""

TEXT_BYTES_DEFAULT: Final = 1 << 20
"""UTF-8 bytes of one prompt or conversation, unless a model is opened with other ``text_bytes``:
200,000 tokens of English. Tokenizing them takes at most three seconds and 512 MiB."""

TEXT_BYTES_MAX: Final = 4 * TEXT_SIZE_CHARS_MAX
"""UTF-8 bytes that ``text_bytes`` may allow: no text has more."""

TOKENIZING_MEMORY_PER_BYTE: Final = 512
"""Bytes of memory for each byte of a text that is tokenized. The most that was measured is 430, of
digits that a byte-level vocabulary makes a token each."""

TOKENIZING_UNCOUNTED_BYTES: Final = 1 << 23
"""Bytes of them that no budget counts: those of a text of 16 KiB, beside the interpreter's own."""

NUMPY_MEMORY_BYTES: Final = 152 << 20
"""Bytes of address space without which NumPy is not loaded, for it and what is loaded after it.

Until its first product it took 113 MiB, in one thread.
"""

NUMPY_THREAD_MEMORY_BYTES: Final = 40 << 20
"""Bytes more for each further thread of its products."""

TOKENIZER_MEMORY_BYTES: Final = 24 << 20
"""Bytes that building a byte-level tokenizer takes, whatever its vocabulary."""

TOKENIZER_MEMORY_PER_ITEM: Final = 320
"""Bytes that it takes for each token and each merge, in which up to 280 were measured."""

TOKENIZER_MEMORY_PER_CHARACTER: Final = 8
"""Bytes that it takes for each character of tokens, and of the parts of merges."""

TOKEN_SIZE_CHARS_MAX: Final = 1024
"""Characters of one token's spelling. The longest ones in use are runs of 512 spaces."""

SPECIAL_TOKEN_SIZE_CHARS_MAX: Final = 256
"""Characters of a control or user-defined token, as finding them keeps several beginnings."""

SPECIAL_TOKEN_COUNT_MAX: Final = 1 << 16
"""Control and user-defined tokens of one vocabulary. Gemma, with most, has about 6,500."""

MERGE_COUNT_MAX: Final = 1 << 21
"""Merges of a vocabulary. Seven times Llama 3's 280,147, the most in use."""

MERGES_SIZE_CHARS_MAX: Final = 1 << 25
"""Characters of both parts of all merges, ten times Llama 3's: a file names its tokens by number,
so without a bound a few megabytes of merges could ask for gigabytes of spellings."""

CHAT_TEMPLATE_SIZE_CHARS_MAX: Final = 1 << 16
"""Characters of a chat template; compiling one is superlinear in them. The longest has 15,000."""

CHAT_MESSAGE_COUNT_MAX: Final = 1 << 14
"""Messages of one conversation. Each costs at least two control tokens of context."""

CHAT_TEMPLATE_OPERATION_COUNT_MAX: Final = 1 << 17
"""Operations of one rendering, of one to two microseconds and 100 bytes. A prompt takes two."""

CHAT_TEMPLATE_TEXT_SIZE_BYTES_MAX: Final = 1 << 24
"""Bytes of text that one rendering may touch: as much may be in memory at the end of it."""

CHAT_TEMPLATE_OPERATIONS_PER_MESSAGE: Final = 1 << 8
"""Operations more for each message. Those built as published ones take 20 to 150."""

CHAT_TEMPLATE_TOUCHES_PER_BYTE: Final = 32
"""Bytes of text more for each byte of the messages. Published templates touch it up to 10 times."""

CHAT_PROMPT_SIZE_CHARS_MAX: Final = 1 << 17
"""Characters of a prompt beyond those due to its messages. Tokenizing one takes 200 bytes."""

CHAT_PROMPT_CHARS_PER_MESSAGE: Final = 1 << 10
"""Characters more of a prompt for each message. Published templates write up to 100 around one."""

CHAT_PROMPT_COPIES_OF_CONTENT: Final = 4
"""How often a prompt may hold its messages. Published templates write each once or twice."""

CHAT_TEMPLATE_NODE_COUNT_MAX: Final = 1 << 13
"""Parts of a template's syntax. Published ones have one in nine characters: 15,000 make 1,700."""

CHAT_TEMPLATE_NESTING_MAX: Final = 32
"""Containers inside containers that a template may build."""

CHAT_TEMPLATE_SOURCE_NESTING_MAX: Final = 32
"""Brackets, blocks and operators that a template has inside one another. Published ones have 12.

Jinja's parser takes up to fourteen of Python's 1,000 calls for each.
"""

CHAT_TEMPLATE_TREE_DEPTH_MAX: Final = 72
"""Parts of a template's syntax inside one another, chains included: up to seven calls each.

Published ones have 29.
"""

CHAT_LITERAL_SEARCH_BYTES_MAX: Final = 1 << 27
"""Characters of control tokens that are searched for a template's literals: half a second."""

SPECIAL_TOKENS_SIZE_CHARS_MAX: Final = 1 << 18
"""Characters of all control tokens, and of all user-defined. Gemma's 6,500 have about 80,000."""

THREAD_COUNT_MAX: Final = 256
"""Threads of one plan; more than any machine here has physical cores."""

TASK_COUNT_MAX: Final = 256
"""Tasks of one loop that a parallel-for hook runs: scratch memory is set aside for each."""

STOP_COUNT_MAX: Final = 16
"""Stop strings of one request; each is searched for in every piece of text."""

STOP_SIZE_CHARS_MAX: Final = 1024
"""Characters of one stop string: as much text may be held back while streaming."""

MEMORY_BYTES_MAX: Final = 1 << 62
"""Bytes that a budget may allow; no address space is larger."""

SEQUENCE_COUNT_MAX: Final = 1 << 20
"""Sequences that a footprint may be asked for."""

DEADLINE_S_MAX: Final = 31_536_000
"""Seconds of one request: a year, which the timers of every system can wait."""

PROMPT_COUNT_MAX: Final = 1 << 16
"""Prompts of one call, whose token ids and answers are all held until it returns."""

ASYNC_THREAD_COUNT_MAX: Final = 32
"""Threads in which one model serves coroutines; they take turns, so that more gain nothing."""

ORIGIN_SIZE_BYTES_MAX: Final = 1 << 14
"""Bytes of the note about where a cached model came from: a few names and hashes."""

LOCK_NOTE_SIZE_BYTES_MAX: Final = 256
"""Bytes that are read of the note in which the holder of a cache's lock says who it is."""

CHILD_MEMORY_SIZE_BYTES_MAX: Final = 1 << 30
"""Bytes of a program that fetches: pip and a hub's library take less than a fifth of them."""

PACKAGE_MEMBER_COUNT_MAX: Final = 1 << 12
"""Files in a package that carries a model: one of interest, with a few that describe it."""

PACKAGE_OTHER_SIZE_BYTES_MAX: Final = 1 << 24
"""Bytes of all other files in such a package, as it states them."""

PIP_SETTINGS_SIZE_BYTES_MAX: Final = 1 << 16
"""Bytes of pip's own list of its settings."""

HUB_FILE_SIZE_BYTES_MAX: Final = 1 << 36
"""Bytes of a file that is fetched from a hub. Larger models than any accepted have fewer."""

HUB_ANSWER_SIZE_BYTES_MAX: Final = 1 << 24
"""Bytes of a hub's answer about a repository: 50,000 files of 300 bytes each."""

HUB_FILE_COUNT_MAX: Final = 1 << 16
"""Files of a hub's repository that are looked at."""

HUB_FILE_NAME_SIZE_CHARS_MAX: Final = 255
"""Characters of a file's path in a hub's repository: the longest file name in use."""

INT4_COLUMNS_MAX: Final = 1 << 14
"""Inputs of an op with int4 weights: each plane of bytes sums to less than 2**31, and their exact
sum, scales of groups included, to less than 2**38."""

BENCH_VALUE_COUNT_MAX: Final = 32
"""Values in one list of what is to be measured; each is measured many times."""

BENCH_BATCH_MAX: Final = 256
"""Sequences that are measured together; each has states of its own."""

BENCH_REPETITION_COUNT_MAX: Final = 1000
"""Repetitions of one measurement, whose times are all kept."""

CALIBRATION_INPUTS_SIZE_BYTES_MAX: Final = 1 << 30
"""Bytes of what matrices are multiplied with on the texts that int4 weights are rounded against."""

SAVE_PAGE_TOKENS: Final = 64
"""Positions of one page of a saved sequence: a page of the KV pool, as it lies there."""

SAVE_CHUNK_ROWS_MAX: Final = 64
"""Tokens of a saved chunk in progress: the most that run through the segments together."""

SAVE_STATE_COUNT_MAX: Final = 1 << 12
"""States of a saved sequence: eight for each of 512 layers. The table stays below 64 KiB."""

SAVE_COUNTER_MAX: Final = 1 << 62
"""Largest saved counter: a run adds to counters of 64 bits, which must not overflow."""

CODE_MAX: Final = 32639
"""Largest code of block floating point: both bytes of one, rounded apart, are then signed bytes."""

CHECKPOINT_COUNT_MAX: Final = 64
"""Checkpoints of one session: three for each of twenty turns. Each prompt is compared with all."""

CHECKPOINT_MARK_COUNT_MAX: Final = 6
"""Checkpoints that one request takes inside its prompt: their private copies are held beside it
until it is committed. A turn of a chat has one or two."""

SLICE_UNITS_MAX: Final = 1 << 30
"""Layers or head blocks of one slice: more than any chunk has."""

SLICE_MS_MAX: Final = 86_400_000
"""Milliseconds of one slice: a day, so that nanoseconds stay far below 2**63."""

SCHEDULE_WEIGHT_MAX: Final = 64
"""Weight of one sequence in a scheduler: a round gives it as many tokens in a row."""

SCHEDULED_SEQUENCE_COUNT_MAX: Final = 1024
"""Sequences of one scheduler, which looks at each of them before every run."""

SESSION_TEXT_SIZE_BYTES_MAX: Final = 1 << 25
"""Bytes of the texts in a saved conversation: the most that one holds, in the longest spelling."""

POOL_TOKENS_MAX: Final = 1 << 26
"""Tokens that a pool is made for: 64 contexts of the longest kind. Its memory is admitted too."""

SEED_MAX: Final = (1 << 64) - 1
"""Largest seed: the key of the generator has 64 bits."""

DECIMAL_SIZE_CHARS_MAX: Final = 64
"""Characters of an option that is a decimal, given as a text."""

LOGIT_BIAS_COUNT_MAX: Final = 1024
"""Token ids of one request that are biased; each is looked at for every token that is chosen."""

CHOICE_TOP_K_MAX: Final = 1 << 20
"""Tokens that a filter may keep: a whole vocabulary of the largest kind."""

CHOICE_MICRO_MAX: Final = 2_000_000_000
"""Millionths of an option of choosing: with 20 fraction bits, 2,000 still is a 32-bit score."""

DAMPING_MAX: Final = (1 << 20) - 1
"""Weight of damped greedy, with 15 fraction bits: 32 times a share is below 2**36."""

DAMPING_ORDER_MAX: Final = 16
"""Longest n-gram of damped greedy; the answer is scanned once for each length."""

STOP_TOKEN_ID_COUNT_MAX: Final = 1024
"""Token ids of one request that end its answer."""

TOP_LOGPROBS_MAX: Final = 20
"""Most likely tokens that are told for each position, as the services in use allow."""

ANSWER_COUNT_MAX: Final = 128
"""Answers to one prompt in one call, whose states may all be held at one time."""

RECORD_SIZE_BYTES_MAX: Final = 1 << 28
"""Bytes of a record: a million tokens with a digest of each of 50 segments."""

SCHEMA_STATES_MAX: Final = 1 << 16
"""States of an automaton while a schema is compiled, unless the caller says otherwise: a string
of up to 4,600 characters. Building as many takes more than half a second."""

SCHEMA_TRANSITIONS_MAX: Final = 1 << 20
"""Targets of all states of such an automaton: sixteen for each."""

SCHEMA_STEPS_MAX: Final = 11 << 18
"""Looks at positions, and what takes as long, while one schema is compiled: about a second, so
that monsters are refused soon."""

SCHEMA_SIZE_BYTES_MAX: Final = 1 << 20
"""Bytes of a schema document: more than published ones have; each is looked at a few times."""

SCHEMA_VALUE_COUNT_MAX: Final = 1 << 16
"""Values (objects, lists, texts, numbers...) of a schema document, counted at every level."""

SCHEMA_NESTING_MAX: Final = 64
"""Levels of nesting of a schema document: reading and compiling call themselves so deep."""

SCHEMA_CALLS_MAX: Final = 100
"""Schemas that are worked out inside one another, through references and parts of an instance.

Each takes up to eight of Python's 1,000 calls in one another. Published schemas have at most 32, a
list that is unrolled 32 times has 98.
"""

SCHEMA_NUMBER_DIGITS_MAX: Final = 400
"""Digits of a number in plain notation: a float64 has at most 309 before its point."""

SCHEMA_DOCUMENT_COUNT_MAX: Final = 64
"""Documents that a schema may refer to, itself included."""

SCHEMA_KEY_COUNT_MAX: Final = 512
"""Names of keys that the schemas of one place may know: each is a position in their order."""

SCHEMA_PATTERN_COUNT_MAX: Final = 6
"""Patterns for keys at one place: a key may match any subset of them."""

SCHEMA_PLACE_COUNT_MAX: Final = 1 << 12
"""Places of an instance that a schema tells apart, those of its recursion unrolled included."""

SCHEMA_PLACE_NESTING_MAX: Final = 48
"""Levels of nesting of an instance that a schema speaks of."""

SCHEMA_FREE_LEVELS_MAX: Final = 8
"""Levels below a place where anything may stand: states double with each."""

SCHEMA_RECURSION_MAX: Final = 32
"""Levels to which a recursive part of a schema may be unrolled."""

SCHEMA_CASE_COUNT_MAX: Final = 64
"""Cases that ``unevaluatedProperties`` and ``unevaluatedItems`` may have to tell apart."""

SCHEMA_UNIQUE_STATES_MAX: Final = 1 << 11
"""Ways to have used values in a list without repetition: subsets of eleven, or pairs of more."""

SCHEMA_UNIQUE_TEXTS_MAX: Final = 256
"""Values that an item of a list without repetition may have."""

SCHEMA_REMAINDERS_MAX: Final = 1 << 14
"""Remainders of a multipleOf, times the digits of its fraction: states of its automaton."""

BATCH_SIZE_MAX: Final = 64
"""Rows that are computed at one time: one run has as many tokens."""

PATTERN_SIZE_CHARS_MAX: Final = 1 << 12
"""Characters of one regular expression: four lines of fifty are rare."""

PATTERN_NESTING_MAX: Final = 50
"""Groups of a regular expression in one another: reading calls itself so deep."""

PATTERN_COUNT_DIGITS_MAX: Final = 9
"""Digits of a count in a regular expression; what can be built is far below."""

FORCED_SPAN_SIZE_BYTES_MAX: Final = 256
"""Bytes of a text without a choice that are split into tokens at once; the rest is split anew."""

SCHEMA_MASK_COUNT_MAX: Final = 4096
"""Masks of one schema: at a vocabulary of 2**17 they take 64 MiB."""

SCHEMA_LOOK_COUNT_MAX: Final = 1 << 27
"""Prefixes of tokens that are looked at to find out how near to an end each state of a schema is:
about half a second."""

BATCH_LINE_SIZE_BYTES_MAX: Final = 1 << 23
"""Bytes of one line of requests: a text of the longest kind in ASCII, twice. While it is read, a
byte takes at most about sixteen."""

BATCH_LINE_CONTAINER_COUNT_MAX: Final = 1 << 15
"""Objects and lists in one line of requests: two for each message of the longest conversation."""

BATCH_LINE_NESTING_MAX: Final = 72
"""Values inside values of one line of requests: a schema may have 64, and stands in four."""

BATCH_NUMBER_SIZE_CHARS_MAX: Final = 40
"""Characters of a number in a request, so that reading it takes no time."""

BATCH_ROW_COUNT_MAX: Final = 1 << 20
"""Rows of one file, twenty times what hosted services take. Each costs about 120 bytes of memory
while ids are compared, and 8 afterwards."""

BATCH_ROW_ID_SIZE_CHARS_MAX: Final = 512
"""Characters of a row's id, eight times what hosted services take."""

BATCH_WINDOW_ROWS: Final = 256
"""Rows that may be in the making or wait for an earlier one, so that answers stay in order."""

BATCH_SYNC_NS: Final = 1_000_000_000
"""Nanoseconds after which what was written is made to outlast a power cut: a second is computed
again at most."""

SCHEMA_NAME_SIZE_CHARS_MAX: Final = 64
"""Characters of a schema's name."""

STORED_SCHEMA_COUNT_MAX: Final = 1024
"""Schemas in one model file."""

STORED_SCHEMA_SIZE_BYTES_MAX: Final = 1 << 26
"""Bytes of one compiled schema in a file; those of forms take 10 to 200 KB."""

STORED_SCHEMA_PART_SIZE_BYTES_MAX: Final = 1 << 22
"""Bytes of the numbers of an automaton, or of its tables, each of which may take 20 in memory:
as many as ``SCHEMA_TRANSITIONS_MAX`` can need."""

STORED_SCHEMA_MASKS_SIZE_BYTES_MAX: Final = 1 << 26
"""Bytes of the masks of one schema when they are in use: ``SCHEMA_MASK_COUNT_MAX`` of them at a
vocabulary of 2**17."""

STORED_SCHEMA_OPTIONS_SIZE_BYTES_MAX: Final = 1 << 10
"""Bytes of the options of a compiled schema."""

SSLM_SCHEMAS_SIZE_BYTES_MAX: Final = 1 << 28
"""Bytes of all compiled schemas in a model file."""

SCHEMA_DEPENDENT_STATES_MAX: Final = 1 << 12
"""Ways in which keys may depend on those before them in one object; each is a few states."""

SCHEMA_ASKED_PARTS_MAX: Final = 1 << 15
"""Keys and items at all places, times the schemas that speak there: a second of work."""

KEPT_SCHEMAS_SIZE_BYTES_MAX: Final = 1 << 28
"""Bytes of compiled schemas that a model keeps for later requests: 200 forms at a vocabulary of
49,152, which take 1.3 MB each, 80 at one of 151,936."""

KEPT_SCHEMA_COUNT_MAX: Final = 1 << 10
"""Schemas, or refusals of some, that a model keeps for later requests."""
