"""Times the sm90 forward rows beside cuDNN on the same tensors, call by call in turn, in one process:
python3 bench/hopper_bench.py cuda_rows.so results.csv [dtype ...]

Protocol P1 (batch x length = 16,384 tokens, heads = 2,048 / D), then what options cost. TFLOP/s count 4 D operations
for each visible pair; medians by events.

SPDX-License-Identifier: Apache-2.0
"""
import csv
import math
import statistics
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from cuda_rows import OPEN, Options, Rows

TOKENS, HIDDEN = 16384, 2048
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
ROUNDS = 10


def seconds(functions):
    """The median of each, one call of each in turn."""
    times = {name: [] for name in functions}
    for function in functions.values():
        function()
        function()
    for _ in range(ROUNDS):
        for name, function in functions.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            function()
            start.record()
            function()
            function()
            end.record()
            times[name].append((start, end))
    torch.cuda.synchronize()
    return {name: statistics.median(start.elapsed_time(end) for start, end in pairs) / 2e3
            for name, pairs in times.items()}


def make(rows, q, k, v, causal, row=None, **options):
    """A plan over (b, heads, s, d) tensors, and its o."""
    o = torch.full_like(q, math.nan)
    tensors = {name: x.transpose(1, 2) for name, x in (("q", q), ("k", k), ("v", v), ("o", o))}
    tensors["lse"] = torch.empty(q.shape[:3], device="cuda")
    b, hq, sq, d = q.shape
    made = Options(batch=b, rows=sq, keys=k.shape[2], heads_q=hq, heads_kv=k.shape[1], head_dim=d, head_dim_v=d,
                   right=0 if causal else OPEN, scale=d**-0.5)
    for name, value in options.items():
        setattr(made, name, value)
    return rows.plan(made, tensors, row), o


def cudnn(q, k, v, causal):
    def run():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])
    return run


def cell(rows, d, group, causal, n, dtype, scale_up=1.0, rising=0.0):
    """(ours, cuDNN) in TFLOP/s."""
    b, h = max(1, TOKENS // n), HIDDEN // d
    q, k, v = (torch.randn(b, h // x, n, d, device="cuda", dtype=dtype) for x in (1, group, group))
    q *= scale_up
    if rising:  # octaves a key, towards the keys that come last in the kernel
        q.zero_()[..., 0] = 1
        k.zero_()[..., 0] = -torch.arange(n, device="cuda") * (rising * math.log(2) * math.sqrt(d))
    plan, o = make(rows, q, k, v, causal)
    other = cudnn(q, k, v, causal)
    plan.run()
    expected = other().float()
    error = ((o.float() - expected).norm() / expected.norm()).item()
    if not error < 1e-2:
        print(f"WRONG {plan.row} n {n}: {error:.2e} from cuDNN", flush=True)
    times = seconds({"ours": plan.run, "cudnn": other})
    plan.close()
    flops = 4e-12 * b * h * n * n * d * (0.5 if causal else 1)
    return flops / times["ours"], flops / times["cudnn"]


def table(rows, writer, dtype, specs, lengths, **options):
    name = str(dtype)[6:]
    for d, group in specs:
        for causal in (False, True):
            pairs = [cell(rows, d, group, causal, n, dtype, **options) for n in lengths]
            for n, (ours, other) in zip(lengths, pairs):
                writer.writerow([name, d, group, int(causal), n, options, round(ours, 1), round(other, 1)])
            print(f"{name} d{d}{f'/{group}' if group > 1 else ''} {'causal' if causal else 'full  '} "
                  f"{options or ''} | " + " ".join(f"{x:4.0f}" for x, _ in pairs) + " | / cuDNN " +
                  " ".join(f"{x / y:.2f}" for x, y in pairs), flush=True)


# ---- What options cost ----

def windowed_pairs(n, left, right):
    i = torch.arange(n, dtype=torch.int64)
    return int(((i + right).clamp(max=n - 1) - (i - left).clamp(min=0) + 1).sum())


def general_plans(rows, n, d, dtype, causal):
    """{name: (plan, visible pairs of a head)} of b sequences of n."""
    b, h = TOKENS // n, HIDDEN // d
    q, k, v = (torch.randn(b, h, n, d, device="cuda", dtype=dtype) for _ in range(3))
    pairs = b * (n * (n + 1) // 2 if causal else n * n)
    general = f"sm90_forward_{'f16' if dtype == torch.float16 else 'bf16'}_d{d}"
    plans = {"plain": (make(rows, q, k, v, causal)[0], pairs),
             "general": (make(rows, q, k, v, causal, general)[0], pairs),
             "softcap": (make(rows, q, k, v, causal, softcap=50.0)[0], pairs)}
    side = 0 if causal else 512
    plans["window"] = (make(rows, q, k, v, False, left=1024 - side, right=side)[0],
                       b * windowed_pairs(n, 1024 - side, side))
    plans["varlen"] = varlen_plan(rows, h, d, dtype, causal)
    plans["paged"] = (paged_plan(rows, q, k, v, causal), pairs)
    return plans


def varlen_plan(rows, h, d, dtype, causal):
    torch.manual_seed(1)
    lengths = []
    while sum(lengths) < 2 * TOKENS:
        lengths.append(int(torch.randint(1, 4097, ())))
    q, k, v, o = (torch.randn(sum(lengths), h, d, device="cuda", dtype=dtype) for _ in range(4))
    cumulative = torch.tensor([0] + lengths).cumsum(0).to("cuda", torch.int32)
    options = Options(batch=len(lengths), rows=max(lengths), keys=max(lengths), heads_q=h, heads_kv=h, head_dim=d,
                      head_dim_v=d, right=0 if causal else OPEN, scale=d**-0.5)
    plan = rows.plan(options, {"q": q, "k": k, "v": v, "o": o, "cu_q": cumulative, "cu_k": cumulative})
    return plan, sum(n * (n + 1) // 2 if causal else n * n for n in lengths)


def paged_plan(rows, q, k, v, causal, page=64):
    b, h, n, d = q.shape
    table = torch.randperm(b * n // page, device="cuda").to(torch.int32).view(b, n // page)
    pools = (torch.randn(b * n // page, page, h, d, device="cuda", dtype=q.dtype) for _ in range(2))
    tensors = {"q": q.transpose(1, 2), "o": torch.empty_like(q).transpose(1, 2), "table": table,
               "used_k": torch.full((b,), n, device="cuda", dtype=torch.int32), **dict(zip("kv", pools))}
    options = Options(batch=b, rows=n, keys=n, heads_q=h, heads_kv=h, head_dim=d, head_dim_v=d, page_size=page,
                      right=0 if causal else OPEN, scale=d**-0.5)
    return rows.plan(options, tensors)


def options_table(rows, writer, dtype, d, n):
    for causal in (False, True):
        plans = general_plans(rows, n, d, dtype, causal)
        times = seconds({name: plan.run for name, (plan, _) in plans.items()})
        rates = {name: 4e-12 * pairs * (HIDDEN // d) * d / times[name] for name, (_, pairs) in plans.items()}
        writer.writerow([str(dtype)[6:], d, 1, int(causal), n, rates, 0, 0])
        print(f"options d{d} {n} {'causal' if causal else 'full  '} | plain {rates['plain']:.0f} | / plain " +
              " ".join(f"{name} {rate / rates['plain']:.2f}" for name, rate in rates.items() if name != "plain"),
              flush=True)


def main():
    rows = Rows(sys.argv[1])
    dtypes = {"bf16": torch.bfloat16, "f16": torch.float16}
    with open(sys.argv[2], "w", encoding="utf-8") as file, torch.cuda.stream(torch.cuda.Stream()):
        writer = csv.writer(file)
        writer.writerow(["dtype", "d", "group", "causal", "n", "options", "ours", "cudnn"])
        for name in sys.argv[3:] or dtypes:
            dtype = dtypes[name]
            table(rows, writer, dtype, [(64, 1), (128, 1), (256, 1)], LENGTHS)
            table(rows, writer, dtype, [(128, 4), (64, 8), (96, 1), (192, 1)], (2048, 8192))
            for options in ({"scale_up": 8.0}, {"scale_up": 30.0}, {"rising": 0.3}, {"rising": 0.05}):
                table(rows, writer, dtype, [(64, 1), (128, 1)], (8192,), **options)
            for d in (64, 128, 256):
                options_table(rows, writer, dtype, d, 8192)


if __name__ == "__main__":
    main()
