#include "tests/train/double_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void double_linear(size_t rows, size_t n, size_t k, const double *x, const double *w, double *y)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t o = 0; o < n; o++) {
            double s = 0;
            for (size_t i = 0; i < k; i++) s += x[r * k + i] * w[o * k + i];
            y[r * n + o] = s;
        }
}

void double_norm(size_t rows, size_t n, double eps, const double *x, const double *w, double *y)
{
    for (size_t r = 0; r < rows; r++) {
        double s = 0;
        for (size_t i = 0; i < n; i++) s += x[r * n + i] * x[r * n + i];
        for (size_t i = 0; i < n; i++) y[r * n + i] = x[r * n + i] / sqrt(s / (double)n + eps) * w[i];
    }
}

void double_rope(size_t rows, size_t unit, size_t heads, size_t dim, double base, const double *x, double *y)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t h = 0; h < heads; h++)
            for (size_t i = 0; i < dim / 2; i++) {
                double angle = (double)(r % unit) * pow(base, -2.0 * (double)i / (double)dim);
                size_t a = (r * heads + h) * dim + i, b = a + dim / 2;
                double u = x[a], v = x[b];
                y[a] = u * cos(angle) - v * sin(angle);
                y[b] = v * cos(angle) + u * sin(angle);
            }
}

static double score(size_t dim, const double *q, const double *k)
{
    double s = 0;
    for (size_t d = 0; d < dim; d++) s += q[d] * k[d];
    return s / sqrt((double)dim);
}

void double_attention(size_t sequences, size_t unit, size_t heads, size_t kv_heads, size_t dim,
                      const double *x, double *y)
{
    size_t ld = (heads + 2 * kv_heads) * dim;
    double *p = malloc(unit * sizeof *p);
    for (size_t r = 0; r < sequences * unit; r++)
        for (size_t h = 0; h < heads; h++) {
            size_t first = r / unit * unit, k = (heads + h / (heads / kv_heads)) * dim,
                   v = k + kv_heads * dim;
            double sum = 0;
            for (size_t j = first; j <= r; j++)
                sum += p[j - first] = exp(score(dim, x + r * ld + h * dim, x + j * ld + k));
            for (size_t d = 0; d < dim; d++) {
                double s = 0;
                for (size_t j = first; j <= r; j++) s += p[j - first] * x[j * ld + v + d];
                y[(r * heads + h) * dim + d] = s / sum;
            }
        }
    free(p);
}

void double_swiglu(size_t rows, size_t n, const double *gate_up, double *y)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < n; i++) {
            double g = gate_up[2 * r * n + i];
            y[r * n + i] = g / (1 + exp(-g)) * gate_up[2 * r * n + n + i];
        }
}

void double_route(size_t rows, size_t experts, size_t k, const double *logits, double *weight)
{
    for (size_t r = 0; r < rows; r++, logits += experts, weight += experts) {
        double sum = 0;
        for (size_t e = 0; e < experts; e++) {
            size_t above = 0;
            for (size_t o = 0; o < experts; o++)
                above += logits[o] > logits[e] || (logits[o] == logits[e] && o < e);
            weight[e] = above < k ? exp(logits[e]) : 0;
            sum += weight[e];
        }
        for (size_t e = 0; e < experts; e++) weight[e] /= sum;
    }
}

double double_balance(size_t rows, size_t unit, size_t experts, size_t k, const double *logits,
                      const double *weight)
{
    double total = 0;
    for (size_t first = 0; first < rows; first += unit)
        for (size_t e = 0; e < experts; e++) {
            double slots = 0, mean = 0;
            for (size_t r = first; r < first + unit; r++) {
                double sum = 0;
                for (size_t o = 0; o < experts; o++) sum += exp(logits[r * experts + o]);
                mean += exp(logits[r * experts + e]) / sum / (double)unit;
                slots += weight[r * experts + e] > 0;
            }
            total += (double)experts * slots / (double)(k * unit) * mean;
        }
    return total / (double)(rows / unit);
}

double double_loss(size_t rows, size_t vocab, const double *x, const uint32_t *target)
{
    double loss = 0;
    for (size_t r = 0; r < rows; r++) {
        if (target[r] == IQ_TRAIN_NO_TARGET) continue;
        double sum = 0;
        for (size_t j = 0; j < vocab; j++) sum += exp(x[r * vocab + j]);
        loss += log(sum) - x[r * vocab + target[r]];
    }
    return loss;
}

static void add(size_t n, const double *x, double *y)
{
    for (size_t i = 0; i < n; i++) y[i] += x[i];
}

/* The dense feed-forward, or one expert on all rows. room: (rows, 3 ffn). */
static void feed(const struct iq_train_recipe *c, size_t rows, const double *h, const double *gate_up,
                 const double *down, double *room, double *y)
{
    const size_t d = c->hidden, f = c->ffn;
    double_linear(rows, 2 * f, d, h, gate_up, room);
    double_swiglu(rows, f, room, room + rows * 2 * f);
    double_linear(rows, d, f, room + rows * 2 * f, down, y);
}

/* x += the experts' on h; returns the weights behind the block's. */
static const double *experts(const struct iq_train_recipe *c, const double *w, size_t rows, size_t unit,
                             const double *h, double *room, double *x, double *balance)
{
    const size_t d = c->hidden, f = c->ffn, n = c->experts;
    double *logits = malloc(rows * (2 * n + d) * sizeof *logits), *weight = logits + rows * n,
           *y = weight + rows * n;
    const double *gate_up = w + n * d, *down = gate_up + n * 2 * f * d;
    double_linear(rows, n, d, h, w, logits);
    double_route(rows, n, c->active, logits, weight);
    *balance += double_balance(rows, unit, n, c->active, logits, weight);
    for (size_t e = 0; e < n; e++) {
        feed(c, rows, h, gate_up + e * 2 * f * d, down + e * d * f, room, y);
        for (size_t i = 0; i < rows * d; i++) x[i] += weight[i / d * n + e] * y[i];
    }
    free(logits);
    return down + n * d * f;
}

/* One block on x, in place; returns the weights behind the block's. */
static const double *block(const struct iq_train_recipe *c, const double *w, size_t rows, size_t unit,
                           double *x, double *balance)
{
    size_t d = c->hidden, q = (size_t)c->heads * c->head_dim, turned = q + (size_t)c->kv_heads * c->head_dim;
    size_t e = turned + (size_t)c->kv_heads * c->head_dim, f = c->ffn;
    double *h = malloc(rows * (d + 2 * e + q + 3 * f) * sizeof *h), *qkv = h + rows * d,
           *part = qkv + rows * e;
    double *y = part + rows * e, *room = y + rows * q;
    double_norm(rows, d, c->norm_eps, x, w, h);
    w += d;
    double_linear(rows, e, d, h, w, qkv);
    w += e * d;
    for (size_t r = 0; r < rows; r++) memcpy(part + r * turned, qkv + r * e, turned * sizeof *part);
    double_rope(rows, unit, c->heads + c->kv_heads, c->head_dim, c->rope_base, part, part);
    for (size_t r = 0; r < rows; r++) memcpy(qkv + r * e, part + r * turned, turned * sizeof *part);
    double_attention(rows / unit, unit, c->heads, c->kv_heads, c->head_dim, qkv, y);
    double_linear(rows, d, q, y, w, h);
    w += d * q;
    add(rows * d, h, x);
    double_norm(rows, d, c->norm_eps, x, w, h);
    w += d;
    if (c->experts) {
        w = experts(c, w, rows, unit, h, room, x, balance);
    } else {
        feed(c, rows, h, w, w + 2 * f * d, room, h);
        w += 3 * f * d;
        add(rows * d, h, x);
    }
    free(h);
    return w;
}

double double_model_loss(const struct iq_train_recipe *c, const double *weights,
                         const struct iq_train_batch *b, double *balance)
{
    *balance = 0;
    size_t rows = (size_t)b->rows * b->length, d = c->hidden, targets = 0;
    double *x = malloc(rows * (2 * d + c->vocab) * sizeof *x), *h = x + rows * d, *logits = h + rows * d;
    uint32_t *target = malloc(rows * sizeof *target);
    const double *w = weights + c->vocab * d;
    for (size_t r = 0; r < rows; r++) {
        memcpy(x + r * d, weights + b->tokens[r] * d, d * sizeof *x);
        bool asked = r + 1 < rows && b->mask[r + 1];
        target[r] = asked ? b->tokens[r + 1] : IQ_TRAIN_NO_TARGET;
        targets += asked;
    }
    for (uint32_t i = 0; i < c->layers; i++) w = block(c, w, rows, b->length, x, balance);
    double_norm(rows, d, c->norm_eps, x, w, h);
    double_linear(rows, c->vocab, d, h, c->tied ? weights : w + d, logits);
    double loss = double_loss(rows, c->vocab, logits, target) / (double)targets;
    free(target);
    free(x);
    return loss;
}
