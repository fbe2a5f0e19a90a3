/* What inquest finds of what it needs: the table of parts behind `inquest doctor`. */
#ifndef IQ_HARNESS_DOCTOR_H
#define IQ_HARNESS_DOCTOR_H

enum iq_part_state { IQ_PART_FOUND, IQ_PART_MISSING, IQ_PART_BROKEN };

struct iq_part_report {
    enum iq_part_state state;
    char detail[320];
    const char *remedy;     /* for what is missing or broken */
    double value;           /* the part's number, where it has one */
    const char *value_name; /* "cores", "bytes"; NULL: no number */
};

enum iq_part_group { IQ_PART_BUILD, IQ_PART_MACHINE, IQ_PART_LIBRARY, IQ_PART_MODEL, IQ_PART_OPTIONAL };

/* A part that is broken makes the environment broken; one that is missing only narrows what can be done. */
struct iq_part {
    const char *name;
    enum iq_part_group group;
    void (*look)(struct iq_part_report *);
};

extern const struct iq_part iq_parts[]; /* ends with a NULL name */
const char *iq_part_group_name(enum iq_part_group);
const char *iq_part_state_name(enum iq_part_state);

#endif
