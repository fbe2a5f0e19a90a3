#!/usr/bin/env python3
"""text_seeds.py TESTS_DATA DIR: writes the small tokenizers of tests/data/text as seeds for fuzz_tokenizer_json."""
import json
import pathlib
import sys

data, out = map(pathlib.Path, sys.argv[1:])
out.mkdir(parents=True, exist_ok=True)
for name in ("trained", "cases"):
    for line in (data / "text" / f"{name}.jsonl").open(encoding="utf-8"):
        case = json.loads(line)
        tokenizer = json.loads(case["tokenizer"])
        tokenizer["model"]["merges"] = tokenizer["model"]["merges"][:30]  # small seeds go further
        (out / case["name"]).write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
