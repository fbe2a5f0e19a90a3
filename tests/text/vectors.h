/* Readers of the test data of engine/text. Each aborts with a sentence when the data is not there. */
#ifndef IQ_TESTS_TEXT_VECTORS_H
#define IQ_TESTS_TEXT_VECTORS_H

#include "engine/text/tokenizer.h"
#include "kernels/base/json.h"

/* The tokenizer of the real SmolLM2 file: its metadata are kept as text in
 * tests/data/smollm2/tokenizer_gguf.txt. */
struct iq_tokenizer *vectors_smollm2(void);

/* Calls `each` for each line of tests/data/FILE, parsed. Returns the number of lines. */
int vectors_lines(const char *file, void (*each)(const cJSON *line, void *ctx), void *ctx);
/* The whole of tests/data/FILE; free it. */
char *vectors_file(const char *file, size_t *len);

struct iq_tokenizer *vectors_hf(const char *json, struct iq_err *err);

/* NULL when `text` encodes to `ids`; else a sentence in a static buffer. */
const char *vectors_differ(const struct iq_tokenizer *, const char *text, unsigned flags, const cJSON *ids);

#endif
