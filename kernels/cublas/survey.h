/* Which algorithm cublasLt takes for how many rows, and where it takes another: by asking its heuristic for every number of
 * rows. Nothing is computed. The record of a survey is also what tests play back in the library's place. */
#ifndef IQ_CUBLAS_SURVEY_H
#define IQ_CUBLAS_SURVEY_H

#include "kernels/cublas/handle.h"

/* From `rows` on, until the next step, the list of choices is this one. */
struct iq_cublas_step {
    uint32_t rows;
    unsigned found; /* 0: the library has no algorithm */
    struct iq_cublas_choice choice[IQ_CUBLAS_CHOICES];
};

struct iq_cublas_survey {
    struct iq_cublas_shape shape; /* rows: the last that was asked for */
    unsigned most;                /* choices that were asked for */
    struct iq_cublas_step *step;  /* owned; ascending, the first at 1 row */
    size_t steps, cap;
};

/* Asks for 1 .. shape->rows rows (ld is set here) and the first `most` choices of each. */
int iq_cublas_survey(struct iq_cublas *, const struct iq_cublas_shape *, unsigned most,
                     struct iq_cublas_survey *out, struct iq_err *err);
void iq_cublas_survey_free(struct iq_cublas_survey *);
/* The step that holds for a number of rows; NULL past the last that was asked for. */
const struct iq_cublas_step *iq_cublas_survey_at(const struct iq_cublas_survey *, uint32_t rows);
/* {"type", "n", "k", "rows", "buckets": [{"rows", "id"}] for 1, 2, 4 ..., "steps": [{"rows", "choices": [{"id", "pin",
 * "workspace", "waves"}]}]}; id null where there is no algorithm. */
void iq_cublas_survey_json(const struct iq_cublas_survey *, struct iq_jw *);

/* All algorithms of a type with what may be set: {"type", "algorithms": [{"algo", "tiles", "stages", "split_k",
 * "reductions", "swizzle", "custom_max"}]}. */
int iq_cublas_capabilities_json(struct iq_cublas *, unsigned type, struct iq_jw *, struct iq_err *err);

/* A whole record: {"form": 1, "source", "cublas", "cublaslt", "device", "workspace", "types": [capabilities], "surveys":
 * [...]}. source: one sentence about where the answers are from. */
int iq_cublas_record_json(struct iq_cublas *, const char *source, const struct iq_cublas_shape *shapes,
                          size_t n, unsigned most, struct iq_jw *, struct iq_err *err);

#endif
