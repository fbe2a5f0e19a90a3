/* The file of an exported run.
 *
 *   struct iq__file_head
 *   records: struct iq__file_record, key (without the run's ordinal), value; in the order of OF_RUN tables, contents last
 *   a record of table IQ__FILE_END, empty
 *   SHA-256 of everything before it (32 bytes)
 */
#ifndef IQ_GOLDEN_STORE_FILE_H
#define IQ_GOLDEN_STORE_FILE_H

#include "golden/store_env.h"

#define IQ__FILE_MAGIC "iq run\n"
enum { IQ__FILE_VERSION = 1, IQ__FILE_SHA = 32 };
#define IQ__FILE_END 0xffffffffu

struct iq__file_head {
    char magic[8];
    uint32_t version, zero;
    uint64_t bytes; /* of the whole file */
    struct iq__run_rec run;
    char name[208]; /* NUL-padded; may be empty */
};
_Static_assert(sizeof(struct iq__file_head) == 304, "file format");

struct iq__file_record {
    uint32_t table, key_len;
    uint64_t value_len;
};
_Static_assert(sizeof(struct iq__file_record) == 16, "file format");

#endif
