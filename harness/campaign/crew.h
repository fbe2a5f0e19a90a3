/* The coordinator's workers: who does what, and what becomes of the trials of one that is gone. */
#ifndef IQ_HARNESS_CREW_H
#define IQ_HARNESS_CREW_H

#include "harness/campaign/zygote.h"

struct iq_hand {
    int fd; /* -1: no worker */
    pid_t pid;
    bool busy;
    struct iq_job job;
    uint8_t done[IQ_JOB_TRIALS]; /* of the job's trials: has its row */
};

struct iq_crew {
    struct iq_ready *ready;
    struct iq_zygote zygote;
    struct iq_hand *hand; /* (hands) */
    uint32_t hands;
    uint32_t aboard; /* trials that rode with others */
    uint32_t deaths; /* without a row in between */
    /* What is left, by context, then by index; dealt from the front. */
    struct iq_todo {
        uint32_t context, index;
    } * todo;
    size_t n_todo, next;
    struct iq_todo *again; /* of workers that are gone */
    size_t n_again, cap_again;
    /* A row has come. */
    int (*row)(void *self, const struct iq_trial_row *, struct iq_err *);
    void *self;
};

/* ready, zygote, hands, row and self are set. Trials are those of `wanted`. */
int iq_crew_open(struct iq_crew *, bool (*wanted)(void *self, uint32_t index), struct iq_err *err);
/* Deals out, and waits at most `ms` for something to happen. *more: something is left to do. */
int iq_crew_turn(struct iq_crew *, int ms, bool *more, struct iq_err *err);
void iq_crew_close(struct iq_crew *);

#endif
