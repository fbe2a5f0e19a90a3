#!/usr/bin/env python3
"""The whole model's speed beside llama.cpp's, as ratios within one run.

    bench.py --inquest BIN --bench-engine BIN [--model M.gguf] [--peers DIR] [--repeats N] [--threads N ...] [--json FILE]

inquest computes the file's weights exactly; llama.cpp runs the same weights as F32, BF16 and Q4_1 (the last two round
activations). Runs of the two alternate. A busy neighbour slows llama.cpp's spin barriers several times, so each run
tells how many cores other processes took ("foreign"), and one above 0.06 is repeated once, then marked.
DIR is what shared/tools/peers/build.sh made; without it only inquest is measured. The shares are of the machine's own
peaks in the same run (inquest doctor --measure): multiply-adds of all products, bytes of all weights at batch 1.
"""
import argparse, json, os, resource, statistics, subprocess, sys, time

QUIET, TRIES = 0.06, 2
TESTS = {"decode_1": "decode, batch 1", "decode_32": "decode, batch 32", "prefill_512": "prefill of 512"}
GOALS = {  # (test, threads) -> [(peers, least ratio)]
    ("decode_1", 1): [("any", 2.0)], ("decode_1", 2): [("any", 2.0)],
    ("decode_32", 1): [("any", 1.4)], ("decode_32", 2): [("any", 2.0)],
    ("prefill_512", 1): [("f32", 1.8), ("bf16", 1.1)], ("prefill_512", 2): [("f32", 1.8), ("bf16", 1.1)],
}


def busy():
    with open("/proc/stat") as f:
        v = [int(x) for x in f.readline().split()[1:9]]
    return (sum(v) - v[3] - v[4]) / os.sysconf("SC_CLK_TCK")


def run(command):
    """Output lines that are JSON, and the cores that others took meanwhile."""
    for _ in range(TRIES):
        b0, r0, t0 = busy(), resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
        try:
            out = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=400).stdout
        except subprocess.TimeoutExpired as e:
            out = (e.stdout or b"").decode()
        r1, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.time() - t0
        own = r1.ru_utime + r1.ru_stime - r0.ru_utime - r0.ru_stime
        foreign = max(0.0, busy() - b0 - own) / wall
        if foreign <= QUIET:
            break
    return [json.loads(l) for l in out.splitlines() if l.startswith("{")], round(foreign, 3)


def inquest(a, threads):
    """{test: row}; the row with the chain on, the rate without it beside."""
    rows, foreign = run([a.bench_engine, a.model, str(a.repeats), str(threads)])
    out = {}
    for r in rows:
        row = out.setdefault(r["test"], {"peer": "inquest", "test": r["test"], "threads": threads, "foreign": foreign})
        row["tok_s" if r["chain"] else "tok_s_no_chain"] = r["best"]
        row["median" if r["chain"] else "median_no_chain"] = r["tok_s"]
    return out


def work(a):
    """Multiply-adds of a token in the layers and in the head, and bytes of all weights."""
    m = json.loads(subprocess.run([a.inquest, "model", "info", a.model, "--json"], stdout=subprocess.PIPE, check=True).stdout)
    q, kv = m["heads"] * m["head_dim"], m["kv_heads"] * m["head_dim"]
    layer = m["hidden"] * (2 * q + 2 * kv + 3 * m["ffn"])
    return m["layers"] * layer, m["hidden"] * m["vocab"], sum(f["bytes"] for f in m["files"])


def peaks(a):
    """Best of three of what this machine can do: {(threads, "fma"): FLOP/s, (threads, "read"): bytes/s}."""
    best = {}
    for _ in range(3):
        d = json.loads(subprocess.run([a.inquest, "doctor", "--measure", "--json"], stdout=subprocess.PIPE, check=True).stdout)
        m = d["measured"]
        for key, lists, unit in (("fma", list(m["fma_gflops"].values()), 1e9), ("read", [m["read_gb_per_s"]], 1e9)):
            for i, threads in enumerate((1, m["threads"])):
                best[threads, key] = max([best.get((threads, key), 0)] + [l[i] * unit for l in lists])
    return best


def share(test, threads, tok_s, macs, peak):
    layers, head, bytes_ = macs
    flops = 2 * tok_s * (layers + (head / 512 if test == "prefill_512" else head))
    fma, read = peak.get((threads, "fma"), 0), peak.get((threads, "read"), 0)
    return flops / fma if fma else 0, tok_s * bytes_ / read if read and test == "decode_1" else 0


def llama(a, weights, test, threads):
    model = "%s/models/SmolLM2-135M-Instruct.%s.gguf" % (a.peers, weights.upper())
    row = {"peer": "llama.cpp", "weights": weights, "test": test, "threads": threads}
    if test == "decode_32":
        best = None
        for fa in ("off", "on"):
            rows, foreign = run([a.peers + "/bin/llama-batched-bench", "-m", model, "-t", str(threads), "-tb", str(threads),
                                 "-c", "6400", "-b", "2048", "-ub", "512", "-npp", "128", "-ntg", "64", "-npl", "32",
                                 "-fa", fa, "--output-format", "jsonl"])
            speed = max([r.get("speed_tg", 0) for r in rows] or [0])
            if best is None or speed > best[0]:
                best = (speed, foreign)
        return {**row, "tok_s": round(best[0], 1), "foreign": best[1]}
    shape = ["-p", "512", "-n", "0"] if test == "prefill_512" else ["-p", "0", "-n", "128"]
    rows, foreign = run([a.peers + "/bin/llama-bench", "-m", model, "-t", str(threads), *shape, "-r", str(a.repeats),
                         "--delay", "0", "-o", "jsonl"])
    speeds = [s for r in rows for s in r.get("samples_ts", [])]
    return {**row, "tok_s": round(max(speeds), 1) if speeds else 0,
            "tok_s_median": round(statistics.median(speeds), 1) if speeds else 0, "foreign": foreign}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--inquest", required=True)
    p.add_argument("--bench-engine", required=True)
    p.add_argument("--model", help="default: the cached SmolLM2")
    p.add_argument("--peers", default=os.environ.get("PEERS"))
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    p.add_argument("--json")
    a = p.parse_args()
    if not a.model:
        a.model = subprocess.run([a.inquest, "model", "fetch", "smollm2"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    has_peers = bool(a.peers and os.path.exists(a.peers + "/bin/llama-bench"))
    if not has_peers:
        print("no llama.cpp (PEERS=DIR, made by shared/tools/peers/build.sh): inquest alone", file=sys.stderr)
    macs, peak, rows, ratios = work(a), peaks(a), [], []
    for (threads, what), v in sorted(peak.items()):
        print("%d thread%s: %s" % (threads, "s" * (threads > 1),
              "%.0f GFLOP/s of multiply-adds" % (v / 1e9) if what == "fma" else "%.1f GB/s of reads" % (v / 1e9)))
    print("%-17s %7s %8s %6s %6s %7s  %s" % ("test", "threads", "tok/s", "of FMA", "of read", "chain", "llama.cpp f32, bf16, q4_1: tok/s (ratio)"))
    for threads in a.threads:
        ours = inquest(a, threads)
        theirs = {t: [llama(a, w, t, threads) for w in ("f32", "bf16", "q4_1")] if has_peers else [] for t in TESTS}
        for test, row in ours.items():
            row["fma_share"], row["read_share"] = share(test, threads, row["tok_s"], macs, peak)
            row["chain_cost"] = 1 - row["tok_s"] / row["tok_s_no_chain"]
            rows += [row] + theirs[test]
            show = []
            for t in theirs[test]:
                ratio = row["tok_s"] / t["tok_s"] if t["tok_s"] else 0
                ratios.append({"test": test, "threads": threads, "peer": t["weights"], "ratio": round(ratio, 3)})
                show.append("%.0f (%.2f)%s" % (t["tok_s"], ratio, "" if t["foreign"] <= QUIET else "!"))
            print("%-17s %7d %8.1f %5.0f%% %6s %6.1f%%  %s%s" % (
                TESTS[test], threads, row["tok_s"], 100 * row["fma_share"],
                "%.0f%%" % (100 * row["read_share"]) if row["read_share"] else "", 100 * row["chain_cost"], ", ".join(show),
                "" if row["foreign"] <= QUIET else "  (inquest's run was disturbed)"), flush=True)
            for peer, least in GOALS[test, threads] if has_peers else []:
                got = min(r["ratio"] for r in ratios
                          if (r["test"], r["threads"]) == (test, threads) and peer in ("any", r["peer"]))
                print("    goal: at least %.1f times %s: %.2f, %s" % (least, "the fastest" if peer == "any" else peer.upper(), got,
                      "reached" if got >= least else "not reached"), flush=True)
    if a.json:
        with open(a.json, "w") as f:
            json.dump({"peaks": {"%s, %d threads" % (w, t): v for (t, w), v in peak.items()}, "rows": rows, "ratios": ratios}, f, indent=1)


main()
