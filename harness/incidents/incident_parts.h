/* Inside the reader of incidents: files and prompts. */
#ifndef IQ_HARNESS_INCIDENT_PARTS_H
#define IQ_HARNESS_INCIDENT_PARTS_H

#include "harness/incidents/incident.h"

/* A whole file, at most `max` bytes. */
int iq__incident_file(const char *path, size_t max, struct iq_buf *out, struct iq_err *err);
/* The list that "prompts" is or names; the caller frees it. `where`: the incident's file. */
int iq__incident_lines(const cJSON *prompts, const char *where, cJSON **out, struct iq_err *err);
/* Prompts of the lines with an arm's overrides (NULL: none). `where`: the arm. */
int iq__incident_prompts(const cJSON *lines, const cJSON *overrides, const char *where,
                         struct iq_prompts *out, struct iq_err *err);

#endif
