/* tokenizer.json -> tokenizer -> ids of some text -> bytes. Seeds: the tokenizers in tests/data/text. */
#include "engine/text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "  Hello <a> w\xc3\xb6rld\xf0\x9f\x98\x80 x<s>12345\r\n\n  'll \xe2\x96\x81 "
                               "e\xcc\x81 aaaaaaaaaaaaaaaa!  ";
    struct iq_tokenizer *t;
    struct iq_err err;
    if (iq_tokenizer_from_hf((const char *)data, size, "fuzz", NULL, 0, &t, &err) != IQ_OK) return 0;
    for (unsigned flags = 0; flags < 4; flags++) {
        struct iq_ids ids = {0};
        struct iq_buf out = IQ_BUF(1 << 20);
        if (iq_tokenizer_encode(t, text, sizeof text - 1, flags, &ids, &err) == IQ_OK) {
            for (size_t i = 0; i < ids.n; i++)
                if (ids.id[i] >= iq_tokenizer_vocab(t)) __builtin_trap();
            iq_tokenizer_decode(t, ids.id, ids.n, flags & 1 ? IQ_DECODE_SKIP : 0, &out, &err);
        }
        iq_ids_free(&ids);
        iq_buf_free(&out);
    }
    iq_tokenizer_free(t);
    return 0;
}
