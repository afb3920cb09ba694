"""Who is measured: attune, and peers by the same tensors. A contender is made for a cell and its inputs; it raises
Unavailable if it cannot compute the cell, with the reason.

SPDX-License-Identifier: Apache-2.0
"""
import functools
import math
import os

import attune
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel


class Unavailable(Exception):
    pass


class Contender:
    """run(turn) queues one computation on the current stream, of the inputs whose turn it is."""

    by_host_clock = False  # its work is not on a stream that events can be recorded in

    def close(self):
        pass


def in_pages(cell, k, v):
    """The same keys and values, their pages in any order."""
    pages = cell.batch * cell.keys // cell.page_size
    order = torch.randperm(pages, device="cuda")
    pools = [torch.empty_like(each) for each in (k, v)]
    pools = [pool.view(pages, cell.page_size, *pool.shape[2:]) for pool in pools]
    for pool, each in zip(pools, (k, v)):
        pool[order] = each.view(pool.shape)
    return {"k": pools[0], "v": pools[1], "page_size": cell.page_size,
            "block_table": order.to(torch.int32).view(cell.batch, -1),
            "seqused_k": torch.full((cell.batch,), cell.keys, dtype=torch.int32, device="cuda")}


class Attune(Contender):
    def __init__(self, name, device, kernel, cell, inputs):
        self.name = name
        sets = [{"q": q} | (in_pages(cell, k, v) if cell.page_size else {"k": k, "v": v}) for q, k, v in inputs.sets]
        q, k, v = inputs.sets[0]
        first = sets[0] | {"causal": cell.causal}
        o = torch.full(q.shape, math.nan, dtype=cell.o_dtype(), device="cuda")
        lse = torch.empty((cell.batch, cell.heads_q, cell.rows), dtype=torch.float32, device="cuda")
        rest = {"causal": cell.causal, "kernel": kernel, "o": o, "lse": lse}
        self.outputs = [o]
        self.stream = device.wrap_stream(torch.cuda.current_stream().cuda_stream)
        try:
            if cell.what == "backward":
                device.forward(self.stream, **first, o=o, lse=lse)
                self.outputs = [torch.full_like(each, math.nan, dtype=cell.o_dtype()) for each in (q, k, v)]
                rest |= {"dout": inputs.dout} | dict(zip(("dq", "dk", "dv"), self.outputs))
            self.plan = device.plan(attune.BACKWARD if cell.what == "backward" else attune.FORWARD, **first | rest)
        except attune.Error as error:
            self.stream.close()
            raise Unavailable(str(error)) from None
        self.kernel = self.plan.kernel()
        self.args = [attune.attention_args(**rest | each) for each in sets]
        self.kept = rest, sets  # args has their addresses only
        self.workspace = torch.empty(self.plan.workspace_bytes + 1, dtype=torch.uint8, device="cuda")

    def run(self, turn):
        self.plan.run(self.stream, self.workspace.data_ptr(), self.args[turn % len(self.args)])

    def results(self):
        """Of the first set of inputs."""
        self.run(0)
        return self.outputs

    def close(self):
        torch.cuda.synchronize()
        self.plan.close()
        self.stream.close()


class Torch(Contender):
    """scaled_dot_product_attention, held to one of its backends."""

    kernel = ""

    def __init__(self, name, backend, cell, inputs):
        if cell.causal and cell.rows != cell.keys:
            raise Unavailable("its causal mask is aligned to the top left")
        self.name = name
        self.backend = backend
        self.options = {"is_causal": cell.causal, "enable_gqa": cell.heads_q != cell.heads_kv}
        self.sets = [tuple(each.transpose(1, 2) for each in one) for one in inputs.sets]
        self.dout = None
        try:
            if cell.what == "backward":
                self.leaves = [each.detach().requires_grad_() for each in self.sets[0]]
                self.o = self._attend(*self.leaves)
                self.dout = inputs.dout.transpose(1, 2)
            self.run(0)
        except RuntimeError as error:
            raise Unavailable(str(error).splitlines()[0]) from None

    def _attend(self, q, k, v):
        with sdpa_kernel([self.backend]):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, **self.options)

    def run(self, turn):
        if self.dout is None:
            self._attend(*self.sets[turn % len(self.sets)])
        else:
            torch.autograd.grad(self.o, self.leaves, self.dout, retain_graph=True)


class Jax(Contender):
    """cuDNN's e4m3 attention, which only JAX calls; its output is e4m3, its streams are its own."""

    name = "cudnn"
    kernel = "by JAX"
    by_host_clock = True

    def __init__(self, cell, inputs):
        if cell.what != "forward":
            raise Unavailable("only forward is measured")
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        try:
            import jax
            from jax._src.cudnn import fused_attention_stablehlo as cudnn
        except ImportError as error:
            raise Unavailable(str(error)) from None

        def share(each):
            codes = jax.dlpack.from_dlpack(each.view(torch.uint8))
            return jax.lax.bitcast_convert_type(codes, jax.numpy.float8_e4m3fn)

        one = jax.numpy.ones((1, 1, 1, 1), jax.numpy.float32)
        mask = cudnn.MaskType.CAUSAL if cell.causal else cudnn.MaskType.NO_MASK
        attend = functools.partial(cudnn.dot_product_attention, scale=cell.head_dim**-0.5, mask_type=mask,
                                   qkv_layout="BTNH", use_fp8=True)
        self.attend = jax.jit(lambda q, k, v, scales: attend(q, k, v, fp8_params=scales)[0])
        self.scales = {key: one for key in cudnn.fp8_params_keys}
        try:
            self.sets = [tuple(share(each) for each in one_set) for one_set in inputs.sets]
            self.run(0)
            self.wait()
        except Exception as error:  # whatever its compiler raises
            raise Unavailable(str(error).splitlines()[0]) from None

    def run(self, turn):
        self.last = self.attend(*self.sets[turn % len(self.sets)], self.scales)

    def wait(self):
        self.last.block_until_ready()


# Of each peer, the dtypes that it is for.
HALVES = ("f16", "bf16")
PEERS = {
    "cudnn": (HALVES, functools.partial(Torch, "cudnn", SDPBackend.CUDNN_ATTENTION)),
    "fa2": (HALVES, functools.partial(Torch, "fa2", SDPBackend.FLASH_ATTENTION)),
    "efficient": (("f32",), functools.partial(Torch, "efficient", SDPBackend.EFFICIENT_ATTENTION)),
    "jax": (("e4m3",), Jax),
}
