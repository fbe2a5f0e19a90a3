/* For the files that look for parts: how a look tells what it found, and the looks that live in doctor_gpu.c. */
#ifndef IQ_HARNESS_DOCTOR_LOOK_H
#define IQ_HARNESS_DOCTOR_LOOK_H

#include "harness/cli/doctor.h"

#include <stdbool.h>
#include <stdio.h>

#define SAY(r, ...) snprintf((r)->detail, sizeof(r)->detail, __VA_ARGS__)

static inline void missing(struct iq_part_report *r, const char *remedy)
{
    r->state = IQ_PART_MISSING;
    r->remedy = remedy;
}

static inline void number(struct iq_part_report *r, const char *name, double value)
{
    r->value_name = name;
    r->value = value;
}

/* Runs Python; the last line that it says becomes the detail. False where it fails or says nothing. */
bool iq__look_python(struct iq_part_report *, const char *const *argv);

void iq__look_driver(struct iq_part_report *);
void iq__look_gpu(struct iq_part_report *);
void iq__look_toolkit(struct iq_part_report *);
void iq__look_cublas(struct iq_part_report *);
void iq__look_nccl(struct iq_part_report *);
void iq__look_memcheck(struct iq_part_report *);

#endif
