"""Kernels of one's own in Python (NumPy, PyTorch, Triton) under inquest.

    from inquest_kernel import kernel, serve

    @kernel("rmsnorm", what="one sum over the row")
    def my_norm(x, weight, eps):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight

    serve()

A plan starts it and puts it in place of an op:
    {"libraries": [{"process": ["python3", "mine.py"]}], "faults": [{"op": "ffn_norm", "variant": "my_norm"}]}

Kinds and their operands, by name, are those of inquest/kernel.h in lower case: matmul (x, w, bias; format, unit),
rmsnorm (x, weight; eps), topk (logits; shards), attention (q, k, v, seq; scale, window), rope (q, k, pos, table; rotary,
interleaved), all_reduce (x, piece), swiglu (gate, up), add (a, b). A kernel is given those that its signature names, its own
parameters, and `call` if it asks for it (op, layer, rank, step, batch, rows, act, kind). `topk` may ask for `k`.

Operands are NumPy arrays (float32 or uint32; absent ones None) over shared memory: read-only, valid until it returns. It
returns the output, or a tuple of them: arrays of exactly the right shape and type, which are checked; or DECLINED, and the
reference computes this call. An exception ends the trial as crashed, with the exception in the finding.
With raw=True operands are memoryviews instead, for torch.frombuffer or where there is no NumPy, and a kernel fills its
outputs itself: they are given by name (y; ids, values; q_out, k_out), like the inputs.

The protocol is written down in harness/kernel/wire.h of inquest's sources: descriptor 3 is a socket of packets, 4 to 6 are
memory. What a kernel prints goes to standard error.
"""

import inspect
import json
import mmap
import os
import re
import socket
import struct
import sys
import traceback

DECLINED = object()
ABI, MAGIC = 1, 0x6B6E7169
SOCKET, AREAS, N_AREAS = 3, 4, 3
ANSWERED, DECLINE, FAILED = 0, 1, 2
FLAGS = {"benign": 1, "faulty": 2, "golden": 4, "packed": 8}
TYPES = {1: ("f", "float32"), 2: ("I", "uint32"), 3: ("B", "uint8")}
N_IN, N_OUT, N_SCALARS, N_PARAMS, NO_LAYER = 4, 2, 2, 16, 0xFFFFFFFF
CALL = struct.Struct(f"<12I{1 + N_AREAS}Q32s{N_SCALARS + N_PARAMS}d")
OPERAND = struct.Struct("<4I9Q")

_kernels = []


def kernel(kind, name=None, what=None, flags="benign", params=None, raw=False):
    """Registers a function as a kernel of `kind`. flags: words of benign, faulty, golden, packed. params: {name: (default,
    min, max, help)}, numbers that a plan may set; the function is given them by name."""

    def register(function):
        bits = 0
        for word in flags.replace(",", " ").split():
            if word not in FLAGS:
                raise ValueError(f"kernel {name or function.__name__}: flags are {', '.join(FLAGS)}, found {word!r}")
            bits |= FLAGS[word]
        _kernels.append(
            {
                "kind": kind,
                "name": name or function.__name__,
                "what": what,
                "flags": bits,
                "params": dict(params or {}),
                "function": function,
                "raw": raw,
            }
        )
        return function

    return register


class Call:
    """Where a call runs."""

    def __init__(self, kind, op, fields, step):
        self.kind, self.op, self.step = kind, op, step
        self.layer, self.rank, self.batch, self.rows, self.act = fields
        if self.layer == NO_LAYER:
            self.layer = None


def _listing():
    entries = []
    for k in _kernels:
        params = []
        for name, value in k["params"].items():
            default, low, high, help_text = (tuple(value) + ("",))[:4]
            params.append({"name": name, "help": help_text, "default": default, "min": low, "max": high})
        entries.append({"kind": k["kind"], "name": k["name"], "what": k["what"], "flags": k["flags"], "params": params})
    return {"abi": ABI, "kernels": entries}


class _Memory:
    """The areas, mapped as far as they reach now."""

    def __init__(self):
        self.maps = [None] * N_AREAS

    def view(self, sizes):
        for i, size in enumerate(sizes):
            if self.maps[i] is None or len(self.maps[i]) != size:
                prot = mmap.PROT_READ | (mmap.PROT_WRITE if i == N_AREAS - 1 else 0)
                # The map before goes when the last array over it has gone.
                self.maps[i] = mmap.mmap(AREAS + i, size, mmap.MAP_SHARED, prot)
        return self.maps


def _rows(maps, operand):
    """The operand's bytes as a flat memoryview of elements, its shape and its strides in elements."""
    area, dtype, dims, present, at = operand[:5]
    if not present:
        return None
    shape, stride = operand[5 : 5 + dims], operand[9 : 9 + dims]
    size = 1 if dtype == 3 else 4
    span = 1 + sum((n - 1) * s for n, s in zip(shape, stride)) if all(shape) else 0
    flat = memoryview(maps[area])[at : at + span * size].cast(TYPES[dtype][0])
    return flat, tuple(shape), tuple(stride), dtype, size


def _array(rows):
    import numpy

    if rows is None:
        return None
    flat, shape, stride, dtype, size = rows
    whole = numpy.frombuffer(flat, dtype=TYPES[dtype][1]) if len(flat) else numpy.empty(0, TYPES[dtype][1])
    return numpy.lib.stride_tricks.as_strided(whole, shape, [s * size for s in stride], writeable=flat.readonly is False)


def _check(name, found, want):
    import numpy

    if not isinstance(found, numpy.ndarray):
        raise TypeError(f"{name}: returned {type(found).__name__}, expected an array of {want.dtype} {want.shape}")
    if found.shape != want.shape:
        raise ValueError(f"{name}: returned shape {found.shape}, expected {want.shape}")
    if found.dtype != want.dtype:
        raise TypeError(f"{name}: returned {found.dtype}, expected {want.dtype}")


def _wanted(function, given):
    named = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in named):
        return given
    missing = [p.name for p in named if p.name not in given and p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    if missing:
        raise TypeError(f"asks for {', '.join(missing)}; there are {', '.join(given)}")
    return {p.name: given[p.name] for p in named if p.name in given}


def _run(kinds, memory, packet):
    head = CALL.unpack_from(packet)
    magic, index, _, _, _, n_params = head[:6]
    if magic != MAGIC or index >= len(_kernels):
        raise RuntimeError("a call that is none: this module is another version than inquest")
    sizes, rest = head[13 : 13 + N_AREAS], head[13 + N_AREAS :]
    op, scalars, params = rest[0].split(b"\0")[0].decode(), rest[1 : 1 + N_SCALARS], rest[1 + N_SCALARS :]
    k = _kernels[index]
    names = kinds[k["kind"]]
    maps = memory.view(sizes)
    rows = [_rows(maps, OPERAND.unpack_from(packet, CALL.size + i * OPERAND.size)) for i in range(N_IN + N_OUT)]
    outs = rows[N_IN : N_IN + len(names["out"])]
    given = dict(zip(names["scalars"], scalars))
    given.update(zip(k["params"], params[:n_params]))
    given["call"] = Call(k["kind"], op, head[6:11], head[12])
    if k["kind"] == "topk":
        given["k"] = outs[0][1][1]
    if k["raw"]:
        for name, r in list(zip(names["in"], rows)) + list(zip(names["out"], outs)):
            given[name] = r and Raw(*r[:3])
        return DECLINED if k["function"](**_wanted(k["function"], given)) is DECLINED else None
    given.update((name, _array(r)) for name, r in zip(names["in"], rows))
    found = k["function"](**_wanted(k["function"], given))
    if found is DECLINED:
        return DECLINED
    if not isinstance(found, tuple):
        found = (found,)
    if len(found) != len(outs):
        raise ValueError(f"returned {len(found)} outputs, expected {len(outs)}: {', '.join(names['out'])}")
    views = [_array(r) for r in outs]
    for name, f, view in zip(names["out"], found, views):
        _check(name, f, view)
    for f, view in zip(found, views):
        view[...] = f
    return None


class Raw:
    """An operand without NumPy: `data`, a memoryview of elements, with `shape` and `stride` (elements)."""

    def __init__(self, data, shape, stride):
        self.data, self.shape, self.stride = data, shape, stride


def _answer(sock, status, why=""):
    text = re.sub(r"\s+", " ", why).encode("utf-8", "replace")[:500]
    sock.send(struct.pack("<2I504s", MAGIC, status, text))


def serve():
    """Answers calls until inquest has no more. The last line of a file of kernels."""
    if os.environ.get("INQUEST_KERNEL") != "1":
        sys.exit(
            f"{sys.argv[0]} holds kernels for inquest: name it in a plan, "
            f'{{"libraries": [{{"process": ["python3", "{sys.argv[0]}"]}}], "faults": [...]}}'
        )
    assert CALL.size + (N_IN + N_OUT) * OPERAND.size == 784
    sock, memory = socket.socket(fileno=SOCKET), _Memory()
    kinds = json.loads(sock.recv(1 << 16))["kinds"]
    sock.send(json.dumps(_listing(), allow_nan=False).encode())
    while True:
        packet = sock.recv(1 << 16)
        if not packet:
            return
        try:
            _answer(sock, DECLINE if _run(kinds, memory, packet) is DECLINED else ANSWERED)
        except Exception as error:  # pylint: disable=broad-except  # a finding, whatever it is
            traceback.print_exc()
            _answer(sock, FAILED, f"raised {type(error).__name__}: {error}")
