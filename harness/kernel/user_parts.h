/* What user.c, listing.c and door.c share: a library and its kernels. */
#ifndef IQ_HARNESS_KERNEL_USER_PARTS_H
#define IQ_HARNESS_KERNEL_USER_PARTS_H

#include "harness/kernel/user.h"
#include "kernels/base/sha256.h"
#include "kernels/op.h"

enum { IQ__DOORS = 64 };

struct iq_user_kernel {
    struct iq_variant variant;
    const struct iq_abi_kind *kind;
    struct iq_user_library *library;
    uint32_t index, n_params;
    bool packed;
    char name[INQUEST_NAME_MAX + 1], what[240];
    struct iq_param param[INQUEST_PARAMS_MAX + 1];
    char param_name[INQUEST_PARAMS_MAX][INQUEST_NAME_MAX + 1], param_help[INQUEST_PARAMS_MAX][160];
};

struct iq_user_library {
    struct iq_kernel_program program; /* what it points to is owned */
    char name[128], sha256[IQ_SHA256_HEX], float_mode[80];
    struct iq_buf listing;
    struct iq_user_kernel *kernel; /* (n): records that the registry borrows for ever */
    uint32_t n;
    struct iq_kernel_limits limits;
    struct iq_kernel_process process;
    struct iq_user_library *next;
};

/* Reads l->listing: kernels, without registering them. */
int iq__user_listing(struct iq_user_library *, struct iq_err *err);
void iq__user_program_free(struct iq_kernel_program *);
/* Runs if it does not run in this process yet. */
int iq__user_ensure(struct iq_user_library *, struct iq_err *err);
/* A door: the run of one kernel. There must be one left. */
uint32_t iq__user_doors_left(void);
iq_run_fn *iq__user_door(struct iq_user_kernel *);

#endif
