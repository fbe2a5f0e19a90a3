/* What the files of engine/text share: the vocabulary, the steps of the pipeline, the merge engine.
 *
 * Encoding: text -> added tokens (raw) -> normalizer steps -> added tokens (normalized) -> splitter steps ->
 * model. A step is a record with one of two functions: `rewrite` turns a string into a string, `split` cuts
 * pieces.
 */
#ifndef IQ_TEXT_TOKENIZER_PARTS_H
#define IQ_TEXT_TOKENIZER_PARTS_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/text/tokenizer.h"
#include "kernels/base/json.h"

#include <pcre2.h>

#define IQ_TEXT_MAX ((size_t)256 << 20) /* bytes of one text */

/* --- vocabulary: id <-> spelling --- */
struct iq__vocab {
    char *text;
    size_t text_len, text_cap;
    uint32_t *at, *len; /* (n) per id; at == UINT32_MAX: no such token */
    uint32_t n, max_len;
    uint32_t *slot;   /* (mask + 1) open addressing: id + 1, or 0 */
    uint32_t *hidden; /* (mask + 1) likewise: tokens that the model does not know */
    uint32_t mask;
};
int iq__vocab_init(struct iq__vocab *, uint32_t ids, size_t text_cap, struct iq_err *err);
/* IQ_EXISTS when the spelling has an id already (*other), or the id a spelling. */
int iq__vocab_set(struct iq__vocab *, uint32_t id, const char *s, size_t len, uint32_t *other);
/* A token that was added to the model: iq__vocab_find does not see it. */
int iq__vocab_set_hidden(struct iq__vocab *, uint32_t id, const char *s, size_t len);
uint32_t iq__vocab_find_any(const struct iq__vocab *, const char *s, size_t len);
uint32_t iq__vocab_find(const struct iq__vocab *, const char *s, size_t len);
struct iq_span iq__vocab_span(const struct iq__vocab *, uint32_t id);
void iq__vocab_free(struct iq__vocab *);

/* --- merges: (left id, right id) -> (rank, id) --- */
struct iq__merge {
    uint32_t left, right, rank, id;
};
struct iq__merges {
    struct iq__merge *slot; /* (mask + 1); left == IQ_TOKEN_NONE: empty */
    uint32_t mask;
};
int iq__merges_init(struct iq__merges *, size_t count, struct iq_err *err);
/* Of a pair that stands twice, `last_wins` says which. */
void iq__merges_set(struct iq__merges *, struct iq__merge, bool last_wins);
const struct iq__merge *iq__merges_find(const struct iq__merges *, uint32_t left, uint32_t right);

/* --- pieces of a text, between splitter steps --- */
struct iq__piece {
    uint32_t at, len;
};
struct iq__pieces {
    struct iq_buf text;
    struct iq__piece *piece; /* (n), none empty, ascending */
    size_t n, cap;
};

/* --- the merge engine's scratch --- */
struct iq__symbol {
    uint32_t id, at, len; /* len 0: merged away */
    uint32_t prev, next;  /* UINT32_MAX at the ends */
};
struct iq__candidate {
    uint64_t key; /* priority << 32 | position: the smallest goes first */
    uint32_t left, len, id;
};
struct iq__scratch {
    struct iq__symbol *symbol;
    size_t n_symbols, cap_symbols;
    struct iq__candidate *heap;
    size_t n_heap, cap_heap;
    struct iq__pieces a, b; /* splitter steps go back and forth */
    struct iq_buf normal;   /* a normalized fragment */
    struct iq_buf swap;
    size_t limit;   /* bytes that a text may grow to while it is normalized */
    bool cut_front; /* set by a rewriting step that took text off the front */
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};
void iq__scratch_free(struct iq__scratch *);

/* --- split patterns --- */
struct iq__regex;
/* The pattern is in Oniguruma's language, as tokenizer.json's are; `where` names its place in errors. */
int iq__regex_new(const char *pattern, size_t len, const char *where, struct iq__regex **out,
                  struct iq_err *err);
void iq__regex_free(struct iq__regex *);
/* The next match at or after `from` in the piece; *found says whether. */
int iq__regex_next(const struct iq__regex *, struct iq__scratch *, const char *text, size_t len, size_t from,
                   size_t *start, size_t *end, bool *found, struct iq_err *err);

/* --- steps --- */
enum iq__behavior { IQ__ISOLATED, IQ__REMOVED, IQ__WITH_PREVIOUS, IQ__WITH_NEXT, IQ__CONTIGUOUS };

struct iq__step {
    /* `first`: the string starts at the text's start (for a decoder: the first token). */
    int (*rewrite)(const struct iq__step *, struct iq__scratch *, const char *s, size_t n, bool first,
                   struct iq_buf *out, struct iq_err *err);
    int (*split)(const struct iq__step *, struct iq__scratch *, const struct iq__pieces *in,
                 struct iq__pieces *out, struct iq_err *err);
    struct iq__regex *regex; /* what is searched for: a pattern, or `find` */
    char *find, *put;        /* owned */
    size_t find_len, put_len;
    enum iq__behavior behavior;
    bool invert, left, right, only_first, not_first;
    uint32_t start, stop; /* counts of the strip decoder */
    int form;             /* utf8proc options */
};
struct iq__steps {
    struct iq__step *step;
    size_t n, cap;
};
/* A cleared step at the end of the list, to be filled in by the caller. */
int iq__steps_add(struct iq__steps *, struct iq__step **out, struct iq_err *err);
void iq__steps_free(struct iq__steps *);
int iq__step_text(char **dst, size_t *dst_len, const char *s, size_t n, struct iq_err *err);

/* Rewriters. */
typedef int iq__rewrite(const struct iq__step *, struct iq__scratch *, const char *s, size_t n, bool first,
                        struct iq_buf *out, struct iq_err *err);
iq__rewrite iq__rewrite_prepend, iq__rewrite_replace, iq__rewrite_form, iq__rewrite_lower, iq__rewrite_strip,
    iq__rewrite_accents, iq__rewrite_byte_map, iq__rewrite_metaspace;
/* Rewriters of decoders: a step with neither function is Fuse, and those behind it see the whole text. */
iq__rewrite iq__decode_bytes, iq__decode_byte_map, iq__decode_metaspace, iq__decode_strip;
/* Cuts by iq__step.regex or .find as .behavior says. */
int iq__split_pattern(const struct iq__step *, struct iq__scratch *, const struct iq__pieces *in,
                      struct iq__pieces *out, struct iq_err *err);
/* Adds a pattern step. */
int iq__steps_add_split(struct iq__steps *, const char *pattern, enum iq__behavior, bool invert,
                        struct iq_err *err);
/* Runs the splitter over `text`; the pieces are in scratch->a. */
int iq__split_run(const struct iq__steps *, struct iq__scratch *, const char *text, size_t len, bool first,
                  struct iq_err *err);

bool iq__is_space(uint32_t cp); /* Unicode's White_Space */

/* The byte that GPT-2's map of bytes to characters writes as cp, or -1. */
int iq__char_byte(uint32_t cp);

extern const char iq__pattern_gpt2[];

/* --- added tokens --- */
struct iq__added {
    struct iq_span text; /* borrowed: the spelling, or the normalized spelling (owned by `normal`) */
    char *normal;
    uint32_t id;
    bool single_word, lstrip, rstrip, special;
};
struct iq__added_set {
    struct iq__added *token; /* (n) sorted by text */
    uint32_t n;
    uint32_t first[257]; /* token[first[b]] .. token[first[b+1]] start with byte b */
    size_t cap;
};
void iq__added_sort(struct iq__added_set *);
typedef int iq__added_sink(void *ctx, struct iq_span text, uint32_t id, bool at_start, struct iq_err *err);
/* Cuts `text` at the added tokens; calls `sink` for each run of text (id IQ_TOKEN_NONE) and each token. */
int iq__added_split(const struct iq__added_set *, bool parse_special, struct iq_span text, bool at_start,
                    iq__added_sink *sink, void *ctx, struct iq_err *err);

/* --- the tokenizer --- */
struct iq_tokenizer {
    struct iq__vocab vocab; /* may hold ids >= n_ids: intermediate spellings of merges, never output */
    uint32_t n_ids;
    struct iq__merges merges;
    float *scores;     /* by_score: (n_ids) */
    bool by_score;     /* SentencePiece: merge by score of the joined token */
    bool keep_unknown; /* GGUF BPE: a character without a token still separates its neighbours */
    bool byte_fallback, fuse_unk, ignore_merges;
    char *unk_spelling;    /* model.unk_token: fails at the first use when the vocabulary lacks it */
    char *prefix, *suffix; /* continuing_subword_prefix, end_of_word_suffix; NULL: none */
    uint32_t char_id[512]; /* ids of the characters below U+0200, or IQ_TOKEN_NONE */
    uint32_t byte_id[256]; /* ids of the byte tokens */
    bool space_first;      /* GGUF "llama": a space in front of the text and after control tokens */
    struct iq__steps normalizer, splitter, decoder;
    bool join_with_space; /* no decoder in the file */
    struct iq__added_set raw, normalized;
    struct iq_ids before, after; /* what IQ_ENCODE_SPECIAL adds */
    uint8_t *type;               /* (n_ids) enum iq_token_type; 0: no such token */
    char *bytes;                 /* decoded bytes of all ids, as they stand inside a text */
    uint32_t *bytes_at;          /* (n_ids + 1) */
    uint32_t bos, eos, unk, pad;
    struct iq_ids eog;
    bool gguf;
    char *warning;
    char *name;
};

/* The model: ids of one piece, appended. */
int iq__model_encode(const struct iq_tokenizer *, struct iq__scratch *, const char *s, size_t n,
                     struct iq_ids *out, struct iq_err *err);
/* After loading: byte ids, character ids, decoded bytes, end-of-generation ids. */
int iq__tokenizer_finish(struct iq_tokenizer *, struct iq_err *err);
int iq__tokenizer_new(const char *name, struct iq_tokenizer **out, struct iq_err *err);
/* Appends one token as the decoder sees it. */
int iq__decode_token(const struct iq_tokenizer *, struct iq__scratch *, uint32_t id, bool first,
                     struct iq_buf *out, struct iq_err *err);

/* tokenizer.json's trees of steps. */
int iq__load_normalizer(const cJSON *, const char *name, struct iq__steps *, struct iq_err *err);
int iq__load_splitter(const cJSON *, const char *name, struct iq__steps *, struct iq_err *err);
int iq__load_decoder(const cJSON *, const char *name, struct iq__steps *, struct iq_err *err);
int iq__load_processors(const cJSON *, const char *name, struct iq_tokenizer *, struct iq_err *err);
/* tokenizer_config.json. */
int iq__load_config(struct iq_tokenizer *, const cJSON *config, struct iq_err *err);

#endif
