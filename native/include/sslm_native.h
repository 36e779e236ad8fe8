/* The interface of the native backend: plain structs and a few functions.
 *
 * Between the two markers below lies what `python -m tools.native_interface` hands to cffi, so that both sides come
 * from one text: only declarations, integer constants and comments may stand there. Run it after every change. The
 * structs belong to the caller, who keeps them and everything that they point to alive for as long as the plan lives.
 * Integers are little-endian, as are the artifacts and states that they describe.
 */
#ifndef SSLM_NATIVE_H
#define SSLM_NATIVE_H

#include <stddef.h>
#include <stdint.h>

/* Only what is declared here is exported. */
#if defined(_WIN32) && defined(__clang__)
#pragma clang attribute push(__declspec(dllexport), apply_to = function)
#elif !defined(_WIN32)
#pragma GCC visibility push(default)
#endif

/* cdef begin */
#define SSLM_NATIVE_ABI 5

/* What calls return. */
#define SSLM_OK 0
#define SSLM_CANCELLED 1       /* The flag was set; no residual, fixed state or counter has changed. */
#define SSLM_BUSY 2            /* Another thread is running this plan. */
#define SSLM_BAD_TIER 3        /* The tier does not exist or does not run on this CPU. */
#define SSLM_BAD_MEMORY 4      /* The memory is too small or not aligned to 64 bytes. */
#define SSLM_NO_THREAD 5       /* The system refused to start a thread. */
#define SSLM_BAD_SEGMENTS 6    /* first_segment … last_segment is not a range of segments. */
#define SSLM_BAD_ROWS 7        /* A span or all of them together have too many rows, or one has none. */
#define SSLM_BAD_TOKEN 8       /* A token id is outside the vocabulary. */
#define SSLM_BAD_POSITION 9    /* A position is negative or beyond context_tokens. */
#define SSLM_BAD_PAGE 10       /* A page is missing from the table, or not in the pool. */
#define SSLM_BAD_HOOK 11       /* A parallel-for hook that cannot be installed; what was installed before stays. */
#define SSLM_BROKEN_HOOK 12    /* The hook broke its contract; no residual, fixed state or counter has changed. */
#define SSLM_STOPPED_HOOK 13   /* The hook gave up; no residual, fixed state or counter has changed. */
#define SSLM_TOO_MUCH 14       /* More work than the caller would have done. */
#define SSLM_BAD_LOGITS 15     /* The largest logit is beyond what a score can be. */

/* What sslm_native_advance did with a sequence. */
#define SSLM_STAYED 0          /* Nothing: a run failed before its turn, or with it. */
#define SSLM_MOVED 1           /* Its chunk ran some segments. */
#define SSLM_ENDED 2           /* Its chunk came to its end. */

#define SSLM_NONE_ALLOWED -1  /* A selected id: a mask allowed none, */
#define SSLM_NOT_SCORED -2     /* or the last position was not scored, */
#define SSLM_SCORE_REFUSED -3  /* or the largest logit is beyond what a score can be. */

/* What chooses a token. */
#define SSLM_DECODER_GREEDY 0
#define SSLM_DECODER_SAMPLING 1
#define SSLM_DECODER_DAMPED 2

#define SSLM_DAMPING_ORDER_MAX 16

/* Bits of sslm_native_cpu_features; a bit is set if CPU and operating system both offer it. */
#define SSLM_CPU_AVX2 1
#define SSLM_CPU_AVX512 2      /* F, BW, DQ and VL together */
#define SSLM_CPU_AVX512VNNI 4
#define SSLM_CPU_SHA 8         /* SHA-256, of x86 or of AArch64 */
#define SSLM_CPU_AVXVNNI 16
#define SSLM_CPU_DOTPROD 32    /* of AArch64 */
#define SSLM_CPU_AMX 64        /* tiles of bytes, which Linux grants a process that asks */

#define SSLM_TIER_SCALAR 0
#define SSLM_TIER_AVX2 1
#define SSLM_TIER_AVXVNNI 2
#define SSLM_TIER_AVX512VNNI 3
#define SSLM_TIER_NEON 4
#define SSLM_TIER_AMX 5
#define SSLM_TIER_COUNT 6

#define SSLM_THREAD_COUNT_MAX 256
#define SSLM_TASK_COUNT_MAX 256
#define SSLM_SPAN_ROWS_MAX 64
#define SSLM_PAGE_TOKENS 64
#define SSLM_SITE_COUNT 6

#define SSLM_BUFFER_INT32 0
#define SSLM_BUFFER_CODES 1
#define SSLM_BUFFER_OUTSIDE 2  /* Logits and selections: they lie in the spans. */

#define SSLM_PANEL_INT8 0      /* int8 [out_features / 16][in_features / 4][16][4], both rounded up */
#define SSLM_PANEL_INT4 1      /* for each 16 rows: uint8 [in_features / 32][16] scales, padded to 64 bytes,
                                * then [in_features / 8][16][4] bytes of two codes plus 8; all rounded up */

#define SSLM_STATE_KEYS 0      /* int16 [head][token][dim], then exponents u8 [head][token] */
#define SSLM_STATE_VALUES 1    /* int16 [head][token / 2][dim][2], then exponents u8 [head][token] */
#define SSLM_STATE_FIXED 2     /* int32 [dim] */

#define SSLM_SEGMENT_EMBED 0
#define SSLM_SEGMENT_LAYER 1
#define SSLM_SEGMENT_HEAD 2
#define SSLM_SEGMENT_SELECT 3

#define SSLM_OP_EMBED 0
#define SSLM_OP_RMSNORM 1
#define SSLM_OP_QUANTIZE 2
#define SSLM_OP_LINEAR 3
#define SSLM_OP_ROPE 4
#define SSLM_OP_APPEND 5
#define SSLM_OP_ATTENTION 6
#define SSLM_OP_GATED_ACTIVATION 7
#define SSLM_OP_ADD 8
#define SSLM_OP_LOGITS 9
#define SSLM_OP_CHOOSE 10
#define SSLM_OP_MOVING_AVERAGE 11
#define SSLM_OP_COUNT 12

/* What a hook is called for. Each scope includes the one before it. */
#define SSLM_SCOPE_FINISH 0    /* the rows of the head */
#define SSLM_SCOPE_ONE_ROW 1   /* the projections of a run of one row */
#define SSLM_SCOPE_ALL 2       /* every op of every run that has enough work */

/* How a hook breaks its contract. */
#define SSLM_FAULT_OMITTED 1    /* An index was not invoked. */
#define SSLM_FAULT_REPEATED 2   /* An index was invoked again. */
#define SSLM_FAULT_INVENTED 3   /* There is no such index. */
#define SSLM_FAULT_UNFINISHED 4 /* run returned before an invocation had. */

/* Does one task of a loop. */
typedef void (*sslm_task)(void *argument, int32_t index);

/* A host's way to run the tasks of a loop, on whatever threads it has. run invokes task(argument, index) exactly
 * once for every index from 0 to task_count - 1, in any order, on any threads, side by side or not, and returns 0
 * after all of them have returned; anything else if it gave up. Tasks must not be invoked once run has returned. */
typedef struct {
    int32_t (*run)(void *user, sslm_task task, void *argument, int32_t task_count);
    void *user;
    int32_t max_tasks;          /* 0 … SSLM_TASK_COUNT_MAX, and at most the program's task_count_max */
    uint32_t scope;             /* SSLM_SCOPE_* */
} sslm_parallel_for;

typedef struct {
    int32_t kind;               /* SSLM_BUFFER_* */
    int32_t width;              /* elements of a row */
} sslm_buffer;

typedef struct {
    int32_t kind;               /* SSLM_STATE_* */
    int32_t segment;            /* index of the segment that writes it */
    int32_t head_count;
    int32_t head_dim;
    uint64_t offset_bytes;      /* in a page, or in a sequence's fixed states */
} sslm_state;

typedef struct {
    const uint8_t *panels;
    const int32_t *mantissas;   /* [out_features] */
    const int32_t *bias;        /* [out_features] or NULL */
    int32_t out_features;
    int32_t in_features;
    int32_t exponent;
    int32_t encoding;           /* SSLM_PANEL_* of the panels */
} sslm_matrix;

typedef struct {
    const int32_t *gain;        /* [group_size] */
    int32_t group_size;
    int32_t gain_exponent;
    int32_t source_bits;        /* fraction bits of the input */
    int32_t out_bits;           /* fraction bits of the output */
    int32_t epsilon_mantissa;
    int32_t epsilon_shift;
} sslm_norm;

typedef struct {
    const int32_t *cos;         /* [positions][rotary_dim / 2] */
    const int32_t *sin;
    int32_t head_dim;
    int32_t rotary_dim;
    int32_t is_interleaved;
} sslm_rotation;

typedef struct {
    int32_t head_count;         /* query heads */
    int32_t window;             /* visible positions; 0 is all */
    int32_t score_shift;        /* F_q + F_k - 16 */
} sslm_heads;

typedef struct {
    int32_t kind;               /* SSLM_OP_* */
    int32_t site;               /* saturation counter */
    int32_t source;             /* buffers: read; for rope and add also see out */
    int32_t other;              /* the up projection of a gated activation */
    int32_t out;                /* written; rope and add change it in place */
    int32_t state;              /* appended to, walked, or the keys of attention */
    int32_t values;             /* the values of attention */
    int32_t gate_bits;          /* fraction bits of the gate of a gated activation */
    int32_t accumulates;        /* linear adds to what out holds */
    int32_t first_row;          /* of logits: rows of the vocabulary */
    int32_t last_row;
    sslm_matrix matrix;         /* of embed, linear and logits */
    sslm_norm norm;
    sslm_rotation rotation;
    sslm_heads heads;
} sslm_op;

typedef struct {
    int32_t kind;               /* SSLM_SEGMENT_* */
    int32_t first_op;
    int32_t last_op;            /* one past the last */
} sslm_segment;

typedef struct {
    const sslm_buffer *buffers;
    const sslm_state *states;
    const sslm_op *ops;
    const sslm_segment *segments;
    const int32_t *pow2_nodes;      /* [65] */
    const int32_t *sigmoid_nodes;   /* [1025] */
    uint64_t page_size_bytes;
    uint64_t fixed_size_bytes;
    int32_t buffer_count;
    int32_t state_count;
    int32_t segment_count;
    int32_t residual;               /* index of its buffer */
    int32_t last_layer;             /* index of the segment whose digests are always taken */
    int32_t vocab_size;
    int32_t token_count;            /* ids from here on have no token: never a logit, never chosen */
    int32_t context_tokens;         /* positions stay below */
    int32_t row_count_max;          /* rows of one run, all spans together */
    int32_t tier;                   /* SSLM_TIER_* */
    int32_t thread_count;           /* the caller's thread included */
    int32_t task_count_max;         /* of hooks that may be installed: the plan has scratch for so many tasks */
    uint32_t arithmetic_version;
} sslm_program;

/* How the token after a position is chosen: docs/arithmetic.md, section 5. All numbers are derived by the caller, who
 * checks them: program/choice.py. */
typedef struct {
    int32_t *scores;                /* [vocab_size], for the op's own use */
    uint32_t *seen;                 /* [vocab_size / 32], rounded up, for the op's own use: zero between runs */
    const int32_t *token_ids;       /* from position 0 on, those of the span's rows included */
    const int32_t *bias_ids;        /* [bias_count] */
    const int32_t *biases;          /* [bias_count] scores */
    uint64_t seed;
    int64_t exponent_mantissa;      /* 2^30 … 2^31 - 1: from scores to exponents of two, */
    int32_t exponent_shift;         /* 1 … 62, with 24 fraction bits */
    int32_t decoder;                /* SSLM_DECODER_* */
    int32_t answer_start;           /* the position of the answer's first token */
    int32_t bias_count;
    int32_t repetition;             /* millionths, above 0; 1000000 is off */
    int32_t presence;               /* a score */
    int32_t frequency;              /* a score */
    int32_t top_k;                  /* 0 keeps all */
    int32_t top_p;                  /* millionths, above 0; 1000000 keeps all */
    int32_t min_p;                  /* millionths; 0 keeps all */
    int32_t damping;                /* 15 fraction bits, below 2^20 */
    int32_t damping_order;          /* 1 … SSLM_DAMPING_ORDER_MAX */
} sslm_choice;

typedef struct {
    uint8_t *pool;
    const int32_t *pages;
    uint8_t *fixed;
    int32_t *residual;              /* [SSLM_SPAN_ROWS_MAX][hidden_size] */
    int64_t *saturations;           /* [SSLM_SITE_COUNT], added to */
    uint8_t *digests;               /* [row_count][32] */
    uint8_t *trace;                 /* [last_layer + 1][row_count][32] or NULL */
    const int32_t *token_ids;       /* [row_count] */
    int64_t *logits;                /* [row_count - first_logits_row][vocab_size], or NULL for none */
    int32_t *selected;              /* [row_count - first_logits_row], or NULL for none; -1 where no id is allowed */
    const uint32_t *allowed;        /* [token_count / 32], rounded up: a bit for each id, or NULL for all. The logits
                                       of others are INT64_MIN; panels of 16 without any are not read. */
    int32_t *logit_exponents;       /* [row_count - first_logits_row]: a logit stands for itself times two to this;
                                       with logits, and only then */
    const sslm_choice *choice;      /* NULL takes the largest logit */
    int64_t pool_page_count;
    int64_t table_page_count;       /* entries of pages */
    int64_t first_position;
    int32_t row_count;
    int32_t first_logits_row;
    int32_t is_prefill;             /* The rows are given tokens, not one that was just chosen. */
} sslm_span;

typedef struct {
    const sslm_span *spans;
    const int32_t *cancel;          /* polled: once seen nonzero, it stops the run; or NULL */
    int32_t span_count;
    int32_t first_segment;
    int32_t last_segment;           /* one past the last */
    int32_t bad_span;               /* written on SSLM_BAD_*: where */
    int64_t bad_value;              /* and what */
    int64_t *op_ns;                 /* [SSLM_OP_COUNT + 1] nanoseconds by kind of op, digests last: added to; or NULL */
    int32_t fault;                  /* written on SSLM_BROKEN_HOOK: SSLM_FAULT_*, the first that was seen, */
    int32_t fault_index;            /* of which task, or on SSLM_STOPPED_HOOK what the hook returned, */
    int32_t fault_task_count;       /* of how many, */
    int32_t fault_segment;          /* in which segment; on SSLM_STOPPED_HOOK this alone */
    int64_t max_ns;                 /* A run with a limit ends, behind its first unit, before one that might take it
                                       beyond so many nanoseconds; last_segment says then where. 0 reads no clock. */
    int64_t unit_ns;                /* what a unit may take: of a run with a limit as much as any did so far */
    int64_t layer_ns;               /* raised to what the longest layer of a run with a limit took, */
    int64_t block_ns;               /* and the longest block of the head */
} sslm_run;

/* What a sequence is between runs, its pages left aside. The caller admits tokens and reads what came of them; only
 * sslm_native_advance begins and ends chunks. */
typedef struct {
    sslm_span span;                 /* the sequence's memory; and the chunk in progress, or the last one */
    int32_t *token_ids;             /* those computed, those in the chunk, those pending, in this order */
    const uint32_t *first_allowed;  /* span.allowed before the first token of an answer, which the caller changes as it
                                       admits the answer's tokens; or NULL, without a schema */
    int64_t layers_run;             /* layers that its chunks ran */
    int64_t chunk_count;            /* chunks that were begun */
    int32_t computed_count;
    int32_t pending_count;          /* admitted, and not in a chunk */
    int32_t chunk_tokens;           /* most rows of a chunk, 1 … SSLM_SPAN_ROWS_MAX */
    int32_t has_all_logits;         /* Score every row, not only the last one that is pending. */
    int32_t is_decoding;            /* What is pending is the token that was chosen. */
    int32_t is_in_flight;           /* The chunk has not come to its end. */
    int32_t is_rescoring;           /* The last position, whose residual lies in row 0, is to run through the head again
                                       as a chunk of its own. Nothing is pending, and nothing is selected. */
    int32_t next_segment;           /* where it stands, */
    int32_t stop_segment;           /* and where it ends */
    int32_t selected;               /* chosen after the last position, or SSLM_NONE_ALLOWED or SSLM_NOT_SCORED */
    int32_t last_row;               /* where the residual of the last computed position lies */
    int32_t progress;               /* SSLM_STAYED, SSLM_MOVED, SSLM_ENDED: of the last call */
    int32_t is_used;                /* A call on it was met since it was empty: the caller's, like the next ones. */
    int32_t forced_count;           /* tokens that were admitted without being chosen, as the schema's content */
    int32_t content_count;          /* tokens of the schema's content that were admitted, */
    uint32_t schema_state;          /* and where the answer stands behind them */
    uint8_t link[32];               /* the chain of digests over the computed positions */
} sslm_sequence;

typedef struct {
    sslm_sequence *const *sequences; /* each once, each with something in flight, pending or to be scored again */
    sslm_span *spans;               /* [sequence_count], for the call's own use */
    int32_t sequence_count;
    int32_t budget_units;           /* at least 1: layers, or blocks of the head, of every chunk */
    int32_t row_count_max;          /* rows of one run, at least those of any chunk and at most the program's */
    sslm_run run;                   /* cancel, op_ns, max_ns (of all runs) and unit_ns are the caller's; the rest
                                       tells of the longest units, and of a run that failed */
} sslm_advance;

/* The log-probabilities of a row of logits, with 20 fraction bits: docs/arithmetic.md, section 5. */
typedef struct {
    const int64_t *logits;          /* [vocab_size] */
    int32_t *scores;                /* [vocab_size], for the call's own use */
    const int32_t *token_ids;       /* [id_count], whose are asked for, */
    int64_t *values;                /* [id_count], written; INT64_MIN of one that has no logit */
    int32_t *top_ids;               /* [top_count], written: those with the largest, the largest first, */
    int64_t *top_values;            /* [top_count], and theirs */
    int32_t exponent;               /* of the logits */
    int32_t id_count;
    int32_t top_count;              /* afterwards, how many there are */
} sslm_logprobs;

#define SSLM_NO_STATE 0xffffffff /* No state of an automaton; and the distance of what cannot be completed. */
#define SSLM_MANY_STATES 0xfffffffe

/* A deterministic automaton over bytes, all of whose states lead to an accepting one. */
typedef struct {
    const uint8_t *byte_classes;    /* [256] below class_count */
    const uint32_t *steps;          /* [state_count][class_count]: the next state, or SSLM_NO_STATE */
    const uint8_t *accepting;       /* [state_count] 0 or 1 */
    uint32_t state_count;
    uint32_t class_count;
} sslm_automaton;

/* Sections of a vocabulary: tokens of digits and ASCII letters alone; of other plain bytes too; of whole characters
 * beyond ASCII too; and all others. */
#define SSLM_SECTION_ALNUM 0
#define SSLM_SECTION_PLAIN 1
#define SSLM_SECTION_WHOLE 2
#define SSLM_SECTION_OTHER 3
#define SSLM_SECTION_COUNT 4

/* Tokens section by section, each in the order of their bytes, of which each has one at least. */
typedef struct {
    const uint8_t *bytes;           /* one token after the other */
    const uint32_t *offsets;        /* [count + 1] in bytes */
    uint32_t section_tokens[5];     /* where each section begins, and count */
    uint32_t count;
} sslm_token_list;

/* The arrays of an sslm_token_trie, with room for as many prefixes as the tokens have bytes; first_ids for one more. */
typedef struct {
    uint8_t *bytes;
    uint16_t *depths;
    uint16_t *heights;
    uint32_t *ends;
    uint32_t *first_ids;
    uint16_t *tails;
    uint8_t *kinds;
    uint32_t *section_nodes;
    uint32_t *path;                 /* [bytes of the longest token + 1], for the call's own use */
} sslm_token_prefixes;

/* The arrays of an sslm_token_trie that hold masks, zeroed. */
typedef struct {
    uint32_t *section_masks;
    uint32_t *longer_masks;
    uint32_t *long_tokens;
    uint16_t *long_lengths;
} sslm_token_masks;

/* The bytes of a vocabulary's tokens, each prefix once in each section, in the order of their bytes. */
typedef struct {
    const uint8_t *bytes;           /* [node_count]: the last byte of a prefix */
    const uint16_t *depths;         /* [node_count]: its length, 1 … depth_max */
    const uint16_t *heights;        /* [node_count]: how much longer the longest token is that it begins */
    const uint32_t *ends;           /* [node_count]: one past the last prefix that it begins */
    const uint32_t *first_ids;      /* [node_count + 1] into token_ids: the tokens that are it */
    const int32_t *token_ids;
    const uint16_t *tails;          /* [node_count]: of a token that it begins, the most bytes from the first mark
                                       behind it on, with the mark; 0 if there is none */
    const uint8_t *kinds;           /* [node_count]: the highest kind of the bytes behind it in tokens that it begins,
                                       at least SSLM_IN_TEXT in the last section */
    const uint32_t *section_nodes;  /* [SSLM_SECTION_COUNT + 1]: where each section begins, and node_count */
    const uint32_t *section_masks;  /* [SSLM_SECTION_COUNT][mask_words]: which tokens are in each */
    const uint32_t *longer_masks;   /* [SSLM_LONGER_MASKS][mask_words]: which of all sections but the last have more
                                       than 0, 1, … characters */
    const uint32_t *long_tokens;    /* [long_count]: ids of those with at least SSLM_LONGER_MASKS characters, */
    const uint16_t *long_lengths;   /* [long_count]: and how many they have */
    uint32_t node_count;
    uint32_t depth_max;
    uint32_t long_count;
    uint32_t mask_words;            /* vocab_size / 32, rounded up */
} sslm_token_trie;

#define SSLM_LONGER_MASKS 16

/* Kinds of bytes: lower-case ASCII letters; others; other plain bytes but digits, after which a text stays between two
 * of its characters; those beyond ASCII; digits, which few tokens have beside others; the backslash; and marks, which
 * no text has as they are: the quotation mark and control characters. Of what tokens lead to by bytes up to a kind,
 * SSLM_WHOLE and SSLM_DIGIT have what whole characters lead to, and no more. */
#define SSLM_LOWER 0
#define SSLM_LETTER 1
#define SSLM_PLAIN 2
#define SSLM_WHOLE 3
#define SSLM_DIGIT 4
#define SSLM_IN_TEXT 5
#define SSLM_MARK 6
#define SSLM_BYTE_KINDS 7

/* Which states a byte leads to from each state, and which it comes from; once each, by kinds of bytes: the lowest kind
 * that leads there. */
typedef struct {
    uint32_t *rows;                 /* [7 * state_count + 1] into targets: kind k of state i at 7 * i + k */
    uint32_t *targets;              /* as many as steps, at most */
    uint32_t *source_rows;          /* [7 * state_count + 1] into sources, as rows */
    uint32_t *sources;
    uint32_t *memory;               /* [7 * state_count], for the call's own use */
} sslm_links;

typedef struct {
    const sslm_automaton *automaton;
    const sslm_token_trie *trie;
    const uint32_t *only_targets;   /* [state_count]: where the only token of a state leads, or SSLM_NO_STATE */
    const sslm_links *links;
    uint32_t *distances;            /* [state_count], written: fewest tokens to an accepting state */
    uint32_t *queue;                /* [state_count], and the next four: for the call's own use */
    uint32_t *candidates;           /* [state_count] */
    uint32_t *needs;                /* [state_count] */
    uint32_t *needs_in_text;        /* [state_count] */
    uint32_t *needs_behind;         /* [state_count] */
    uint32_t *path;                 /* [depth_max + 1] */
    uint64_t check_count_max;       /* how many prefixes are looked at, at most */
    uint32_t last_state;            /* written: the last that was looked at, if that is too much */
} sslm_token_distances;

/* A schema bound to a vocabulary. Every state leads to an accepting one by tokens that masks allow. */
typedef struct {
    const sslm_automaton *automaton;
    const sslm_token_trie *trie;
    const uint8_t *token_bytes;
    const uint32_t *token_offsets;  /* [vocab_size + 1] into token_bytes; a token that is no content has none */
    const int32_t *only_tokens;     /* [state_count]: the one token that a state allows, or -1 */
    const uint32_t *distances;      /* [state_count]: fewest tokens to an accepting state */
    const uint32_t *farthest[7];    /* [state_count]: that of the states to which no byte, or as many as a token has,
                                       up to each kind lead, at most; */
    const uint32_t *nearest[7];     /* and at least */
    const uint32_t *text_steps;     /* [state_count]: as sslm_native_text_steps writes them */
    const uint32_t *mask_indices;   /* [state_count] */
    const uint32_t *masks;          /* [masks][mask_words], those of accepting states with end_ids */
    const int32_t *end_ids;         /* [end_count]: tokens that end a text */
    uint32_t end_count;
    uint32_t mask_words;            /* vocab_size / 32, rounded up */
} sslm_schema;

typedef struct sslm_plan sslm_plan;

uint32_t sslm_native_abi(void);
uint32_t sslm_native_cpu_features(void);

/* Of SSLM_TIER_AMX this asks Linux to let the process use tiles, and so does opening a plan of that tier. */
int32_t sslm_native_tier_available(int32_t tier);

/* Bytes that a plan takes, the struct itself included. */
uint64_t sslm_native_plan_size(const sslm_program *program);

/* Set a plan up in memory of the caller's, aligned to 64 bytes; starts thread_count - 1 threads. */
int32_t sslm_native_plan_open(const sslm_program *program, void *memory, uint64_t size_bytes, sslm_plan **plan);

/* Install a hook, or take it away with NULL or with one without run; a copy is kept. SSLM_BUSY while a run is
 * going on. SSLM_BAD_HOOK for a max_tasks or a scope out of range, for max_tasks above 1 without run, and for a
 * plan with threads of its own. No result depends on hooks. */
int32_t sslm_native_plan_set_parallel_for(sslm_plan *plan, const sslm_parallel_for *hook);

/* Rows of the head, or of projections of one row, that one task computes: a function of their shape and of max_tasks
 * alone. row_count itself if they are not shared. size_bytes are those of the weights. */
int32_t sslm_native_task_rows(int32_t row_count, int64_t size_bytes, int32_t max_tasks);

/* Run segments over the rows of all spans. Allocates nothing. */
int32_t sslm_native_plan_run(sslm_plan *plan, sslm_run *run);

/* Run a slice of every sequence's next chunk; those that stand at the same segment share the reading of weights, and
 * no result depends on which ones do. Ends with the first run that fails, whose status it returns, or once its time is
 * over: the sequences of that run and of those after it stand where they stood. Allocates nothing. */
int32_t sslm_native_advance(sslm_plan *plan, sslm_advance *advance);

/* Tell log-probabilities, also while a run is going on. SSLM_BAD_TOKEN, SSLM_BAD_LOGITS, or SSLM_OK. */
int32_t sslm_native_logprobs(const sslm_plan *plan, sslm_logprobs *row);

/* Join the threads. SSLM_BUSY if a run is going on, and then nothing has happened. */
int32_t sslm_native_plan_close(sslm_plan *plan);

/* SHA-256 of size_bytes bytes. portable forces the plain C variant. */
void sslm_native_sha256(const uint8_t *data, uint64_t size_bytes, int32_t portable, uint8_t *digest);

/* Read size_bytes bytes as fast as one thread can; the exclusive or of their little-endian 64-bit words, the last
 * one filled up with zeros, shows that nothing was left out. What a stream of weights is measured against. */
uint64_t sslm_native_read_ceiling(const uint8_t *data, uint64_t size_bytes);

/* Tell whether all codes, int16 at any address, are in -largest … largest; and all exponents at most largest. */
int32_t sslm_native_codes_within(const uint8_t *codes, uint64_t count, int32_t largest);
int32_t sslm_native_exponents_within(const uint8_t *exponents, uint64_t count, int32_t largest);

/* Write out the prefixes of tokens, whose ids in their order are then the trie's token_ids; return their count. */
uint32_t sslm_native_token_prefixes(const sslm_token_list *tokens, const sslm_token_prefixes *out);

/* Write the masks of sections and lengths, of mask_words each; return the trie's long_count. */
uint32_t sslm_native_token_masks(const sslm_token_list *tokens, const int32_t *token_ids, uint32_t mask_words,
                                 const sslm_token_masks *out);

/* Write for each state where one character of a text leads, be it which it may, but for quotation marks, backslashes
 * and control characters: SSLM_NO_STATE if none is taken, SSLM_MANY_STATES if not all lead to one state. */
void sslm_native_text_steps(const sslm_automaton *automaton, uint32_t *text_steps);

/* Write for each state how many such characters are taken, whichever they are: up to 255. */
void sslm_native_text_rooms(const uint32_t *text_steps, uint32_t state_count, uint8_t *rooms);

/* Set in mask, zeroed, the bits of the tokens whose bytes a state allows. distances leaves out those that lead to a
 * state that cannot be completed; text_steps and rooms are the automaton's, or NULL where there are such states. path
 * is [depth_max + 1], for the call's own use. Several calls may run at once, each with a path of its own. */
void sslm_native_token_mask(const sslm_automaton *automaton, const sslm_token_trie *trie, uint32_t state,
                            const uint32_t *distances, const uint32_t *text_steps, const uint8_t *rooms,
                            uint32_t *path, uint32_t *mask);

/* Number the states so that those with one number allow the same strings of up to byte_count bytes. memory is
 * [6 * state_count + 2 * slot_count]; slot_count is a power of two above state_count. */
void sslm_native_alike_states(const sslm_automaton *automaton, const sslm_links *links, uint32_t byte_count,
                              uint32_t *groups, uint32_t *memory, uint32_t slot_count);

/* SSLM_TOO_MUCH if it would take more checks than allowed. */
int32_t sslm_native_token_distances(sslm_token_distances *job);

void sslm_native_link_states(const sslm_automaton *automaton, const sslm_links *links);

/* Write for each state the largest (or the least) number of all states that up to byte_count bytes lead to, from what
 * numbers holds of each, by bytes of kinds up to one. memory is [4 * state_count]. */
void sslm_native_reach(const sslm_links *links, uint32_t state_count, uint32_t byte_count, int32_t kind,
                       int32_t is_least, uint32_t *numbers, uint32_t *memory);

/* Write 1 for each state to which whole characters may lead, wherever they begin; 0 for those inside of one. memory is
 * [state_count]. */
void sslm_native_whole_states(const sslm_automaton *automaton, uint8_t *is_whole, uint8_t *memory);

/* Where a token leads from a state, or SSLM_NO_STATE. */
uint32_t sslm_native_schema_step(const sslm_schema *schema, uint32_t state, int32_t token_id);

/* The mask of a state behind which remaining tokens may be chosen: without any left, of what ends the text. It is the
 * schema's, or lies in memory, which has room for mask_words and depth_max + 1 numbers. */
const uint32_t *sslm_native_schema_mask(const sslm_schema *schema, uint32_t state, uint32_t remaining,
                                        uint32_t *memory);
/* cdef end */

#if defined(_WIN32) && defined(__clang__)
#pragma clang attribute pop
#elif !defined(_WIN32)
#pragma GCC visibility pop
#endif

#endif
