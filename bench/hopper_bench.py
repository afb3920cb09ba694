"""Times the sm90 forward rows on the device: python3 bench/hopper_bench.py cuda_rows.so results.csv PART ...

options: what options cost, beside the plain row. guard: rows by sum beside the same by maximum, from a second library
in BY_MAXIMUM, on data that suits either. alone: protocol P1 (batch x length = 16,384 tokens, heads = 2,048 / D).
cudnn: P1 beside cuDNN on the same tensors, and more head sizes. All that is compared takes turns call by call; medians
by events. TFLOP/s count 4 D operations for each visible pair.

SPDX-License-Identifier: Apache-2.0
"""
import csv
import math
import os
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


def normal(shape_q, shape_k, dtype, multiple=1.0):
    q, k, v = (torch.randn(shape, device="cuda", dtype=dtype) for shape in (shape_q, shape_k, shape_k))
    return q * multiple, k, v


def scored(shape_q, shape_k, dtype, octaves):
    """Normal values; every row's score of key j is octaves[j] log 2."""
    q, k, v = (torch.zeros(shape_q, device="cuda", dtype=dtype), torch.zeros(shape_k, device="cuda", dtype=dtype),
               torch.randn(shape_k, device="cuda", dtype=dtype))
    q[..., 0] = 1
    k[..., 0] = octaves * (math.log(2) * math.sqrt(shape_q[-1]))
    return q, k, v


def rising(rate):
    """Octaves a key, towards the keys that come last in the kernel."""
    return lambda q, k, dtype: scored(q, k, dtype, -torch.arange(k[2], device="cuda") * rate)


def jumping(height):
    """Every 128 keys another level."""
    def make_scores(q, k, dtype):
        torch.manual_seed(3)
        levels = torch.rand(k[2] // 128, device="cuda") * height
        return scored(q, k, dtype, levels.repeat_interleave(128))
    return make_scores


def scaled(multiple):
    return lambda q, k, dtype: normal(q, k, dtype, multiple)


DATA = {"normal": normal, "x8": scaled(8.0), "x30": scaled(30.0), "rising .05": rising(0.05), "rising .3": rising(0.3),
        "rising 1": rising(1.0), "jumping 60": jumping(60.0), "jumping 300": jumping(300.0)}


def cell(libraries, d, group, causal, n, dtype, data=normal, beside_cudnn=False):
    """TFLOP/s of the row in each library, and of cuDNN."""
    b, h = max(1, TOKENS // n), HIDDEN // d
    q, k, v = data((b, h, n, d), (b, h // group, n, d), dtype)
    plans = [make(rows, q, k, v, causal) for rows in libraries]
    functions = {str(i): plan.run for i, (plan, _) in enumerate(plans)}
    expected = plans[-1][1]
    if beside_cudnn:
        functions["cudnn"] = cudnn(q, k, v, causal)
        expected = functions["cudnn"]()
    for plan, _ in plans:
        plan.run()
    for plan, o in plans:
        error = ((o.float() - expected.float()).norm() / expected.float().norm()).item()
        if not error < 1e-2:
            print(f"WRONG {plan.row} n {n}: {error:.2e}", flush=True)
    times = seconds(functions)
    for plan, _ in plans:
        plan.close()
    flops = 4e-12 * b * h * n * n * d * (0.5 if causal else 1)
    return [flops / time for time in times.values()]


def table(libraries, writer, dtype, specs, lengths, label="", **options):
    """A line of the first column's figures, and of its ratios to the second's, for each spec and mask."""
    name = str(dtype)[6:]
    for d, group in specs:
        for causal in (False, True):
            cells = [cell(libraries, d, group, causal, n, dtype, **options) for n in lengths]
            for n, figures in zip(lengths, cells):
                writer.writerow([name, d, group, int(causal), n, label, *(round(x, 1) for x in figures)])
            ratios = " | " + " ".join(f"{x[0] / x[1]:.3f}" for x in cells) if len(cells[0]) > 1 else ""
            print(f"{name} d{d}{f'/{group}' if group > 1 else ''} {'causal' if causal else 'full  '} {label} | " +
                  " ".join(f"{x[0]:4.0f}" for x in cells) + ratios, flush=True)


# ---- What options cost ----

def windowed_pairs(n, left, right):
    i = torch.arange(n, dtype=torch.int64)
    return int(((i + right).clamp(max=n - 1) - (i - left).clamp(min=0) + 1).sum())


def general_plans(rows, n, d, dtype, causal):
    """{name: (plan, visible pairs of a head)} of b sequences of n."""
    b, h = TOKENS // n, HIDDEN // d
    q, k, v = normal((b, h, n, d), (b, h, n, d), dtype)
    visible = lambda length: length * (length + 1) // 2 if causal else length * length
    pairs = b * visible(n)
    general = f"sm90_forward_{'f16' if dtype == torch.float16 else 'bf16'}_d{d}"
    plans = {"plain": (make(rows, q, k, v, causal)[0], pairs),
             "general": (make(rows, q, k, v, causal, general)[0], pairs),
             "softcap 50": (make(rows, q, k, v, causal, softcap=50.0)[0], pairs),
             "softcap 5": (make(rows, q, k, v, causal, softcap=5.0)[0], pairs)}
    side = 0 if causal else 512
    window = {"left": 1024 - side, "right": side}
    in_window = b * windowed_pairs(n, 1024 - side, side)
    plans["window"] = (make(rows, q, k, v, False, **window)[0], in_window)
    plans["window, wide row"] = (make(rows, q, k, v, False, general, **window)[0], in_window)
    plans["varlen"] = varlen_plan(rows, h, d, dtype, causal)
    plans["varlen, wide row"] = varlen_plan(rows, h, d, dtype, causal, general)
    for page in (64, 16):
        plans[f"paged {page}"] = (paged_plan(rows, q, k, v, causal, page), pairs)
    for length in (2048, 4096):
        shape = (TOKENS // length, h, length, d)
        plans[f"plain {length}"] = (make(rows, *normal(shape, shape, dtype), causal)[0],
                                    TOKENS // length * visible(length))
    return plans


def varlen_plan(rows, h, d, dtype, causal, row=None):
    torch.manual_seed(1)
    lengths = []
    while sum(lengths) < 2 * TOKENS:
        lengths.append(int(torch.randint(1, 4097, ())))
    q, k, v, o = (torch.randn(sum(lengths), h, d, device="cuda", dtype=dtype) for _ in range(4))
    cumulative = torch.tensor([0] + lengths).cumsum(0).to("cuda", torch.int32)
    options = Options(batch=len(lengths), rows=max(lengths), keys=max(lengths), heads_q=h, heads_kv=h, head_dim=d,
                      head_dim_v=d, right=0 if causal else OPEN, scale=d**-0.5)
    plan = rows.plan(options, {"q": q, "k": k, "v": v, "o": o, "cu_q": cumulative, "cu_k": cumulative}, row)
    return plan, sum(n * (n + 1) // 2 if causal else n * n for n in lengths)


def paged_plan(rows, q, k, v, causal, page):
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


def run_part(part, rows, writer):
    plain = [(64, 1), (128, 1), (256, 1)]
    if part == "options":
        for d in (64, 128, 256):
            options_table(rows, writer, torch.bfloat16, d, 8192)
    elif part == "guard":
        both = [rows, Rows(os.environ["BY_MAXIMUM"])]
        for dtype in (torch.bfloat16, torch.float16):
            for label, data in DATA.items():
                table(both, writer, dtype, plain[:2], (2048, 8192), label, data=data)
    elif part == "alone":
        table([rows], writer, torch.bfloat16, plain, LENGTHS)
    elif part == "cudnn":
        for label in ("normal", "rising .3", "x30"):
            table([rows], writer, torch.bfloat16, plain[:2], (8192,), label, data=DATA[label], beside_cudnn=True)
        table([rows], writer, torch.bfloat16, plain, LENGTHS, beside_cudnn=True)
        table([rows], writer, torch.bfloat16, [(128, 4), (64, 8), (96, 1), (192, 1)], (2048, 8192), beside_cudnn=True)
    else:
        sys.exit(f"{part} is not a part")


def main():
    rows = Rows(sys.argv[1])
    with open(sys.argv[2], "w", encoding="utf-8") as file, torch.cuda.stream(torch.cuda.Stream()):
        writer = csv.writer(file)
        writer.writerow(["dtype", "d", "group", "causal", "n", "label", "ours", "other"])
        for part in sys.argv[3:] or ("options", "guard", "alone", "cudnn"):
            run_part(part, rows, writer)


if __name__ == "__main__":
    main()
