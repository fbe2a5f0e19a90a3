#!/usr/bin/env python3
"""Writes tests/kernels/rotary_vectors.h: frequencies, attention factors and a few cosines and sines of
transformers' rotary embeddings, one row a case. Needs torch and transformers (5.24 made the committed file).

usage: python3 make_rotary_vectors.py > rotary_vectors.h
"""
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

LONG = [1.0 + 0.25 * i for i in range(16)]
SHORT = [1.0 + 0.01 * i for i in range(16)]
POSITIONS = (0, 1, 17, 1000)

# name, head_dim, config fields, rope parameters, seq_len given to transformers, C fields of iq_rotary_spec
CASES = [
    ("smollm2", 64, dict(max_position_embeddings=8192), dict(rope_type="default", rope_theta=100000.0), None, ""),
    ("qwen", 128, dict(max_position_embeddings=32768), dict(rope_type="default", rope_theta=1000000.0), None, ""),
    ("linear", 64, dict(max_position_embeddings=4096), dict(rope_type="linear", rope_theta=10000.0, factor=2.5), None,
     ".factor = 2.5"),
    ("dynamic_short", 64, dict(max_position_embeddings=2048),
     dict(rope_type="dynamic", rope_theta=10000.0, factor=4.0), 2048, ".factor = 4, .context = 2048, .length = 2000"),
    ("dynamic_long", 64, dict(max_position_embeddings=2048),
     dict(rope_type="dynamic", rope_theta=10000.0, factor=4.0), 6000, ".factor = 4, .context = 2048, .length = 6000"),
    ("yarn", 128, dict(max_position_embeddings=131072),
     dict(rope_type="yarn", rope_theta=1000000.0, factor=4.0, original_max_position_embeddings=32768), None,
     ".factor = 4, .original_context = 32768"),
    ("yarn_mscale", 64, dict(max_position_embeddings=163840),
     dict(rope_type="yarn", rope_theta=10000.0, factor=40.0, original_max_position_embeddings=4096, beta_fast=32,
          beta_slow=1, mscale=0.707, mscale_all_dim=1.0), None,
     ".factor = 40, .original_context = 4096, .beta_fast = 32, .beta_slow = 1, .mscale = 0.707, .mscale_all_dim = 1"),
    ("yarn_whole_range", 64, dict(max_position_embeddings=16384),
     dict(rope_type="yarn", rope_theta=150000.0, factor=32.0, original_max_position_embeddings=4096, beta_fast=32.0,
          beta_slow=1.0, truncate=False, attention_factor=1.25), None,
     ".factor = 32, .original_context = 4096, .no_truncate = 1, .attention_factor = 1.25"),
    ("llama3", 64, dict(max_position_embeddings=131072),
     dict(rope_type="llama3", rope_theta=500000.0, factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0,
          original_max_position_embeddings=8192), None,
     ".factor = 32, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 8192"),
    ("longrope_short", 32, dict(max_position_embeddings=131072),
     dict(rope_type="longrope", rope_theta=10000.0, short_factor=SHORT, long_factor=LONG, factor=32.0,
          original_max_position_embeddings=4096), 4096,
     ".factor = 32, .original_context = 4096, .length = 4096, .short_factor = short_factor, .long_factor = long_factor"),
    ("longrope_long", 32, dict(max_position_embeddings=131072),
     dict(rope_type="longrope", rope_theta=10000.0, short_factor=SHORT, long_factor=LONG, factor=32.0,
          original_max_position_embeddings=4096), 4097,
     ".factor = 32, .original_context = 4096, .length = 4097, .short_factor = short_factor, .long_factor = long_factor"),
]


def default_frequencies(config, theta, dim):
    return 1.0 / (theta ** (torch.arange(0, dim, 2, dtype=torch.int64).to(dtype=torch.float) / dim)), 1.0


def hexes(values):
    return ", ".join(float(v).hex().replace("0000000p", "p") for v in values)


def main():
    print("/* Made by make_rotary_vectors.py from transformers' rotary embeddings: do not edit. */\n/* clang-format off */")
    for name, values in (("short_factor", SHORT), ("long_factor", LONG)):
        print(f"static const double {name}[] = {{{', '.join(repr(v) for v in values)}}};")
    rows = []
    for name, dim, fields, rope, seq_len, c_fields in CASES:
        config = LlamaConfig(hidden_size=dim * 2, num_attention_heads=2, head_dim=dim, rope_parameters=rope, **fields)
        kind = rope["rope_type"]
        if kind == "default":
            inv_freq, attention = default_frequencies(config, rope["rope_theta"], dim)
        else:
            inv_freq, attention = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=seq_len)
        print(f"static const float {name}_frequency[] = {{{hexes(inv_freq)}}};")
        angle = torch.tensor(POSITIONS, dtype=torch.float32)[:, None] * inv_freq[None, :].float()
        pairs = torch.stack((angle.cos() * attention, angle.sin() * attention), dim=-1)
        print(f"static const float {name}_table[] = {{{hexes(pairs.flatten().tolist())}}};")
        kind = {"default": "NONE"}.get(kind, kind.upper())
        more = ", " + c_fields if c_fields else ""
        rows.append(f'{{"{name}", {{.kind = IQ_ROTARY_{kind}, .rotary = {dim}, .base = {rope["rope_theta"]!r}{more}}}, '
                    f"{float(attention).hex()}, {name}_frequency, {name}_table}},")
    print(f"static const uint32_t vector_positions[] = {{{', '.join(str(p) for p in POSITIONS)}}};")
    print("static const struct {\n    const char *name;\n    struct iq_rotary_spec spec;\n    double attention;")
    print("    const float *frequency; /* (rotary / 2) */\n    const float *table;     /* (positions, rotary / 2, 2) */")
    print("} vectors[] = {")
    print("\n".join("    " + row for row in rows))
    print("};")


main()
