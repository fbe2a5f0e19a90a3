/* The small tokenizer of a small model. */
#define _GNU_SOURCE
#include "kernels/base/json.h"
#include "kernels/base/utf8.h"
#include "tests/files/make_model.h"

#include <stdio.h>
#include <string.h>

enum { SPECIALS = 3, BYTES = 256 };

static const char *const specials[SPECIALS] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
const char iq_test_chat_template[] =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' "
    "}}{% endif %}";

/* GPT-2's spelling of a byte: printable Latin-1 as itself, the rest from U+0100 on in order. */
static int spell_byte(unsigned byte, char out[4])
{
    uint32_t next = 0x100;
    for (unsigned b = 0; b < 256; b++) {
        bool plain = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        uint32_t cp = plain ? b : next++;
        if (b == byte) return iq_utf8_put(cp, out);
    }
    return 0;
}

/* A token's spelling; `merge` (may be NULL) gets "left right" where merging makes the token, else "". */
static void spell(uint32_t id, char token[32], char merge[8])
{
    if (merge) merge[0] = 0;
    if (id < SPECIALS) {
        snprintf(token, 32, "%s", specials[id]);
    } else if (id < SPECIALS + BYTES) {
        token[spell_byte(id - SPECIALS, token)] = 0;
    } else if (id < SPECIALS + BYTES + 26 * 26) {
        unsigned pair = id - SPECIALS - BYTES;
        snprintf(token, 32, "%c%c", 'a' + (int)(pair / 26), 'a' + (int)(pair % 26));
        if (merge) snprintf(merge, 8, "%c %c", token[0], token[1]);
    } else {
        snprintf(token, 32, "<|unused_%u|>", id);
    }
}

void iq_test_gguf_tokenizer(struct iq_buf *b, uint32_t vocab, uint64_t *keys)
{
    char token[32], merge[8];
    uint64_t merges = 0;
    iq_test_key_text(b, "tokenizer.ggml.model", "gpt2");
    iq_test_key_text(b, "tokenizer.ggml.pre", "gpt-2");
    iq_test_put_text(b, "tokenizer.ggml.tokens");
    iq_test_put_u32(b, 9);
    iq_test_put_u32(b, 8);
    iq_test_put_u64(b, vocab);
    for (uint32_t i = 0; i < vocab; i++)
        spell(i, token, merge), iq_test_put_text(b, token), merges += merge[0] != 0;
    iq_test_put_text(b, "tokenizer.ggml.token_type");
    iq_test_put_u32(b, 9);
    iq_test_put_u32(b, 5);
    iq_test_put_u64(b, vocab);
    for (uint32_t i = 0; i < vocab; i++)
        iq_test_put_u32(b, i < SPECIALS ? 3 : i < SPECIALS + BYTES + 26 * 26 ? 1 : 5);
    iq_test_put_text(b, "tokenizer.ggml.merges");
    iq_test_put_u32(b, 9);
    iq_test_put_u32(b, 8);
    iq_test_put_u64(b, merges);
    for (uint32_t i = 0; i < vocab; i++) {
        spell(i, token, merge);
        if (merge[0]) iq_test_put_text(b, merge);
    }
    iq_test_key_u32(b, "tokenizer.ggml.bos_token_id", 1);
    iq_test_key_u32(b, "tokenizer.ggml.eos_token_id", 2);
    iq_test_key_bool(b, "tokenizer.ggml.add_bos_token", false);
    iq_test_key_text(b, "tokenizer.chat_template", iq_test_chat_template);
    *keys += 9;
}

void iq_test_hf_tokenizer(struct iq_buf *b, uint32_t vocab)
{
    static const char byte_level[] =
        "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true}";
    char token[32], merge[8];
    struct iq_jw w = IQ_JW(b);
    iq_jw_begin(&w, '{');
    iq_jw_key(&w, "version"), iq_jw_str(&w, "1.0");
    iq_jw_key(&w, "truncation"), iq_jw_null(&w);
    iq_jw_key(&w, "padding"), iq_jw_null(&w);
    iq_jw_key(&w, "added_tokens"), iq_jw_begin(&w, '[');
    for (uint32_t i = 0; i < SPECIALS; i++) {
        char entry[200];
        snprintf(entry, sizeof entry,
                 "{\"id\":%u,\"content\":\"%s\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
                 "\"normalized\":false,\"special\":true}",
                 i, specials[i]);
        iq_jw_raw(&w, entry);
    }
    iq_jw_end(&w, ']');
    iq_jw_key(&w, "normalizer"), iq_jw_null(&w);
    iq_jw_key(&w, "pre_tokenizer"), iq_jw_raw(&w, byte_level);
    iq_jw_key(&w, "post_processor"), iq_jw_null(&w);
    iq_jw_key(&w, "decoder"), iq_jw_raw(&w, byte_level);
    iq_jw_key(&w, "model"), iq_jw_begin(&w, '{');
    iq_jw_key(&w, "type"), iq_jw_str(&w, "BPE");
    iq_jw_key(&w, "dropout"), iq_jw_null(&w);
    iq_jw_key(&w, "unk_token"), iq_jw_null(&w);
    iq_jw_key(&w, "continuing_subword_prefix"), iq_jw_null(&w);
    iq_jw_key(&w, "end_of_word_suffix"), iq_jw_null(&w);
    iq_jw_key(&w, "fuse_unk"), iq_jw_bool(&w, false);
    iq_jw_key(&w, "byte_fallback"), iq_jw_bool(&w, false);
    iq_jw_key(&w, "vocab"), iq_jw_begin(&w, '{');
    for (uint32_t i = 0; i < vocab; i++) spell(i, token, NULL), iq_jw_key(&w, token), iq_jw_u64(&w, i);
    iq_jw_end(&w, '}');
    iq_jw_key(&w, "merges"), iq_jw_begin(&w, '[');
    for (uint32_t i = 0; i < vocab; i++) {
        spell(i, token, merge);
        if (merge[0]) iq_jw_str(&w, merge);
    }
    iq_jw_end(&w, ']');
    iq_jw_end(&w, '}');
    iq_jw_end(&w, '}');
}
