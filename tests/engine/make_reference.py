"""Logits of the small random models from transformers, everything in float64. Run by hand:

    test_architectures --write DIR && python3 tests/engine/make_reference.py DIR > tests/data/engine/architectures.jsonl

A line a model: the 20 largest logits at the prompt's end, the row's length, and 8 greedy steps [id, margin].
transformers computes norms, softmax and rotary tables in float32 whatever the model's type is; here the names that it
uses for that type mean float64. Made with torch 2.15.0 and transformers 5.24.0.
"""
import json
import pathlib
import sys

import torch
import transformers

torch.set_grad_enabled(False)
SINGLE = torch.float32, torch.Tensor.float


def widen(on):
    """float32 means float64 while this is on; readers of weight files need the true names."""
    torch.float = torch.float32 = torch.float64 if on else SINGLE[0]
    torch.Tensor.float = torch.Tensor.double if on else SINGLE[1]
    torch.set_default_dtype(torch.float64 if on else SINGLE[0])


def load(folder):
    widen(False)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float64, attn_implementation="eager",
        experts_implementation="eager")  # the grouped product has no float64
    widen(True)
    model.model.rotary_emb = type(model.model.rotary_emb)(model.config)
    return model.eval()


def greedy(model, ids, steps):
    out, ids = [], list(ids)
    for _ in range(steps):
        best = torch.topk(model(torch.tensor([ids])).logits[0, -1], 2)
        out.append([best.indices[0].item(), float(f"{(best.values[0] - best.values[1]).item():.6g}")])
        ids.append(out[-1][0])
    return out


def main(root):
    for folder in sorted(pathlib.Path(root).iterdir()):
        model = load(folder)
        for name, buffer in model.named_buffers():
            assert buffer.dtype == torch.float64, (name, buffer.dtype)
        ids = json.loads((folder / "prompt.json").read_text())
        logits = model(torch.tensor([ids])).logits[0, -1]
        assert logits.dtype == torch.float64
        top = torch.topk(logits, 20)
        print(json.dumps({
            "name": folder.name,
            "top": [[i.item(), float(f"{v.item():.10g}")] for i, v in zip(top.indices, top.values)],
            "l2": float(f"{logits.norm().item():.10g}"),
            "greedy": greedy(model, ids, 8)}, separators=(",", ":")))


main(sys.argv[1])
