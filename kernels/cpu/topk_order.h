/* The order of topk as one integer: value descending, then id ascending; NaN after every number; -0 equal
 * to +0. */
#ifndef IQ_CPU_TOPK_ORDER_H
#define IQ_CPU_TOPK_ORDER_H

#include "kernels/base/device.h"

#include <stdint.h>
#include <string.h>

/* Rises as `value` falls. Every NaN is UINT32_MAX; both zeros are one value, so that their ids decide. */
IQ_HD uint32_t iq__topk_key(float value)
{
    uint32_t bits;
    if (value != value) return UINT32_MAX;
    value += 0.0f; /* -0 + 0 is +0 */
    memcpy(&bits, &value, sizeof bits);
    return bits >> 31 ? bits : 0x7fffffffu - bits;
}

/* (key, id): smaller is better, and no two logits of a row are equal. */
IQ_HD uint64_t iq__topk_entry(float value, uint32_t id) { return (uint64_t)iq__topk_key(value) << 32 | id; }

#endif
