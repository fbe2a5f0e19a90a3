#!/usr/bin/env python3
"""ptx_lint.py [--selftest] NVCC ROOT FLAG...: is what nvcc makes of the kernels what the arithmetic contract says?

Compiles every kernels/cuda/*.cu with kernels in it to PTX for each architecture, with the FLAGs of the build, and
that to machine code.
Refuses: flushed subnormals (.ftz), approximations (.approx, .full), float32 or float64 operations that ptxas may fuse (no
.rn), fma in a kernel whose source has none, min and max of floats (their NaN and zero are not iq_max's), atomics on
floats, and registers that are spilled to memory. Prints registers, shared memory and the like of every kernel.
Ends with 0, 1 (refused), 77 (no nvcc).
"""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

ARCHES = ("80", "90", "100")
# Which fma a kernel's source writes, by the start of its name. A kernel that is not here may have none.
FMA = {"attention": {"f32", "f64"}, "embed<Q4_1>": {"f32"}, "matmul": {"f32"}, "rmsnorm": {"f32"}, "rope": {"f32"},
       "sample": {"f64"}, "swiglu": {"f64"}}
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
    return re.sub(r"^(embed|matmul)<(\d)", lambda m: f"{m.group(1)}<{FORMATS[int(m.group(2))]}", name)


def lint(nvcc, root, flags, path, arch, work):
    """(problems, rows of the table) of one file for one architecture."""
    base = os.path.join(work, f"{os.path.basename(path)}.{arch}")
    run(nvcc, *flags, "-std=c++17", f"-I{root}", "-ptx", f"-arch=compute_{arch}", path, "-o", base + ".ptx")
    ptxas = os.path.join(os.path.dirname(shutil.which(nvcc)), "ptxas")
    talk = run(ptxas if os.path.exists(ptxas) else "ptxas", "-v", f"-arch=sm_{arch}", base + ".ptx", "-o", base + ".cubin")
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
        for kind in sorted(allowed - found):
            problems.append(f"{where}: no fma of {kind}, though its source writes it")
    for m in re.finditer(r"Function properties for (\S+)\n\s*(\d+) bytes stack frame, (\d+) bytes spill stores, "
                         r"(\d+) bytes spill loads\n.*?Used (\d+) registers(.*)", talk):
        mangled, stack, stores, loads, registers, rest = m.groups()
        if mangled not in names:
            continue
        shared = re.search(r"(\d+) bytes smem", rest)
        rows.append((names[mangled], arch, int(registers), int(shared.group(1)) if shared else 0, int(stack), int(stores)))
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


def table(rows):
    """A line a kernel: registers and the rest for each architecture."""
    kernels = {}
    for name, arch, registers, shared, stack, spilled in rows:
        kernels.setdefault(name, {})[arch] = (registers, shared, stack, spilled)
    print(f"{'kernel':28} " + " ".join(f"{'sm_' + a:>8}" for a in ARCHES) + "   registers; shared bytes, stack, spilled")
    for name in sorted(kernels):
        by = kernels[name]
        rest = "; ".join(f"{s} {k} {p}" for s, k, p in sorted({v[1:] for v in by.values()}))
        print(f"{name:28} " + " ".join(f"{by[a][0] if a in by else '-':>8}" for a in ARCHES) + f"   {rest}")


BAD = (
    ("flushes subnormals", "y[0] = y[0] * y[1];", ["--fmad=false", "--ftz=true"]),
    ("approximates", "y[0] = __fdividef(y[0], y[1]);", None),
    ("approximates", "y[0] = y[0] / y[1];", ["--fmad=false", "--prec-div=false"]),
    ("does not write", "y[0] = y[0] * y[1] + y[2];", ["--fmad=true"]),
    ("may be fused", "y[0] = y[0] * y[1];", ["--fmad=true"]),
    ("does not write", "y[0] = __fmaf_rn(y[0], y[1], y[2]);", None),
    ("has its own rules", "y[0] = fmaxf(y[0], y[1]);", None),
    ("order of arrival", "atomicAdd(y, 1.0f);", None),
    ("bytes of stack", "float a[99]; for (int i = 0; i < 99; i++) a[i] = y[i]; a[(int)y[1]] = 0; y[0] = a[(int)y[2]];", None),
    ("", "y[0] = y[0] * y[1] + y[2];", None),
)


def selftest(nvcc, root, flags):
    bad = 0
    with tempfile.TemporaryDirectory() as work:
        for number, (reason, body, own) in enumerate(BAD):
            path = os.path.join(work, f"bad{number}.cu")
            with open(path, "w") as out:
                out.write(f"__global__ void bad{number}(float *y) {{ {body} }}\n")
            problems, _ = lint_all(nvcc, root, own or flags, [path], ARCHES[:1])
            if bool(reason) != any(reason in p for p in problems):
                print(f"`{body}` with {own or flags}: expected '{reason}', found {problems}")
                bad = 1
    return bad


def main(argv):
    own = argv[1:] and argv[1] == "--selftest"
    nvcc, root, *flags = argv[1 + own:]
    if not shutil.which(nvcc):
        print(f"{nvcc}: no such program; the kernels' PTX was not looked at")
        return 77
    if own:
        return selftest(nvcc, root, flags)
    folder = os.path.join(root, "kernels", "cuda")
    paths = [os.path.join(folder, f) for f in sorted(os.listdir(folder))
             if f.endswith(".cu") and "__global__" in open(os.path.join(folder, f)).read()]
    problems, rows = lint_all(nvcc, root, flags, paths, ARCHES)
    table(rows)
    for problem in problems:
        print(problem)
    return 1 if problems or not rows else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
