/* Inside engine/files: what its readers share. */
#ifndef IQ_FILES_MODEL_FILE_PARTS_H
#define IQ_FILES_MODEL_FILE_PARTS_H

#include "engine/files/model_file.h"

struct iq__map {
    char *path;
    const unsigned char *bytes;
    uint64_t size;
};

/* Names to positions in a list; open addressing. Names are borrowed. */
struct iq__names {
    struct iq__name {
        const char *name;
        size_t at;
    } * slot;
    size_t n, cap;
};

struct iq__json_file {
    const char *name;
    cJSON *tree; /* NULL: the folder has none */
};

struct iq_model_file {
    enum iq_model_kind kind;
    char *name, *folder; /* folder: of a Hugging Face model, else NULL */
    struct iq__map *file;
    size_t files, cap_files;
    struct iq_tensor *tensor;
    size_t tensors, cap_tensors;
    struct iq__names tensor_names;
    struct iq_meta *meta;
    size_t metas, cap_metas;
    struct iq__names meta_names;
    struct iq__json_file *json;
    size_t jsons, cap_jsons;
    char **note;
    size_t notes, cap_notes;
    struct iq__kept *kept; /* strings that the model owns, a list */
};

/* A NUL-terminated copy that lives as long as the model; NULL without memory. */
char *iq__keep(struct iq_model_file *, const void *bytes, size_t n);

const struct iq__name *iq__names_find(const struct iq__names *, const char *name);
int iq__names_add(struct iq__names *, const char *name, size_t at, struct iq_err *); /* not yet there */

/* Maps a regular file read-only and adds it to m->file; *index is its place. IQ_NOT_FOUND: no such file. */
int iq__map_file(struct iq_model_file *, const char *path, size_t *index, struct iq_err *);
/* Adds a tensor (name kept already). IQ_FORMAT when the name is there: `where` tells which file or shard. */
int iq__tensor_add(struct iq_model_file *, const struct iq_tensor *, struct iq_err *);
/* A name that may be shown: 1 to 255 bytes of UTF-8 without control characters. */
bool iq__name_is_fair(const void *name, size_t n);

struct iq__split {
    uint64_t no, count, tensors; /* tensors: of the whole set; UINT64_MAX when the key is absent */
};
/* Reads m->file[index] as one GGUF file and adds its keys and tensors. `expect` (or NULL) is what its split keys must
 * say; they are checked before its tensors are. */
int iq__gguf_read(struct iq_model_file *, size_t index, const struct iq__split *expect, struct iq__split *,
                  struct iq_err *);
int iq__split_check(const char *path, const struct iq__split *, const struct iq__split *expect,
                    struct iq_err *);
/* Opens `path`, and the other shards when it belongs to a set. */
int iq__gguf_open(struct iq_model_file *, const char *path, struct iq_err *);
/* Finds the one GGUF set of a folder; *out is malloc'd, or NULL when there is no .gguf in it. */
int iq__gguf_in_folder(const char *folder, char **out, struct iq_err *);

/* Reads m->file[index] as safetensors. `take` says which tensors are wanted (NULL: all). */
int iq__safetensors_read(struct iq_model_file *, size_t index,
                         bool (*take)(void *ctx, const char *name, size_t file), void *ctx, struct iq_err *);
/* Opens m->folder; `only` names one .safetensors file in it, or is NULL. */
int iq__folder_open(struct iq_model_file *, const char *only, struct iq_err *);
/* The same without a model: no config.json, one file. */
int iq__folder_tensors(struct iq_model_file *, const char *file, struct iq_err *);
bool iq__file_exists(const char *folder, const char *file);

/* In cJSON.type, beside IQ__JSON_EXACT: somebody read this member. */
enum { IQ__JSON_USED = 1 << 17 };

#endif
