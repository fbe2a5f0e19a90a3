/* Chat templates: messages to the text, or the ids, that a model was trained on.
 *
 * The ChatML family is rendered here, where the template's own text shows beyond doubt that it says no more
 * than that (chatml.c). Any other template runs in Python's jinja2 (ImmutableSandboxedEnvironment, as
 * transformers sets it up) in a child process that lives for one rendering: 5 s, 1 GiB, 64 MiB of output at
 * most; nothing is kept between two.
 *
 * Units: `now` is seconds since 1970, UTC: the virtual clock, so that a template that prints the date
 * repeats. Ownership: a chat copies all that it needs. It is constant: any number of threads may render.
 * Errors: IQ_NOT_FOUND: the model has no template. IQ_USAGE: the template refused the messages; the text is
 * its own. IQ_FORMAT: the template is broken. IQ_UNSUPPORTED: no jinja2 here, or named templates without a
 * 'default'. IQ_LIMIT: time, memory or output. Source: huggingface/transformers utils/chat_template_utils.py.
 */
#ifndef IQ_TEXT_CHAT_H
#define IQ_TEXT_CHAT_H

#include "engine/text/tokenizer.h"

struct iq_chat_message {
    struct iq_span role, content; /* UTF-8 */
};

/* Where the template is. The first that is there counts: `jinja`, `text`, then `config`. */
struct iq_chat_source {
    const char *name;      /* of the model, for errors */
    struct iq_span jinja;  /* the text of chat_template.jinja */
    struct iq_span text;   /* GGUF's tokenizer.chat_template */
    struct iq_span config; /* the text of tokenizer_config.json: a template, or a list of named ones */
    /* bos_token, eos_token, unk_token, pad_token for the template; see iq_chat_source_tokens */
    struct iq_span bos, eos, unk, pad;
};
/* Fills the four tokens from the tokenizer; they are borrowed from it. */
void iq_chat_source_tokens(struct iq_chat_source *, const struct iq_tokenizer *);

struct iq_chat;
int iq_chat_open(const struct iq_chat_source *, struct iq_chat **out, struct iq_err *err);
void iq_chat_free(struct iq_chat *);
/* "chatml" or "jinja2" */
const char *iq_chat_kind(const struct iq_chat *);

/* Appends the rendered text to *out, which is as it was on failure. At least one message. */
int iq_chat_render(const struct iq_chat *, const struct iq_chat_message *, size_t n,
                   bool add_generation_prompt, int64_t now, struct iq_buf *out, struct iq_err *err);
/* Renders, tokenizes with control tokens parsed and appends. A template's own BOS counts: where the file adds
 * one (GGUF) and the template prints one there is one, not two. From tokenizer.json nothing is added to a
 * template's text, as transformers does. No EOS is added. `text` may be NULL; else it receives the rendered
 * text. */
int iq_chat_encode(const struct iq_chat *, const struct iq_tokenizer *, const struct iq_chat_message *,
                   size_t n, bool add_generation_prompt, int64_t now, struct iq_buf *text, struct iq_ids *out,
                   struct iq_err *err);

#endif
