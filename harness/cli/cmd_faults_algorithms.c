/* Which of NVIDIA's kernels a model's products would take, by number of rows: what "the library chose another kernel at this
 * batch size" is made of, and where the pins of a plan's `cublaslt` come from. */
#include "harness/cli/commands.h"
#include "harness/model/fetch.h"

#include "engine/model.h"
#include "kernels/cublas/survey.h"

#include <string.h>

/* The shapes of the products that gate_up, qkv and the like are made of, each once. */
static size_t shapes_of(const struct iq_model_config *c, unsigned type, uint32_t rows,
                        struct iq_cublas_shape *out)
{
    const uint32_t qw = c->heads * c->head_dim, kw = c->kv_heads * c->head_dim;
    const uint32_t nk[][2] = {{qw, c->hidden},     {kw, c->hidden},     {c->hidden, qw},
                              {c->ffn, c->hidden}, {c->hidden, c->ffn}, {c->vocab, c->hidden}};
    size_t n = 0;
    for (size_t i = 0; i < sizeof nk / sizeof *nk; i++) {
        bool seen = false;
        for (size_t j = 0; j < n; j++) seen |= out[j].n == nk[i][0] && out[j].k == nk[i][1];
        if (!seen)
            out[n++] = (struct iq_cublas_shape){.rows = rows, .n = nk[i][0], .k = nk[i][1], .type = type};
    }
    return n;
}

static void text_of(const struct iq_cublas_survey *s, struct iq_buf *b)
{
    char id[IQ_CUBLAS_ID];
    iq_buf_printf(b, "%s (n %u, k %u)\n", iq_cublas_types[s->shape.type].name, s->shape.n, s->shape.k);
    for (size_t i = 0; i < s->steps; i++) {
        const struct iq_cublas_step *step = &s->step[i];
        if (step->found) iq_cublas_algo_print(&step->choice[0].id, id);
        iq_buf_printf(b, "  from %4u rows  %s\n", step->rows, step->found ? id : "no algorithm");
    }
}

static int survey(struct iq_call *call, struct iq_cublas *b, const struct iq_model_config *c,
                  struct iq_buf *text, struct iq_err *err)
{
    struct iq_cublas_shape shape[6];
    struct iq_jw w = IQ_JW(text);
    unsigned type = 0;
    while (strcmp(iq_cublas_types[type].name, iq_arg_str(call, "type"))) type++;
    size_t n = shapes_of(c, type, (uint32_t)iq_arg_int(call, "rows"), shape);
    if (iq_arg_on(call, "json"))
        return iq_cublas_record_json(b, "inquest faults algorithms", shape, n,
                                     (unsigned)iq_arg_int(call, "choices"), &w, err);
    for (size_t i = 0; i < n; i++) {
        struct iq_cublas_survey s;
        IQ_TRY(iq_cublas_survey(b, &shape[i], 1, &s, err));
        text_of(&s, text);
        iq_cublas_survey_free(&s);
    }
    if (text->len) text->len--; /* the last newline: the writer adds one */
    return IQ_OK;
}

static int run(struct iq_call *call, struct iq_err *err)
{
    char path[IQ_PATH_MAX];
    const struct iq_model_options o = {.tp = 1};
    struct iq_model *m = NULL;
    struct iq_cuda *cuda = NULL;
    struct iq_cublas *b;
    struct iq_buf text = IQ_BUF((size_t)1 << 26);
    IQ_TRY(iq_model_resolve(call->operands[0], path, err));
    int status = iq_model_open(path, &o, &m, err);
    if (status == IQ_OK) status = iq_cuda_open(false, 0, &cuda, err);
    if (status == IQ_OK) status = iq_cublas_of(cuda, &b, err);
    if (status == IQ_OK) status = survey(call, b, &m->config, &text, err);
    if (status == IQ_OK) status = iq_out_line(call->out, &text, err);
    iq_buf_free(&text);
    iq_cuda_close(cuda);
    iq_model_close(m);
    return status;
}

static const struct iq_flag flags[] = {
    {.name = "type",
     .type = IQ_FLAG_CHOICE,
     .meta = "fp32|tf32|bf16|fp16",
     .fallback = "bf16",
     .help = "what the operands are rounded to"},
    {.name = "rows",
     .type = IQ_FLAG_INT,
     .meta = "N",
     .lo = 1,
     .hi = 65536,
     .fallback = "512",
     .help = "ask for 1 to N rows"},
    {.name = "choices",
     .type = IQ_FLAG_INT,
     .meta = "N",
     .lo = 1,
     .hi = IQ_CUBLAS_CHOICES,
     .fallback = "4",
     .help = "with --json: the first N of the library's list at each step"},
    IQ_FLAG_JSON,
    {0},
};

const struct iq_command iq_cmd_faults_algorithms = {
    .name = "faults algorithms",
    .one_line = "which kernels cuBLAS takes for a model's products, and at how many rows it takes another",
    .operands = "MODEL",
    .operands_min = 1,
    .operands_max = 1,
    .about = "Asks cuBLASLt's heuristic on the first GPU; nothing is computed. A step says from how many "
             "rows on the choice holds.\n"
             "With --json the whole record: what each algorithm may be set to, and choices with their `pin`, "
             "which are parameters of the\n"
             "variant cublaslt in a plan.\n",
    .examples =
        "inquest faults algorithms smollm2\ninquest faults algorithms smollm2 --type fp16 --rows 64 --json\n",
    .flags = flags,
    .run = run,
};
