/* Incidents: what really happened, as a file that can be run again and whose predictions can fail.
 *
 * {"name", "id", "title", "source", "story", "model", "prompts", "engine": {settings}, "plan": {"faults", "seed"},
 *  "arms": [{"name", "what", "engine": {overrides}, "without": [names of faults], "faults": [more, that go last],
 *            "prompts": {overrides}, "predict": {prediction}}, ...]}
 *
 * prompts: a list of prompt lines (plan/prompts.h), or the name of a JSON-lines file: beside the incident's file, else
 * shipped. An arm's prompts: {"first": n, max_tokens, seed, temperature, top_k, top_p, min_p, ignore_stop}; each
 * distinct set of prompts gets a golden of its own, run with the incident's settings at the highest level of its arms. The first arm is the incident as
 * it happened; the others are what hid it, what cured it, and what must not matter. predict: predict.h.
 *
 * An incident file is hostile input: unknown fields, wrong types and values out of range are IQ_FORMAT with file and
 * field. Life cycle: iq_incident_load, read, iq_incident_free (safe on a zeroed one). Strings are borrowed from it.
 */
#ifndef IQ_HARNESS_INCIDENT_H
#define IQ_HARNESS_INCIDENT_H

#include "harness/plan/plan.h"
#include "harness/plan/prompts.h"

/* Files that the build put into the binary: incidents (*.json) and prompts (*.jsonl). Ends with a NULL file. */
struct iq_shipped {
    const char *file;
    const unsigned char *text; /* (len), no NUL at its end */
    size_t len;
};
extern const struct iq_shipped iq_shipped[];
/* By a file's name, or an incident's, which is the file's without .json; NULL if none is shipped. */
const struct iq_shipped *iq_shipped_find(const char *name);
/* IQ_USAGE with the names and the nearest spelling. */
int iq_incident_unknown(const char *name, struct iq_err *err);
/* The shipped incidents' names, each with a space behind it. */
void iq_shipped_names(struct iq_buf *);

struct iq_arm {
    const char *name, *what;
    struct iq_settings settings;
    struct iq_plan plan;
    unsigned set;         /* which of the incident's prompt sets */
    const cJSON *predict; /* checked */
};

/* One set of prompts: the incident's, with an arm's overrides. */
struct iq_prompt_set {
    const cJSON *overrides; /* NULL: none */
    struct iq_prompts prompts;
};

struct iq_incident {
    cJSON *json, *lines; /* the file; its prompts as a list */
    const char *name, *id, *title, *source, *story, *model;
    struct iq_settings settings;
    struct iq_prompt_set *set; /* (n_sets); set 0 has no overrides */
    struct iq_arm *arm;        /* (n_arms) */
    unsigned n_sets, n_arms;
};

/* `name`: a shipped incident, or a path (it has a slash, or ends in .json). IQ_USAGE: neither. */
int iq_incident_load(const char *name, struct iq_incident *, struct iq_err *err);
/* From text; `where` names it in errors, and its folder is where files of prompts are looked for. */
int iq_incident_parse(const char *text, size_t len, const char *where, struct iq_incident *,
                      struct iq_err *err);
void iq_incident_free(struct iq_incident *);

#endif
