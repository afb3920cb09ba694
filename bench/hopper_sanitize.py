"""Launches each sm90 forward row once or twice on small problems, for compute-sanitizer to watch:
python3 bench/hopper_sanitize.py cuda_rows.so

Inputs are copied from the host, so that initcheck knows them; with PYTORCH_NO_CUDA_MEMORY_CACHING=1 each tensor is an
allocation of its own, so that memcheck sees its ends.

SPDX-License-Identifier: Apache-2.0
"""
import sys

import torch

from cuda_rows import OPEN, Options, Rows

HEAD_DIMS = {"d64": (64, 64), "d96": (96, 96), "d128": (128, 128), "d192_128": (192, 128), "d192": (192, 192),
             "d256": (256, 256)}
LENGTHS = [130, 1, 300]


def to_device(*shape, dtype):
    return torch.randn(shape).to(dtype).to("cuda")


def dense(d, dv, dtype, causal, **options):
    b, h, sq, sk = 2, 2, 270, 333
    q, k, v = to_device(b, sq, h, d, dtype=dtype), to_device(b, sk, 1, d, dtype=dtype), to_device(b, sk, 1, dv, dtype=dtype)
    tensors = {"q": q, "k": k, "v": v, "o": torch.empty(b, sq, h, dv, device="cuda", dtype=dtype),
               "lse": torch.empty(b, h, sq, device="cuda")}
    made = Options(batch=b, rows=sq, keys=sk, heads_q=h, heads_kv=1, head_dim=d, head_dim_v=dv,
                   right=0 if causal else OPEN, scale=d**-0.5)
    for name, value in options.items():
        setattr(made, name, value)
    return made, tensors


def packed(d, dv, dtype):
    total = sum(LENGTHS)
    q, k, v = (to_device(total, 2, x, dtype=dtype) for x in (d, d, dv))
    starts = torch.tensor([0] + LENGTHS).cumsum(0).to(torch.int32).to("cuda")
    tensors = {"q": q, "k": k, "v": v, "o": torch.empty(total, 2, dv, device="cuda", dtype=dtype),
               "lse": torch.empty(2, total, device="cuda"), "cu_q": starts, "cu_k": starts}
    return Options(batch=len(LENGTHS), rows=max(LENGTHS), keys=max(LENGTHS), heads_q=2, heads_kv=2, head_dim=d,
                   head_dim_v=dv, right=0, left=100, scale=d**-0.5), tensors


def paged(d, dv, dtype, page=64):
    b, columns, sq = len(LENGTHS), -(-max(LENGTHS) // page), 100
    table = torch.randperm(b * columns).view(b, columns).to(torch.int32).to("cuda")
    tensors = {"q": to_device(b, sq, 2, d, dtype=dtype), "k": to_device(b * columns, page, 2, d, dtype=dtype),
               "v": to_device(b * columns, page, 2, dv, dtype=dtype), "table": table,
               "o": torch.empty(b, sq, 2, dv, device="cuda", dtype=dtype),
               "used_k": torch.tensor(LENGTHS, dtype=torch.int32).to("cuda")}
    return Options(batch=b, rows=sq, keys=columns * page, heads_q=2, heads_kv=2, head_dim=d, head_dim_v=dv,
                   page_size=page, scale=d**-0.5), tensors


def problems(kind, d, dv, dtype):
    if kind.startswith(("_full", "_causal")):
        return [dense(d, dv, dtype, kind.startswith("_causal"))]
    made = [dense(d, dv, dtype, True, left=150), packed(d, dv, dtype), paged(d, dv, dtype)]
    for options, _ in made:
        options.softcap = 30.0 if kind == "_softcap" else 0.0
    return made


def main():
    rows = Rows(sys.argv[1])
    launches = 0
    with torch.cuda.stream(torch.cuda.Stream()):
        for name, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16)):
            for size, (d, dv) in HEAD_DIMS.items():
                short = ("_full_short", "_causal_short", "_short") if d == 64 else ()
                for kind in ("_full", "_causal", "", "_softcap", *short):
                    for options, tensors in problems(kind, d, dv, dtype):
                        plan = rows.plan(options, tensors, f"sm90_forward_{name}_{size}{kind}")
                        plan.run()
                        torch.cuda.synchronize()
                        plan.close()
                        launches += 1
    print(f"{launches} launches")


if __name__ == "__main__":
    main()
