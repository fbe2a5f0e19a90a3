#include "harness/cli/progress.h"
#include "kernels/base/clock.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static struct iq_progress *active; /* the bar on the screen, so that iq_say can get past it */

static int columns(void)
{
    struct winsize w;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) || w.ws_col < 20) return 80;
    return w.ws_col < 200 ? w.ws_col : 200;
}

static void duration(double s, char out[16])
{
    if (!(s < 360000))
        snprintf(out, 16, "--:--");
    else if (s < 3600)
        snprintf(out, 16, "%d:%02d", (int)s / 60, (int)s % 60);
    else
        snprintf(out, 16, "%d:%02d:%02d", (int)s / 3600, (int)s / 60 % 60, (int)s % 60);
}

void iq_progress_text(const struct iq_progress *p, double elapsed, int width, char *out, size_t size)
{
    int bytes = !strcmp(p->unit, "B");
    double scale = bytes ? 1 << 20 : 1;
    const char *unit = bytes ? "MiB" : p->unit;
    double rate = elapsed > 0 && p->done > p->first ? (double)(p->done - p->first) / elapsed : 0;
    char tail[128], left[16];
    if (p->total) {
        uint64_t done = p->done < p->total ? p->done : p->total;
        duration(rate > 0 ? (double)(p->total - done) / rate : 1e9, left);
        snprintf(tail, sizeof tail, " %.0f/%.0f %s, %.4g %s/s, %s left", (double)done / scale,
                 (double)p->total / scale, unit, rate / scale, unit, left);
    } else {
        duration(elapsed, left);
        snprintf(tail, sizeof tail, " %.0f %s, %.4g %s/s, %s", (double)p->done / scale, unit, rate / scale,
                 unit, left);
    }
    int room = width - 1 - (int)strlen(p->label) - (int)strlen(tail) - 3; /* " [", "]" */
    char bar[128] = "";
    if (p->total && room >= 5) {
        int cells = room < 40 ? room : 40;
        uint64_t done = p->done < p->total ? p->done : p->total;
        int full = (int)((double)done / (double)p->total * cells);
        int at = snprintf(bar, sizeof bar, " [");
        for (int i = 0; i < cells; i++) bar[at++] = i < full ? '#' : '.';
        bar[at++] = ']';
        bar[at] = 0;
    }
    int n = snprintf(out, size, "%s%s%s", p->label, bar, tail);
    if (n >= width && width > 0 && (size_t)width <= size)
        out[width - 1] = 0; /* a wrapped line cannot be erased */
}

static void erase(void) { (void)!write(STDERR_FILENO, "\r\033[K", 4); }

static void draw(struct iq_progress *p, uint64_t now)
{
    char text[256], line[264];
    iq_progress_text(p, (double)(now - p->began_ns) * 1e-9, columns(), text, sizeof text);
    int n = snprintf(line, sizeof line, "\r\033[K%s", text);
    (void)!write(STDERR_FILENO, line, (size_t)n);
    p->drawn_ns = now;
}

/* A signal that ends the process leaves a clean line behind, and ends it. */
static void interrupted(int sig)
{
    erase();
    raise(sig); /* SA_RESETHAND: the default this time */
}

static void watch_signals(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction act = {.sa_handler = interrupted, .sa_flags = (int)SA_RESETHAND}, old;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (!sigaction(ends[i], NULL, &old) && old.sa_handler == SIG_DFL) sigaction(ends[i], &act, NULL);
}

void iq_progress_begin(struct iq_progress *p, const char *label, const char *unit, uint64_t first,
                       uint64_t total)
{
    *p = (struct iq_progress){.first = first, .done = first, .total = total, .began_ns = iq_clock_ns()};
    snprintf(p->label, sizeof p->label, "%s", label);
    snprintf(p->unit, sizeof p->unit, "%s", unit);
    const char *term = getenv("TERM");
    p->shown = isatty(STDERR_FILENO) && (!term || strcmp(term, "dumb"));
    p->drawn_ns = p->began_ns;
    if (!p->shown) return;
    active = p;
    watch_signals();
}

void iq_progress_at(struct iq_progress *p, uint64_t done)
{
    p->done = done;
    if (!p->shown) return;
    uint64_t now = iq_clock_ns();
    if (now - p->drawn_ns >= 100000000u) draw(p, now);
}

void iq_progress_end(struct iq_progress *p)
{
    if (!p->shown) return;
    erase();
    p->shown = false;
    active = NULL;
}

void iq_say(const char *fmt, ...)
{
    char text[1200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    /* Names come from files: they shall neither break the line nor steer the terminal. */
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    if (active) erase();
    fprintf(stderr, "inquest: %s\n", text);
    if (active) draw(active, iq_clock_ns());
}
