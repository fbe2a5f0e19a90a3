"""A GGUF model cut to its first layers: what is left keeps its bytes.

    python3 tests/engine/cut_model.py MODEL.gguf LAYERS OUT.gguf

`ARCH.block_count` becomes LAYERS and the tensors blk.LAYERS.* and above go; every other key, tensor description and
tensor stands in its order, with its bytes. The answers are another model's: it is for tests that need real weights of
real sizes and little time. Standard library only. One file, version 3, little endian.
"""
import struct
import sys

U32, STRING, ARRAY = 4, 8, 9
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes by type
BLOCK = 1 << 20


class Cursor:
    def __init__(self, file):
        self.file = file

    def take(self, n):
        data = self.file.read(n)
        if len(data) != n:
            sys.exit(f"{self.file.name}: offset {self.file.tell()}: the file ends here; expected {n - len(data)} bytes more")
        return data

    def number(self, kind):
        return struct.unpack("<" + kind, self.take(struct.calcsize("<" + kind)))[0]

    def text(self):
        return self.take(self.number("Q"))

    def skip_value(self, kind):
        if kind == STRING:
            self.text()
        elif kind == ARRAY:
            element, n = self.number("I"), self.number("Q")
            if element == STRING:
                for _ in range(n):
                    self.text()
            else:
                self.take(n * SIZES[element])
        else:
            self.take(SIZES[kind])


def read_keys(cursor, count, layers):
    """Each key with its value as bytes; the alignment of the data; how many layers there are."""
    keys, alignment, found = [], 32, None
    for _ in range(count):
        begin = cursor.file.tell()
        name, kind = cursor.text(), cursor.number("I")
        at = cursor.file.tell()
        cursor.skip_value(kind)
        end = cursor.file.tell()
        cursor.file.seek(begin)
        raw = cursor.take(end - begin)
        if name == b"general.alignment":
            alignment = struct.unpack("<I", raw[at - begin:])[0]
        if name.endswith(b".block_count"):
            if kind != U32:
                sys.exit(f"{cursor.file.name}: key `{name.decode()}` has type {kind}, expected u32 (4)")
            found = struct.unpack("<I", raw[at - begin:])[0]
            raw = raw[:at - begin] + struct.pack("<I", layers)
        keys.append(raw)
    return keys, alignment, found


def read_tensors(cursor, count):
    """[name, description without its offset, offset]"""
    tensors = []
    for _ in range(count):
        begin = cursor.file.tell()
        name, dims = cursor.text(), cursor.number("I")
        cursor.take(8 * dims + 4)  # sizes, type
        end = cursor.file.tell()
        offset = cursor.number("Q")
        cursor.file.seek(begin)
        tensors.append((name, cursor.take(end - begin), offset))
        cursor.file.seek(end + 8)
    return tensors


def kept(name, layers):
    return not name.startswith(b"blk.") or int(name.split(b".")[1]) < layers


def copy(source, at, n, out):
    source.seek(at)
    while n:
        data = source.read(min(n, BLOCK))
        if not data:
            sys.exit(f"{source.name}: offset {source.tell()}: the file ends inside a tensor; {n} bytes are missing")
        out.write(data)
        n -= len(data)


def aligned(n, to):
    return (n + to - 1) // to * to


def cut(source, layers, out):
    cursor = Cursor(source)
    magic, version = cursor.take(4), cursor.number("I")
    if magic != b"GGUF" or version != 3:
        sys.exit(f"{source.name}: found {magic!r} version {version}, expected a GGUF file of version 3")
    n_tensors, n_keys = cursor.number("Q"), cursor.number("Q")
    keys, alignment, found = read_keys(cursor, n_keys, layers)
    if found is None or not 1 <= layers <= found:
        sys.exit(f"{source.name}: has {found} layers; LAYERS may be 1 to that, found {layers}")
    tensors = read_tensors(cursor, n_tensors)
    data = aligned(source.tell(), alignment)
    source.seek(0, 2)
    # A tensor reaches to the next one: with its padding, so that its copy needs none.
    edges = sorted(t[2] for t in tensors) + [source.tell() - data]
    size = {a: b - a for a, b in zip(edges, edges[1:])}
    kept_tensors = [t for t in tensors if kept(t[0], layers)]

    head = [magic, struct.pack("<IQQ", version, len(kept_tensors), n_keys)] + keys
    at = 0
    for name, description, offset in kept_tensors:
        head += [description, struct.pack("<Q", at)]
        at += aligned(size[offset], alignment)
    head = b"".join(head)
    out.write(head + bytes(aligned(len(head), alignment) - len(head)))
    for name, description, offset in kept_tensors:
        copy(source, data + offset, size[offset], out)
        out.write(bytes(aligned(size[offset], alignment) - size[offset]))


def main():
    if len(sys.argv) != 4 or not sys.argv[2].isdigit():
        sys.exit(__doc__)
    with open(sys.argv[1], "rb") as source, open(sys.argv[3], "wb") as out:
        cut(source, int(sys.argv[2]), out)


if __name__ == "__main__":
    main()
