#!/usr/bin/env python3
"""What tests/gpu.sh makes of what its parts left: a table and one JSON file.

report.py found DOCTOR.json PART    what doctor found; exit 1 and what to do where it is missing
report.py chains LINES              id and chain of the lines of `inquest run --json`, sorted
report.py table WORK FILE LABEL COMMIT STARTED BUILT BUDGET
                                    exit 0 all passed, 1 one failed, 3 none failed but some are not here

WORK holds `parts` (name|limit|what|programs), `runs` (part|program|exit|seconds|limit) and PART.PROGRAM.out and .err.
A line of standard output that is a JSON object is a row of results.
"""
import json
import os
import re
import sys
import time

NOT_HERE, OUT_OF_TIME = 77, (124, 137)
ROWS_SHOWN, LINES_SHOWN, WIDTH = 40, 6, 118
# What a reader looks for first: speed, constants, what failed.
FIRST = ("ratio", "decode_tokens_per_s", "constant", "failed", "why")


def found(path, name):
    """A part's detail; where it is missing, that and the remedy, and exit 1."""
    part = next(p for p in json.load(open(path))["parts"] if p["name"] == name)
    print(part["detail"] if part["state"] == "found" else f"{name}: {part['detail']}; {part['remedy']}")
    return part["state"] != "found"


def chains(path):
    lines = [(r["id"], r["chain"]) for r in map(json.loads, open(path))]
    for name, chain in sorted(lines):
        print(name, chain)
    return 0 if lines else 1


def rows_and_rest(text):
    """JSON objects, and the lines that are none."""
    rows, rest = [], []
    for line in text.splitlines():
        try:
            row = json.loads(line) if line.startswith("{") else None
        except ValueError:
            row = None
        if isinstance(row, dict):
            rows.append(row)
        elif line.strip():
            rest.append(line.rstrip())
    return rows, rest


def read(path):
    with open(path, "rb") as file:
        return file.read(1 << 24).decode("utf-8", "replace")


def program(work, part, name, code, seconds, limit):
    base = os.path.join(work, f"{part}.{name}")
    rows, rest = rows_and_rest(read(base + ".out"))
    complaints = [l.rstrip() for l in read(base + ".err").splitlines() if l.strip()]
    state, why = "passed", ""
    own = [str(r[key]) for r in rows for key in ("skipped", "failed", "why") if r.get(key)]
    checks = [l for l in rest if re.search(r":\d+:[FE]:", l)]  # how Check tells of a failure
    if code == NOT_HERE:
        state, why = "not here", (rest + own + complaints + ["it did not say why"])[0]
    elif code in OUT_OF_TIME and seconds >= limit:
        state, why = "failed", f"killed after {limit} s"
    elif code:
        ended = f"signal {code - 128}" if code > 128 else f"exit status {code}"
        state, why = "failed", f"{ended}: " + (checks + complaints + own + rest + ["it said nothing"])[0]
    return {"name": name, "state": state, "why": why, "exit": code, "seconds": seconds, "rows": rows,
            "said": rest[-20:], "remarks": complaints[-20:]}


def part(work, name, limit, what, runs):
    """Failed where a program failed, not here where one is not here."""
    programs = [program(work, name, *run) for run in runs]
    states = [p["state"] for p in programs]
    state = next((s for s in ("failed", "not here") if s in states), "passed")
    why = "; ".join(dict.fromkeys(p["why"] for p in programs if p["state"] == state and p["why"]))
    ratio = [r["ratio"] for p in programs for r in p["rows"] if isinstance(r.get("ratio"), (int, float))]
    return {"name": name, "what": what, "state": state, "why": why, "limit_s": limit,
            "golden_over_library": [min(ratio), max(ratio)] if ratio else None,
            "seconds": sum(p["seconds"] for p in programs), "programs": programs}


def cut(text):
    return text if len(text) <= WIDTH else text[:WIDTH - 3] + "..."


def table(parts, label):
    print(f"{'part':<11}{'on':<10}{'state':<10}{'s':>4} {'most':>5}  what was shown, or why not")
    for p in parts:
        ratio = p["golden_over_library"]
        shown = p["why"] or p["what"] + (f"; golden takes {ratio[0]:.3g} to {ratio[1]:.3g} times their time" if ratio else "")
        print(cut(f"{p['name']:<11}{label:<10}{p['state']:<10}{p['seconds']:>4} {p['limit_s']:>5}  {shown}"))
    for p in parts:
        details(p)


def details(part):
    """Rows of plain values; tables within a row are for the file. What a program remarks on stands beneath."""
    rows = [r for program in part["programs"] for r in program["rows"]]
    plain = [r for r in rows if not any(isinstance(v, (list, dict)) for v in r.values())]
    plain = sorted(plain, key=lambda r: not any(k in r for k in FIRST))[:ROWS_SHOWN]
    lines = [", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in r.items()) for r in plain]
    if len(rows) > len(plain):
        lines.append(f"... {len(rows) - len(plain)} more in the file")
    for program in part["programs"]:
        said = program["remarks"] if program["state"] == "passed" else program["remarks"] + program["said"]
        lines += [f"{program['name']}: {line}" for line in said[-LINES_SHOWN:] if program["state"] != "not here"]
    if lines:
        print(f"\n{part['name']}")
    for line in lines:
        print("  " + line if len(line) < 2 * WIDTH else cut(line))


def report(work, path, label, commit, started, built, budget):
    runs = [line.rstrip("\n").split("|") for line in open(os.path.join(work, "runs"))]
    parts = []
    for line in open(os.path.join(work, "parts")):
        name, limit, what, _ = line.rstrip("\n").split("|")
        own = [(r[1], int(r[2]), int(r[3]), int(r[4])) for r in runs if r[0] == name]
        if own:
            parts.append(part(work, name, int(limit), what, own))
    by = {s: [p["name"] for p in parts if p["state"] == s] for s in ("passed", "failed", "not here")}
    doctor = json.loads(read(os.path.join(work, "doctor")) or "{}")
    seconds = int(time.time()) - int(started)
    table(parts, label)
    with open(path, "w") as file:
        json.dump({"report": "inquest-gpu", "version": 1, "device": label, "commit": commit,
                   "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "seconds": seconds,
                   "set_up_seconds": int(built) - int(started), "budget_seconds": int(budget), "passed": by["passed"],
                   "failed": by["failed"], "not_here": by["not here"],
                   "machine": [p for p in doctor.get("parts", []) if p["group"] in ("machine", "optional")],
                   "parts": parts}, file, indent=1)
        file.write("\n")
    said = ", ".join(f"{len(names)} {state}" for state, names in by.items())
    where = "on the shim, which is no GPU" if label != "cuda" else "on the GPU"
    print(f"\n{said} {where}, in {seconds} s of {budget}; {path}")
    return 1 if by["failed"] or not parts else 3 if by["not here"] else 0


if __name__ == "__main__":
    sys.exit({"found": found, "chains": chains, "table": report}[sys.argv[1]](*sys.argv[2:]))
