/* What the files of the chat templates share. */
#ifndef IQ_TEXT_CHAT_PARTS_H
#define IQ_TEXT_CHAT_PARTS_H

#include "engine/text/chat.h"

#define IQ_CHAT_MAX ((size_t)64 << 20) /* bytes of a rendered text */

/* What a ChatML template says. */
struct iq__chatml {
    char *fallback;   /* the block in front when the first message is not a system one; NULL: none. Owned */
    bool prompt;      /* add_generation_prompt is obeyed */
    bool three_roles; /* other roles than system, user and assistant are treated in another way */
};
/* IQ_OK and *out when the template is of the family without doubt; IQ_NOT_FOUND when it is not certain. */
int iq__chatml_recognise(const char *text, size_t len, struct iq__chatml *out);
/* False when the messages need the template itself. */
bool iq__chatml_serves(const struct iq__chatml *, const struct iq_chat_message *, size_t n);
void iq__chatml_render(const struct iq__chatml *, const struct iq_chat_message *, size_t n, bool prompt,
                       struct iq_buf *out);

/* Renders in a child: `request` is the JSON of jinja_script.h's input. */
int iq__jinja_render(const char *request, size_t len, struct iq_buf *out, struct iq_err *err);
extern const char iq__jinja_script[];

#endif
