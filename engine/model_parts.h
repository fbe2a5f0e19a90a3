/* Inside the model: what its files share. */
#ifndef IQ_ENGINE_MODEL_PARTS_H
#define IQ_ENGINE_MODEL_PARTS_H

#include "engine/model.h"

/* Points the layers' experts into m->expert. */
void iq__model_point_experts(struct iq_model *m);
/* Packs every matrix into m->arena with `threads` threads, and takes the file's SHA-256 meanwhile. */
int iq__model_pack(struct iq_model *m, uint32_t threads, struct iq_err *err);
/* Tokenizer and chat template from the model's file. */
int iq__model_text(struct iq_model *m, struct iq_err *err);
/* The rotary table for m->positions; long_factor: as in iq_model_options. */
int iq__model_rotary(struct iq_model *m, uint32_t long_factor, struct iq_err *err);

#endif
