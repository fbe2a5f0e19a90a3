/* Opening model files in tests: what must succeed, and what must fail with which sentence. */
#ifndef IQ_TESTS_OPENING_H
#define IQ_TESTS_OPENING_H

#include "engine/files/config.h"
#include "tests/files/make_model.h"

/* Writes a model and returns its path: the scratch folder itself for Hugging Face, m.gguf in it otherwise. */
const char *iq_written(const struct iq_test_spec *);
/* A Hugging Face folder with these members of config.json (NULL: none). */
const char *iq_hf_with(const char *arch, const char *scaling, const char *extra);

/* Writes over the number of a key of m.gguf. */
void iq_poke_u32(const char *key, uint32_t value);

/* Opens, or stops the test. */
struct iq_model_file *iq_take_file(const char *path);
/* Opening must fail with this status and leave NULL; the sentence must hold both parts ("": any). */
void iq_refuse_file(const char *path, int status, const char *says, const char *also);

/* The same with the configuration. */
struct iq_opened {
    struct iq_model_file *m;
    struct iq_model_config c;
    struct iq_model_tensors t;
};
int iq_try_model(const char *path, struct iq_opened *, struct iq_err *); /* drop it in any case */
struct iq_opened iq_take_model(const char *path);
void iq_drop_model(struct iq_opened *);
void iq_refuse_model(const char *path, int status, const char *says);
bool iq_noted(const struct iq_opened *, const char *says); /* one of the notes holds it */
char *iq_unread(const struct iq_model_file *);             /* "key;T:tensor;", malloc'd */

#endif
