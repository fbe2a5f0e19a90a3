#include "harness/campaign/screen.h"

#include "kernels/base/clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LINES = 16 };
#define EVERY_NS 500000000u

int iq_screen_open(struct iq_screen *s, struct iq_store *store, const char *campaign, const char *manifest,
                   bool quiet, struct iq_err *err)
{
    struct iq_campaign_info info;
    *s = (struct iq_screen){.on = !quiet};
    IQ_TRY(iq_campaign_find(store, campaign, &info, err));
    IQ_TRY(iq_table_open(manifest, &info, &s->table, err));
    return iq_campaign_rows(store, campaign, iq_table_add, &s->table, err);
}

void iq_screen_begin(struct iq_screen *s, uint64_t trials)
{
    s->total = trials;
    if (!s->on) return;
    iq_progress_begin(&s->bar, "campaign", "trials", 0, trials);
    s->on = s->bar.shown;
}

void iq_screen_row(struct iq_screen *s, const struct iq_trial_row *r)
{
    s->done++;
    s->table.info.done++;
    (void)iq_table_add(&s->table, r);
}

static void out(const char *text, size_t n) { (void)!write(STDERR_FILENO, text, n); }

/* To the first line of the table, and everything below it goes. */
static void erase(struct iq_screen *s)
{
    char up[32];
    int n = s->lines ? snprintf(up, sizeof up, "\r\033[%uA\033[J", s->lines) : 0;
    if (n > 0) out(up, (size_t)n);
    s->lines = 0;
}

void iq_screen_draw(struct iq_screen *s)
{
    uint64_t now = iq_clock_ns();
    struct winsize w = {.ws_col = 80};
    if (!s->on) return;
    if (now - s->drawn_ns < EVERY_NS) {
        iq_progress_at(&s->bar, s->done);
        return;
    }
    s->drawn_ns = now;
    ioctl(STDERR_FILENO, TIOCGWINSZ, &w);
    uint32_t rows = w.ws_row > 6 && w.ws_row - 4 < LINES ? w.ws_row - 4u : LINES;
    struct iq_buf text = IQ_BUF(1 << 16);
    iq_table_text(&s->table, rows, &text);
    out("\r\033[K", 4);
    erase(s);
    /* Cut at the terminal's edge: a wrapped line could not be erased. */
    for (const char *p = text.data; p && *p; s->lines++) {
        size_t n = strcspn(p, "\n"), wide = w.ws_col > 1 ? w.ws_col - 1u : 79;
        out(p, n < wide ? n : wide);
        out("\n", 1);
        p += n + (p[n] != 0);
    }
    iq_buf_free(&text);
    s->bar.drawn_ns = 0;
    iq_progress_at(&s->bar, s->done);
}

void iq_screen_end(struct iq_screen *s)
{
    if (!s->on) return;
    iq_progress_end(&s->bar);
    erase(s);
    s->on = false;
}

void iq_screen_close(struct iq_screen *s) { iq_table_close(&s->table); }
