#!/usr/bin/env python3
"""Trials a minute of a campaign: a bit of one activation upset, SmolLM2, a prompt of 128 tokens.

    bench_campaign.py --inquest BIN [--model M.gguf] [--jobs N] [--scale X] [--peers DIR] [--memory] [--json FILE]

one-step     the fault strikes one row in the step that the trial is judged by
prompt       the same, at a position of the prompt that is drawn: all positions behind it are computed again
32-token     the fault strikes in one step of 32, and the answer is judged
Beside them: the same runs from process start (`inquest run --plan`), and PyTorch with forward hooks where DIR is what
shared/tools/peers/build.sh made with TORCH=1 (bfloat16; the fault at a drawn position of the prompt, or in a drawn step).
Each rate is over the difference of a long and a short campaign, so that opening the model and golden's run are left out, and
is printed twice: by the wall clock, and by the processor time of all its processes, spread over N cores, which a busy
neighbour does not change. --memory: the proportional set size of all processes with one worker and with four.
"""
import argparse, json, os, resource, subprocess, sys, tempfile, time


def plan(kind, trials, prompts):
    upset = {"op": {"choose": ["qkv", "attn_out", "gate_up", "down"]}, "variant": "matmul_upset",
             "params": {"bit": {"draw": [0, 31]}, "seed": {"draw": [0, 999999]}}}
    when = {"layer": {"draw": [0, 29]}}
    if kind == "one-step":
        when["step"] = 1
    elif kind == "prompt":
        when["step"] = 0
    else:
        when["step"] = {"draw": [1, 31]}
    upset["when"] = when
    return {"faults": [upset], "tokens": {"one-step": 2, "prompt": 1}.get(kind, 32), "repetitions": trials, "seed": 1,
            "prompts": prompts}


def campaign(a, folder, kind, trials, jobs):
    """Wall seconds and processor seconds of a whole campaign, and of its trials alone by its own clock."""
    path, store = os.path.join(folder, "plan.json"), os.path.join(folder, "S-%s-%d-%d" % (kind, trials, jobs))
    with open(path, "w") as f:
        json.dump(plan(kind, trials, "p128.jsonl"), f)
    r0, t0 = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    out = subprocess.run([a.inquest, "campaign", path, "--store", store, "--jobs", str(jobs), "--json"] + a.model_flag,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
    r1 = resource.getrusage(resource.RUSAGE_CHILDREN)
    made = json.loads(out)
    assert made["done"] == trials, made
    return time.time() - t0, r1.ru_utime + r1.ru_stime - r0.ru_utime - r0.ru_stime, made["aboard"]


def rate(a, folder, kind, few, many):
    w0, c0, _ = campaign(a, folder, kind, few, a.jobs)
    w1, c1, aboard = campaign(a, folder, kind, many, a.jobs)
    n = many - few
    return {"kind": kind, "trials": many, "aboard": aboard, "per_min_wall": round(60 * n / max(w1 - w0, 1e-9), 1),
            "per_min_cpu": round(60 * n * a.jobs / max(c1 - c0, 1e-9), 1)}


def rerun(a, folder, kind, times):
    """A whole run from process start, with the fault."""
    p = plan(kind, 1, None)
    fault = json.loads(json.dumps(p["faults"][0]).replace('{"choose": ["qkv", "attn_out", "gate_up", "down"]}', '"down"'))
    fault["params"], fault["when"]["layer"] = {"bit": 20, "seed": 1}, 15
    if isinstance(fault["when"]["step"], dict):
        fault["when"]["step"] = 16
    path = os.path.join(folder, "run.json")
    with open(path, "w") as f:
        json.dump({"faults": [fault]}, f)
    r0, t0 = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    for _ in range(times):
        subprocess.run([a.inquest, "run", "--plan", path, "--prompts", os.path.join(folder, "p128.jsonl"), "--max-tokens",
                        str(p["tokens"]), "--threads", str(a.jobs)] + a.model_flag, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=True)
    r1 = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = r1.ru_utime + r1.ru_stime - r0.ru_utime - r0.ru_stime
    return {"kind": "rerun " + kind, "per_min_wall": round(60 * times / (time.time() - t0), 1),
            "per_min_cpu": round(60 * times * a.jobs / cpu, 1)}


def family(pid):
    out, kids = [pid], {}
    for d in os.listdir("/proc"):
        if d.isdigit():
            try:
                with open("/proc/%s/stat" % d) as f:
                    kids.setdefault(int(f.read().rsplit(")", 1)[1].split()[1]), []).append(int(d))
            except OSError:
                pass
    for p in out:
        out += kids.get(p, [])
    return out


def memory(a, folder, jobs):
    """Largest sum of proportional set sizes while a campaign runs, in MiB."""
    path = os.path.join(folder, "memory.json")
    with open(path, "w") as f:
        json.dump(plan("one-step", 400 * jobs, "p128.jsonl"), f)
    p = subprocess.Popen([a.inquest, "campaign", path, "--store", os.path.join(folder, "M%d" % jobs), "--jobs", str(jobs)] +
                         a.model_flag, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    most = 0
    while p.poll() is None:
        total = 0
        for pid in family(p.pid):
            try:
                with open("/proc/%d/smaps_rollup" % pid) as f:
                    total += sum(int(l.split()[1]) for l in f if l.startswith("Pss:"))
            except OSError:
                pass
        most = max(most, total)
        time.sleep(0.1)
    return most / 1024


def torch(a, mode, seconds):
    python, script = a.peers + "/venv/bin/python", a.peers + "/py/campaign.py"
    model = a.peers + "/models/SmolLM2-135M-Instruct.BF16.gguf"
    out = subprocess.run([python, script, model, "bf16", mode, str(seconds), str(a.jobs)], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, text=True, check=True).stdout
    row = json.loads(out.splitlines()[-1])
    return {"kind": "PyTorch hooks, " + mode, "per_min_wall": row["per_min"]}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--inquest", required=True)
    p.add_argument("--model", help="default: the cached SmolLM2")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--scale", type=float, default=1, help="of the numbers of trials")
    p.add_argument("--peers", default=os.environ.get("PEERS"))
    p.add_argument("--ids", help="a JSON list of token ids, the first 128 are the prompt; default: made up")
    p.add_argument("--memory", action="store_true")
    p.add_argument("--json")
    a = p.parse_args()
    if not a.model:
        a.model = subprocess.run([a.inquest, "model", "fetch", "smollm2"], stdout=subprocess.PIPE, text=True,
                                 check=True).stdout.strip()
    a.model_flag = ["--model", a.model]
    rows = []

    def show(row):
        rows.append(row)
        print("%-24s %10.1f /min by the clock%s" % (row["kind"], row["per_min_wall"], "  %10.1f /min by processor time"
              % row["per_min_cpu"] if "per_min_cpu" in row else ""), flush=True)
        return row

    with tempfile.TemporaryDirectory() as folder:
        ids = json.load(open(a.ids))[:128] if a.ids else [(i * 977 + 31) % 40000 + 100 for i in range(128)]
        with open(os.path.join(folder, "p128.jsonl"), "w") as f:
            f.write(json.dumps({"id": "p", "ids": ids, "ignore_stop": True}) + "\n")
        n = lambda x: max(8, int(x * a.scale))
        one = show(rate(a, folder, "one-step", n(256), n(1280)))
        show(rate(a, folder, "prompt", n(16), n(80)))
        long = show(rate(a, folder, "32-token", n(64), n(320)))
        first, whole = show(rerun(a, folder, "one-step", n(8))), show(rerun(a, folder, "32-token", n(8)))
        for row, base, least in ((one, first, 100), (long, whole, 30)):
            ratio = row["per_min_cpu"] / base["per_min_cpu"]
            print("    goal: %s at least %d times a rerun: %.0f, %s" % (row["kind"], least, ratio,
                  "reached" if ratio >= least else "not reached"))
        if a.peers and os.path.exists(a.peers + "/py/campaign.py") and os.path.exists(a.peers + "/venv/bin/python"):
            for mode, row in (("step", one), ("loop", long)):
                ratio = row["per_min_wall"] / show(torch(a, mode, 20))["per_min_wall"]
                print("    goal: %s at least 10 times: %.1f, %s" % (row["kind"], ratio, "reached" if ratio >= 10 else "not reached"))
        else:
            print("no PyTorch (PEERS=DIR, made by shared/tools/peers/build.sh with TORCH=1): inquest alone", file=sys.stderr)
        if a.memory:
            m1, m4 = memory(a, folder, 1), memory(a, folder, 4)
            rows.append({"kind": "memory", "one_mib": m1, "four_mib": m4})
            print("memory: one worker %.0f MiB, four %.0f MiB: %.2f times (goal: at most 1.5)" % (m1, m4, m4 / m1))
    if a.json:
        with open(a.json, "w") as f:
            json.dump(rows, f, indent=1)


main()
