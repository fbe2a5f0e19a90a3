/* Any bytes: parsed or refused; what is parsed is written and parsed again. */
#include "kernels/base/json.h"

#include <stdlib.h>

static void write_tree(struct iq_jw *w, const cJSON *item)
{
    if (cJSON_IsObject(item) || cJSON_IsArray(item)) {
        const cJSON *child;
        bool object = cJSON_IsObject(item);
        iq_jw_begin(w, object ? '{' : '[');
        cJSON_ArrayForEach(child, item)
        {
            if (object) iq_jw_key(w, child->string);
            write_tree(w, child); /* at most 64 deep: the parser's limit */
        }
        iq_jw_end(w, object ? '}' : ']');
    } else if (cJSON_IsString(item)) {
        iq_jw_str(w, item->valuestring);
    } else if (cJSON_IsNumber(item)) {
        iq_jw_f64(w, item->valuedouble);
    } else if (cJSON_IsBool(item)) {
        iq_jw_bool(w, cJSON_IsTrue(item));
    } else {
        iq_jw_null(w);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct iq_err err;
    cJSON *tree, *again;
    if (iq_json_parse((const char *)data, size, "fuzz", &tree, &err)) return 0;
    struct iq_buf b = IQ_BUF(1 << 26);
    struct iq_jw w = IQ_JW(&b);
    write_tree(&w, tree);
    if (!b.failed) { /* the writer is two levels shallower than the parser */
        if (iq_json_parse(b.data, b.len, "written", &again, &err) || !cJSON_Compare(tree, again, 1)) abort();
        iq_json_free(again);
    }
    iq_buf_free(&b);
    iq_json_free(tree);
    return 0;
}
