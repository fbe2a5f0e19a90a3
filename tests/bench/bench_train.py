#!/usr/bin/env python3
"""The trainer's speed beside PyTorch's, as ratios of alternating runs: the dense canary in float32, 16 rows of 128 tokens.

    bench_train.py --inquest BIN [--python PYTHON] [--repeats N] [--steps N] [--threads N ...] [--json FILE]

PYTHON is an interpreter that has torch, by default PEERS/venv/bin/python where shared/tools/peers/build.sh made PEERS with
TORCH=1; without one only inquest is measured. Both sides print a line every few steps; time and the process's CPU time are
taken from the first line to the last, so neither's start counts. inquest's part holds its data, digests and checkpoints;
PyTorch's has one batch, made beforehand, and heads only the rows that are predicted (inquest heads all).
A busy neighbour slows both sides' wall clock; tokens per second of CPU stand that, but count the waits of threads.
"""
import argparse, json, os, statistics, subprocess, sys, tempfile, time

ROWS, LENGTH, EVERY = 16, 128, 10
KINDS = ("sdpa", "written")  # torch's own attention; three batched products and a softmax


def peer(kind, threads, steps, m):
    """The model of `model info` in PyTorch. Runs under PYTHON."""
    import torch
    import torch.nn.functional as F

    vocab, hidden, heads, dim, ffn = (m[k] for k in ("vocab", "hidden", "heads", "head_dim", "ffn"))
    torch.set_num_threads(threads)
    torch.manual_seed(1)

    class Attention(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v):
            mask = torch.full((1, LENGTH, LENGTH), float("-inf")).triu(1)
            p = torch.softmax(torch.baddbmm(mask, q, k.transpose(1, 2), alpha=dim**-0.5), -1)
            ctx.save_for_backward(q, k, v, p)
            return torch.bmm(p, v)

        @staticmethod
        def backward(ctx, dy):
            q, k, v, p = ctx.saved_tensors
            dp = torch.bmm(dy, v.transpose(1, 2))
            ds = (dp - (dp * p).sum(-1, True)) * p * dim**-0.5
            return torch.bmm(ds, k), torch.bmm(ds.transpose(1, 2), q), torch.bmm(p.transpose(1, 2), dy)

    def matrix(n, k, deviation):
        return (torch.randn(n, k) * deviation).requires_grad_()

    def ones():
        return torch.ones(hidden, requires_grad=True)

    width = heads * dim  # as many KV heads
    blocks = [(ones(), matrix(3 * width, hidden, 0.0377), matrix(hidden, width, 0), ones(), matrix(2 * ffn, hidden, 0.0377),
               matrix(hidden, ffn, 0)) for _ in range(m["layers"])]
    embed, head, last = matrix(vocab, hidden, 1), matrix(vocab, hidden, 0.0377), ones()
    decayed = [w for b in blocks for w in b if w.dim() > 1]
    plain = [embed, head, last] + [w for b in blocks for w in b if w.dim() == 1]
    optimiser = torch.optim.AdamW([dict(params=decayed, weight_decay=0.1), dict(params=plain, weight_decay=0.0)], lr=1.4e-3,
                                  betas=(0.9, 0.95), eps=1e-8, fused=True)
    angle = torch.arange(LENGTH)[:, None] * 500000.0 ** (-torch.arange(0, dim, 2) / dim)
    cos, sin = angle.cos(), angle.sin()

    def turn(t):
        a, b = t[..., :dim // 2], t[..., dim // 2:]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def block(x, w):
        n1, qkv, out, n2, gate_up, down = w
        y = F.linear(F.rms_norm(x, (hidden,), n1, 1e-5), qkv).view(ROWS, LENGTH, 3, heads, dim)
        q, k, v = y.permute(2, 0, 3, 1, 4).unbind(0)
        q, k = turn(q), turn(k)
        if kind == "sdpa":
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            y = Attention.apply(*(t.reshape(ROWS * heads, LENGTH, dim) for t in (q, k, v))).view(ROWS, heads, LENGTH, dim)
        x = x + F.linear(y.transpose(1, 2).reshape(ROWS, LENGTH, width), out)
        gate, up = F.linear(F.rms_norm(x, (hidden,), n2, 1e-5), gate_up).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, down)

    ids = torch.randint(256, (ROWS, LENGTH))
    target = (torch.rand(ROWS, LENGTH - 1) < 0.3).flatten().nonzero()[:, 0]
    target = target // (LENGTH - 1) * LENGTH + target % (LENGTH - 1) + 1
    for step in range(1, steps + 1):
        x = embed[ids]
        for w in blocks:
            x = block(x, w)
        x = F.rms_norm(x, (hidden,), last, 1e-5).view(ROWS * LENGTH, hidden)[target - 1]
        loss = F.cross_entropy(F.linear(x, head), ids.flatten()[target])
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(decayed + plain, 1.0)
        optimiser.step()
        if step % EVERY == 0:
            print(json.dumps({"step": step, "loss": loss.item()}), flush=True)


def cpu_of(pid):
    with open("/proc/%d/stat" % pid) as f:
        v = f.read().rsplit(")", 1)[1].split()
    return (int(v[11]) + int(v[12])) / os.sysconf("SC_CLK_TCK")


def measure(command, **more):
    """Tokens per second, of time and of the process's CPU, from the first line to the last."""
    at = []
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder, **more)
        for line in process.stdout:
            row = json.loads(line)
            if "loss" in row:
                at.append((row["step"], time.monotonic(), cpu_of(process.pid)))
        if process.wait() or len(at) < 2:
            sys.exit("bench_train: `%s` failed or gave too few lines" % " ".join(command))
    tokens = (at[-1][0] - at[0][0]) * ROWS * LENGTH
    return tokens / (at[-1][1] - at[0][1]), tokens / (at[-1][2] - at[0][2])


def sizes(inquest):
    with tempfile.TemporaryDirectory() as folder:
        for command in (["train", "canary", "--steps", "1"], ["info", "canary.gguf", "--json"]):
            out = subprocess.run([inquest, "model", *command], stdout=subprocess.PIPE, text=True, check=True, cwd=folder).stdout
    return json.loads(out)


def main():
    peers = os.environ.get("PEERS")
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--inquest", required=True)
    p.add_argument("--python", default=peers and peers + "/venv/bin/python")
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--steps", type=int, default=5 * EVERY)
    p.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    p.add_argument("--json")
    a = p.parse_args()
    a.inquest = os.path.abspath(a.inquest)
    has_torch = bool(a.python) and subprocess.run([a.python, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0
    if not has_torch:
        print("no PyTorch (PEERS=DIR, made by TORCH=1 shared/tools/peers/build.sh): inquest alone", file=sys.stderr)
    # glibc gives large blocks back to the kernel after each use, which costs PyTorch a page fault for every page again.
    keep = dict(os.environ, MALLOC_MMAP_THRESHOLD_=str(1 << 30), MALLOC_TRIM_THRESHOLD_=str(1 << 34), MALLOC_TOP_PAD_=str(1 << 28))
    rows, model = [], json.dumps(sizes(a.inquest))
    print("%-8s %-14s %9s %11s" % ("threads", "trainer", "tok/s", "tok/CPU s"))
    for threads in a.threads:
        runs = {"inquest": lambda: measure([a.inquest, "model", "train", "canary", "--json", "--threads", str(threads),
                                            "--steps", str(a.steps), "--every", str(EVERY)])}
        for kind in KINDS if has_torch else ():
            runs["torch " + kind] = lambda kind=kind: measure(
                [a.python, os.path.abspath(__file__), "--peer", kind, str(threads), str(a.steps), model], env=keep)
        got = {name: [] for name in runs}
        for _ in range(a.repeats):
            for name, one in runs.items():
                got[name].append(one())
        best = {name: [max(x[i] for x in v) for i in (0, 1)] for name, v in got.items()}
        for name, (wall, cpu) in best.items():
            ratio = ["%.2f" % (best["inquest"][i] / best[name][i]) for i in (0, 1)]
            print("%-8d %-14s %9.0f %11.0f  %s" % (threads, name, wall, cpu, "" if name == "inquest" else
                  "inquest is %s times as fast, %s by CPU time" % tuple(ratio)), flush=True)
            rows.append({"threads": threads, "trainer": name, "tok_s": wall, "tok_cpu_s": cpu,
                         "median": [statistics.median(x[i] for x in got[name]) for i in (0, 1)]})
    if a.json:
        with open(a.json, "w") as f:
            json.dump(rows, f, indent=1)


if sys.argv[1:2] == ["--peer"]:
    peer(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), json.loads(sys.argv[5]))
else:
    main()
