/* Text -> ids -> bytes with fixed tokenizers; the first byte chooses flags and tokenizer. With the whole byte
 * alphabet the bytes come back. */
#include "engine/text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BYTES = 256, MORE = 6 };

/* A GGUF byte-level vocabulary of all bytes, a few merges and two control tokens. */
static struct iq_tokenizer *byte_level(const char *pre)
{
    static char text[BYTES][4];
    static struct iq_span tokens[BYTES + MORE] = {[BYTES] = {"aa", 2}, {"aaaa", 4},  {"he", 2},
                                                  {"\xc4\xa0h", 3},    {"<|a|>", 5}, {"<|a|>b", 6}};
    static const struct iq_span merges[] = {{"a a", 3}, {"aa aa", 5}, {"h e", 3}, {"\xc4\xa0 h", 4}};
    static int32_t types[BYTES + MORE];
    for (unsigned b = 0, extra = 0x100; b < BYTES; b++) {
        bool itself = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b != 0xad);
        unsigned cp = itself ? b : extra++;
        int n = 0;
        if (cp >= 0x80) text[b][n++] = (char)(0xc0 | cp >> 6);
        text[b][n++] = (char)(cp < 0x80 ? cp : 0x80 | (cp & 0x3f));
        tokens[b] = (struct iq_span){text[b], (size_t)n};
    }
    for (int i = 0; i < BYTES + MORE; i++) types[i] = i < BYTES + 4 ? IQ_TOKEN_NORMAL : IQ_TOKEN_CONTROL;
    struct iq_tokenizer_source s = IQ_TOKENIZER_SOURCE;
    s.model = "gpt2";
    s.pre = pre;
    s.tokens = tokens;
    s.types = types;
    s.n_tokens = BYTES + MORE;
    s.merges = merges;
    s.n_merges = sizeof merges / sizeof *merges;
    struct iq_tokenizer *t;
    struct iq_err err;
    if (iq_tokenizer_from_gguf(&s, &t, &err) != IQ_OK) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const pres[] = {"default", "gpt-2",  "smollm", "llama-bpe",
                                       "qwen2",   "falcon", "tekken", "dbrx"};
    static struct iq_tokenizer *t[8];
    if (!size) return 0;
    unsigned k = data[0] & 7;
    if (!t[k]) t[k] = byte_level(pres[k]);
    struct iq_ids ids = {0};
    struct iq_buf out = IQ_BUF(4 * size + 64);
    struct iq_err err;
    const char *text = (const char *)data + 1;
    if (iq_tokenizer_encode(t[k], text, size - 1, data[0] >> 3 & 3, &ids, &err) == IQ_OK) {
        if (iq_tokenizer_decode(t[k], ids.id, ids.n, 0, &out, &err) != IQ_OK) abort();
        if (out.len != size - 1 || (out.len && memcmp(out.data, text, out.len) != 0)) abort();
    }
    iq_ids_free(&ids);
    iq_buf_free(&out);
    return 0;
}
