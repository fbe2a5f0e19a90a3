"""An example of kernels in NumPy: a plain rmsnorm, and one that is wrong when the number of rows is odd."""

import numpy as np
from inquest_kernel import DECLINED, kernel, serve


@kernel("rmsnorm", what="one sum over the row, in double")
def numpy_norm(x, weight, eps):
    mean = (x.astype(np.float64) ** 2).mean(-1, keepdims=True)
    return (x / np.sqrt(mean + eps) * weight).astype(np.float32)


@kernel("rmsnorm", what="an odd number of rows takes other weights", flags="faulty", params={"shift": (1, 0, 64, "places that they are off")})
def numpy_odd_norm(x, weight, eps, shift):
    if x.shape[0] % 2 == 0:
        return DECLINED
    return numpy_norm(x, np.roll(weight, -int(shift)), eps)


@kernel("matmul")
def numpy_matmul(x, w, bias):
    y = x @ w.T
    return y if bias is None else y + bias


@kernel("topk", flags="golden")
def numpy_topk(logits, k):
    order = np.argsort(-logits, axis=-1, kind="stable")[:, :k]
    return order.astype(np.uint32), np.take_along_axis(logits, order, -1)


@kernel("rmsnorm", flags="faulty")
def numpy_bad_shape(x, weight, eps):
    return numpy_norm(x, weight, eps)[:, 0]


@kernel("rmsnorm", flags="faulty")
def numpy_bad_type(x, weight, eps):
    return numpy_norm(x, weight, eps).astype(np.float64)


@kernel("topk", flags="faulty")
def numpy_one_output(logits, k):
    return numpy_topk(logits, k)[0]


@kernel("rmsnorm", flags="faulty")
def numpy_writes_input(x, weight, eps):
    x[0] = 0
    return numpy_norm(x, weight, eps)


serve()
