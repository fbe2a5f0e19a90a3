/* The table of a campaign: a line per cell of its grid, counted from rows. Text for people, JSON, CSV. */
#ifndef IQ_HARNESS_CAMPAIGN_TABLE_H
#define IQ_HARNESS_CAMPAIGN_TABLE_H

#include "golden/campaign.h"
#include "harness/campaign/grid.h"

struct iq_table_cell {
    uint64_t done, fired, label[IQ_LABELS];
    uint64_t masked; /* identical although something fired */
    uint64_t caught,
        missed; /* of those that differ: the guilty op is the fault's; it is not, or none was found */
};

struct iq_table {
    struct iq_grid grid;
    struct iq_table_cell *cell; /* (grid.cells) */
    struct iq_campaign_info info;
};

/* From a manifest; the grid is the table's own. */
int iq_table_open(const char *manifest, const struct iq_campaign_info *, struct iq_table *out,
                  struct iq_err *err);
void iq_table_close(struct iq_table *);
int iq_table_add(void *table, const struct iq_trial_row *); /* as iq_campaign_rows calls it */
/* At most `lines` cells (0: all); those that have the most to tell come first then. */
void iq_table_text(const struct iq_table *, uint32_t lines, struct iq_buf *out);
void iq_table_json(const struct iq_table *, struct iq_jw *);
void iq_table_csv(const struct iq_table *, struct iq_buf *out);

#endif
