#!/usr/bin/env python3
"""ptx_lint.py [--selftest | --json FILE] NVCC ROOT FLAG...: is what nvcc makes of the kernels what the contract says?

Compiles every .cu file of the rooms kernels and faults to PTX for each architecture, with the FLAGs of
the build and no warning let pass, and that to machine code.
Refuses: flushed subnormals (.ftz), approximations (.approx, .full), float32 or float64 operations that ptxas may fuse (no
.rn), fma and tensor cores in a kernel whose source has none, min and max of floats (their NaN and zero are not
iq_max's), atomics on floats, and registers that are spilled to memory. Prints registers, shared memory and the like of
every kernel, and writes them to FILE. Ends with 0, 1 (refused), 77 (no nvcc).
"""
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ARCHES = ("80", "90", "100")
# Which fma a kernel's source writes, by the start of its name. A kernel that is not here may have none.
FMA = {"attention": {"f32", "f64"}, "combine": {"f32"}, "embed<Q4_1>": {"f32"},
       "grouped_matmul": {"f32"}, "matmul": {"f32"}, "products<Q4_1": {"f32"}, "rmsnorm": {"f32"}, "rope": {"f32"},
       "route": {"f64"}, "sample": {"f64"}, "swiglu": {"f64"}, "unpack<Q4_1": {"f32"}}
MMA = ("products",)  # kernels that are for tensor cores, likewise
WARNINGS = ("--Werror=all-warnings", "-Xcompiler=-Wall,-Wextra,-Werror")
FORMATS = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1")  # enum iq_format, a template's first argument
REFUSED = (
    (r"\.ftz\b", "flushes subnormals"),
    (r"\.approx\b|\bdiv\.full\b", "approximates"),
    (r"\b(add|sub|mul|mad)\.f(32|64)\b", "may be fused by ptxas: no .rn"),
    (r"\b(min|max)(\.\w+)*\.f(32|64)\b", "has its own rules for NaN and zero"),
    (r"\b(atom|red)(\.\w+)*\.f(16|32|64)\b", "adds floats in the order of arrival"),
)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def entries(ptx):
    """(mangled name, body) of each kernel."""
    for m in re.finditer(r"\.entry (\S+?)\((.*?)^}", ptx, re.S | re.M):
        yield m.group(1), m.group(2)


def short(mangled):
    """matmul<BF16, 8, 1, 8> of _ZN..."""
    name = run("c++filt", mangled).strip().replace("(anonymous namespace)::", "").removeprefix("void ")
    name = re.sub(r"\((?:unsigned )?int\)", "", name)
    name = re.sub(r"\(.*", "", name).strip()
    return re.sub(r"^(embed|grouped_matmul|matmul|products|unpack)<(\d)", lambda m: f"{m.group(1)}<{FORMATS[int(m.group(2))]}", name)


def lint(nvcc, root, flags, path, arch, work):
    """(problems, rows of the table) of one file for one architecture."""
    base = os.path.join(work, f"{os.path.relpath(path, root).replace(os.sep, '_')}.{arch}")
    run(nvcc, *flags, *WARNINGS, "-std=c++17", f"-I{root}", "-ptx", f"-arch=compute_{arch}", path, "-o", base + ".ptx")
    talk = run(nvcc, "-cubin", "-Xptxas=-v", f"-arch=sm_{arch}", base + ".ptx", "-o", base + ".cubin")
    problems, rows, names = [], [], {}
    for mangled, body in entries(open(base + ".ptx").read()):
        name = names[mangled] = short(mangled)
        where = f"{os.path.basename(path)} sm_{arch} {name}"
        for pattern, reason in REFUSED:
            line = next((l.strip() for l in body.splitlines() if re.search(pattern, l)), None)
            if line:
                problems.append(f"{where}: `{line}` {reason}")
        allowed = next((kinds for start, kinds in FMA.items() if name.startswith(start)), set())
        found = set(re.findall(r"\bfma\.\w+\.(f\d\d)\b", body))
        for kind in sorted(found - allowed):
            problems.append(f"{where}: fma of {kind}, which its source does not write")
        mma = re.search(r"\b(wg)?mma\.\S*|\btcgen05\.mma\S*", body)
        if mma and not name.startswith(MMA):
            problems.append(f"{where}: {mma.group()}, which its source does not ask for")
        for kind in sorted(allowed - found):
            problems.append(f"{where}: no fma of {kind}, though its source writes it")
    for m in re.finditer(r"Function properties for (\S+)\n\s*(\d+) bytes stack frame, (\d+) bytes spill stores, "
                         r"(\d+) bytes spill loads\n.*?Used (\d+) registers(.*)", talk):
        mangled, stack, stores, loads, registers, rest = m.groups()
        if mangled not in names:
            continue
        shared = re.search(r"(\d+) bytes smem", rest)
        rows.append({"file": os.path.relpath(path, root), "kernel": names[mangled], "arch": f"sm_{arch}",
                     "registers": int(registers), "shared_bytes": int(shared.group(1)) if shared else 0,
                     "stack_bytes": int(stack), "spill_stores": int(stores), "spill_loads": int(loads)})
        if int(stack) or int(stores) or int(loads):
            problems.append(f"{os.path.basename(path)} sm_{arch} {names[mangled]}: {stack} bytes of stack, {stores} spilled")
    if len(rows) != len(names):
        problems.append(f"{path} sm_{arch}: ptxas tells of {len(rows)} kernels, the PTX has {len(names)}")
    return problems, rows


def lint_all(nvcc, root, flags, paths, arches):
    with tempfile.TemporaryDirectory() as work, concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(lint, nvcc, root, flags, p, a, work) for p in paths for a in arches]
        done = [job.result() for job in jobs]
    return [p for problems, _ in done for p in problems], [r for _, rows in done for r in rows]


def table(rows, arches):
    """A line a kernel: registers and the rest for each architecture."""
    kernels = {}
    for r in rows:
        kernels.setdefault((r["file"], r["kernel"]), {})[r["arch"]] = r
    wide = max((len(kernel) for _, kernel in kernels), default=0)
    print(f"{'kernel':{wide}} " + " ".join(f"{'sm_' + a:>6}" for a in arches) + "  registers; shared bytes, stack, spilled")
    for (_, kernel), by in sorted(kernels.items()):
        rest = {f"{r['shared_bytes']} {r['stack_bytes']} {r['spill_stores'] + r['spill_loads']}" for r in by.values()}
        registers = (by["sm_" + a]["registers"] if "sm_" + a in by else "-" for a in arches)
        print(f"{kernel:{wide}} " + " ".join(f"{n:>6}" for n in registers) + "  " + "; ".join(sorted(rest)))


def sources(root):
    """Every CUDA file, in whatever folder of these rooms."""
    for room in ("kernels", "faults"):
        for folder, _, files in os.walk(os.path.join(root, room)):
            yield from (os.path.join(folder, f) for f in sorted(files) if f.endswith(".cu"))


def known(nvcc):
    codes = run(nvcc, "--list-gpu-code").split()
    return [a for a in ARCHES if f"sm_{a}" in codes]


BAD = (
    ("flushes subnormals", "y[0] = y[0] * y[1];", ["--fmad=false", "--ftz=true"]),
    ("approximates", "y[0] = __fdividef(y[0], y[1]);", None),
    ("approximates", "y[0] = y[0] / y[1];", ["--fmad=false", "--prec-div=false"]),
    ("does not write", "y[0] = y[0] * y[1] + y[2];", ["--fmad=true"]),
    ("may be fused", "y[0] = y[0] * y[1];", ["--fmad=true"]),
    ("does not write", "y[0] = __fmaf_rn(y[0], y[1], y[2]);", None),
    ("has its own rules", "y[0] = fmaxf(y[0], y[1]);", None),
    ("order of arrival", "atomicAdd(y, 1.0f);", None),
    ("does not ask for", 'asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%4},{%4},{%0,%1,%2,%3};" '
     ': "+f"(y[0]), "+f"(y[1]), "+f"(y[2]), "+f"(y[3]) : "r"(1));', None),
    ("bytes of stack", "float a[99]; for (int i = 0; i < 99; i++) a[i] = y[i]; a[(int)y[1]] = 0; y[0] = a[(int)y[2]];", None),
    ("never referenced", "int unused = 1;", None),
    ("", "y[0] = y[0] * y[1] + y[2];", None),
)


def selftest(nvcc, root, flags):
    bad = 0
    with tempfile.TemporaryDirectory() as work:
        for number, (reason, body, own) in enumerate(BAD):
            path = os.path.join(work, f"bad{number}.cu")
            with open(path, "w") as out:
                out.write(f"__global__ void bad{number}(float *y) {{ {body} }}\n")
            try:
                problems, _ = lint_all(nvcc, root, own or flags, [path], ARCHES[:1])
            except SystemExit as refused:
                problems = [str(refused)]
            if bool(reason) != any(reason in p for p in problems):
                print(f"`{body}` with {own or flags}: expected '{reason}', found {problems}")
                bad = 1
    return bad


def main(argv):
    option = argv[1] if argv[1:] and argv[1].startswith("--") else ""
    where = argv[2] if option == "--json" else None
    nvcc, root, *flags = argv[1 + bool(option) + bool(where):]
    if not shutil.which(nvcc):
        print(f"{nvcc}: no such program; the kernels' PTX was not looked at")
        return 77
    if option == "--selftest":
        return selftest(nvcc, root, flags)
    arches = known(nvcc)
    problems, rows = lint_all(nvcc, root, flags, sources(root), arches)
    table(rows, arches)
    if where:
        with open(where, "w") as file:
            json.dump({"report": "inquest-cuda", "version": 1, "flags": flags, "kernels": rows, "problems": problems}, file, indent=1)
            file.write("\n")
    for problem in problems:
        print(problem)
    return 1 if problems or not rows else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
