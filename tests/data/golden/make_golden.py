# SPDX-License-Identifier: Apache-2.0
"""Writes this folder's vectors: attention by PyTorch in float64, each case a .safetensors file.

    python make_golden.py        (needs torch and safetensors; the tests need neither)

o and lse are what the framework's own operators give (scaled_dot_product_attention or
flex_attention), the gradients are autograd's through the formula written with plain operators,
which the operators' o and lse confirm first. Inputs are rounded to the case's dtype; results are
float64. The options stand in the file's metadata, under the names of the oracle's Problem.
"""

import json
import pathlib
import warnings

import torch
from safetensors.torch import save_file
from torch.nn.attention.bias import causal_lower_right
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

HERE = pathlib.Path(__file__).parent
DTYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "e4m3": torch.float8_e4m3fn,
}


class Case:
    """Tensors and options of one file. `see` and `score` take index tensors (b, h, i, j)."""

    def __init__(self, name, B=2, Sq=5, Sk=7, Hq=4, Hkv=2, D=8, Dv=6, dtype="f32", **options):
        self.name, self.dtype = name, dtype
        self.sizes = B, Sq, Sk, Hq, Hkv, D, Dv
        self.generator = torch.Generator().manual_seed(sum(map(ord, name)))
        self.options = options
        self.stored = {
            "q": self.draw(B, Sq, Hq, D),
            "k": self.draw(B, Sk, Hkv, D),
            "v": self.draw(B, Sk, Hkv, Dv),
            "do": self.draw(B, Sq, Hq, Dv).to(DTYPES["bf16" if dtype == "e4m3" else dtype]),
            "dlse": self.draw(B, Hq, Sq, dtype="f32"),
        }
        self.see = None
        self.score = None

    def draw(self, *shape, dtype=None):
        values = torch.randn(*shape, generator=self.generator)
        return values.to(DTYPES[dtype or self.dtype])

    def add(self, **tensors):
        self.stored.update(tensors)
        return self

    def save(self, results):
        tensors = {name: x.detach().contiguous() for name, x in (self.stored | results).items()}
        case = {"dtype": self.dtype, "options": self.options, "torch": torch.__version__}
        save_file(tensors, HERE / f"{self.name}.safetensors", {"case": json.dumps(case)})


def by_formula(case, leaf):
    """o and lse through plain operators, for autograd. leaf: float64 inputs that want gradients."""
    B, Sq, Sk, Hq, Hkv, D, _ = case.sizes
    q, k, v = (leaf[name] for name in "qkv")
    k, v = (x.repeat_interleave(Hq // Hkv, dim=2) for x in (k, v))
    s = torch.einsum("bihd,bjhd->bhij", q, k) * case.options.get("scale", D**-0.5)
    at = torch.meshgrid(*(torch.arange(n) for n in (B, Hq, Sq, Sk)), indexing="ij")
    if case.score:
        s = case.score(leaf, s, *at)
    see = case.see(*at) if case.see else torch.ones_like(s, dtype=torch.bool)
    s = s.masked_fill(~see, -torch.inf)
    if "sink" in leaf:
        s = torch.cat([s, leaf["sink"][None, :, None, None].expand(B, Hq, Sq, 1)], dim=-1)
    empty = (s == -torch.inf).all(dim=-1)
    s = s.masked_fill(empty[..., None], 0.0)
    lse = torch.logsumexp(s, dim=-1).masked_fill(empty, -torch.inf)
    weights = torch.softmax(s, dim=-1)[..., :Sk].masked_fill(empty[..., None], 0.0)
    return torch.einsum("bhij,bjhd->bihd", weights, v), lse


def by_flex(case, leaf):
    """o and lse of flex_attention; a sink by what it does to them."""
    B, Sq, Sk, Hq, _, D, _ = case.sizes
    leaf = {name: x.detach() for name, x in leaf.items()}
    score = (lambda *at: case.score(leaf, *at)) if case.score else None
    blocks = create_block_mask(case.see, B, Hq, Sq, Sk, device="cpu") if case.see else None
    scale = case.options.get("scale", D**-0.5)
    q, k, v = (leaf[name].transpose(1, 2) for name in "qkv")
    with_lse = {"enable_gqa": True, "return_aux": AuxRequest(lse=True)}
    o, aux = flex_attention(q, k, v, score, blocks, scale, **with_lse)
    lse = aux.lse
    if "sink" in leaf:
        sink = leaf["sink"][None, :, None]
        o, lse = o * torch.sigmoid(lse - sink)[..., None], torch.logaddexp(lse, sink)
    return o.transpose(1, 2), lse


def by_sdpa(leaf, **arguments):
    q, k, v = (leaf[name].detach().transpose(1, 2) for name in "qkv")
    return scaled_dot_product_attention(q, k, v, enable_gqa=True, **arguments).transpose(1, 2)


def solve(case, sdpa=None):
    """Writes the case: forward by the operators, gradients by autograd. sdpa: its arguments, where
    that operator can say the case."""
    leaf = leaves(case)
    o, lse = by_formula(case, leaf)
    o_peer, lse_peer = by_flex(case, leaf)
    confirm(o_peer, o)
    confirm(lse_peer, lse)
    if sdpa is not None:
        o_peer = by_sdpa(leaf, **sdpa)
        confirm(o_peer, o)
    results = {"o": o_peer, "lse": lse_peer}
    finite_lse = lse.masked_fill(lse == -torch.inf, 0.0)
    ((o * case.stored["do"].double()).sum() + (finite_lse * case.stored["dlse"]).sum()).backward()
    results |= {"d" + name: x.grad for name, x in leaf.items() if x.requires_grad}
    case.save(results)


def confirm(peer, formula):
    torch.testing.assert_close(peer, formula, rtol=1e-12, atol=1e-13)


def leaves(case):
    """The values in float64: of q, k, v after descale, and of what else has a gradient."""
    leaf = {}
    for name in ("q", "k", "v", "bias", "sink", "alibi"):
        if name in case.stored:
            value = case.stored[name].double()
            if f"descale_{name}" in case.stored:
                heads = value.shape[2] // case.stored[f"descale_{name}"].shape[1]
                factor = case.stored[f"descale_{name}"].double().repeat_interleave(heads, dim=1)
                value = value * factor[:, None, :, None]
            leaf[name] = value.requires_grad_(name != "alibi")
    return leaf


# ---------------------------------------------------------------------------------------------
# The score's parts, for index tensors


def capped(cap):
    return lambda leaf, s, b, h, i, j: cap * torch.tanh(s / cap)


def biased(case):
    B, Sq, Sk, Hq = case.sizes[:4]
    return lambda leaf, s, b, h, i, j: s + leaf["bias"].expand(B, Hq, Sq, Sk)[b, h, i, j]


def sloped(shift):
    def score(leaf, s, b, h, i, j):
        slope = leaf["alibi"][h] if leaf["alibi"].dim() == 1 else leaf["alibi"][b, h]
        return s - slope * (i + shift - j).abs()

    return score


def chain(*parts):
    def score(leaf, s, b, h, i, j):
        for part in parts:
            s = part(leaf, s, b, h, i, j)
        return s

    return score


# ---------------------------------------------------------------------------------------------
# Cases


def plain_cases():
    solve(Case("plain", Hkv=4, Dv=8), sdpa={})
    solve(Case("group_odd_sizes", Hq=6, Hkv=2, D=7, Dv=5), sdpa={})
    solve(Case("decode", Sq=1, Sk=40, Hq=8, Hkv=1), sdpa={})
    solve(Case("scale_negative", scale=-0.75), sdpa={"scale": -0.75})
    solve(Case("logits_large", scale=20.0), sdpa={"scale": 20.0})
    solve(Case("half", dtype="f16"), sdpa={})


def visibility_cases():
    case = Case("causal_top_left", causal=True, align="top-left")
    case.see = lambda b, h, i, j: j <= i
    solve(case, sdpa={"is_causal": True})
    for name, Sq, Sk in (("causal_bottom_right", 5, 7), ("causal_empty_rows", 7, 4)):
        case = Case(name, Sq=Sq, Sk=Sk, causal=True)
        case.see = lambda b, h, i, j, shift=Sk - Sq: j <= i + shift
        solve(case, sdpa={"attn_mask": causal_lower_right(Sq, Sk)})
    case = Case("brain_half_causal", dtype="bf16", causal=True)
    case.see = lambda b, h, i, j: j <= i + 2
    solve(case, sdpa={"attn_mask": causal_lower_right(5, 7)})
    case = Case("diagonal", causal=True, diagonal=1)
    case.see = lambda b, h, i, j: j <= i + 1
    solve(case)
    case = Case("window", Sq=9, Sk=11, window=[3, 1])
    case.see = lambda b, h, i, j: (i + 2 - 3 <= j) & (j <= i + 2 + 1)
    solve(case)
    case = Case("window_left_causal", Sq=9, Sk=9, window=[2, -1], causal=True)
    case.see = lambda b, h, i, j: (i - j <= 2) & (j <= i)
    solve(case)
    case = Case("mask")
    mask = torch.rand(2, 1, 5, 7, generator=case.generator) < 0.6
    mask[..., 0] = True
    case.add(mask=mask)
    case.see = lambda b, h, i, j: mask[b, 0 * h, i, j]
    solve(case, sdpa={"attn_mask": mask})
    case = Case("lengths", Sk=9)
    used, pad = torch.tensor([9, 6], dtype=torch.int32), torch.tensor([2, 0], dtype=torch.int32)
    case.add(seqused_k=used, leftpad_k=pad)
    case.see = lambda b, h, i, j: (j < used[b]) & (j >= pad[b])
    solve(case)
    block_sparse_case()


def block_sparse_case():
    case = Case("block_sparse", Sq=10, Sk=11, block_sparse=[4, 3])
    rows = [[0, 2], [], [1, 2, 3]]
    listed = torch.zeros(3, 4, dtype=torch.bool)
    for row, columns in enumerate(rows):
        listed[row, columns] = True
    starts = [sum(map(len, rows[:n])) for n in range(4)]
    case.add(row_ptr=torch.tensor(starts, dtype=torch.int32))
    case.add(col_idx=torch.tensor(sum(rows, []), dtype=torch.int32))
    case.see = lambda b, h, i, j: listed[i // 4, j // 3]
    solve(case)


def score_cases():
    case = Case("softcap", softcap=0.75)
    case.score = capped(0.75)
    solve(case)
    for name, shape in (("bias", (1, 4, 5, 7)), ("bias_broadcast", (2, 1, 1, 7))):
        case = Case(name)
        bias = case.draw(*shape)
        case.add(bias=bias).score = biased(case)
        solve(case, sdpa={"attn_mask": bias.double()})
    case = Case("alibi", causal=True)
    case.add(alibi=2.0 ** -torch.arange(1.0, 5)).score = sloped(2)
    case.see = lambda b, h, i, j: j <= i + 2
    solve(case)
    case = Case("alibi_per_batch", align="top-left")
    case.add(alibi=case.draw(2, 4).abs()).score = sloped(0)
    solve(case)
    case = Case("sink")
    solve(case.add(sink=case.draw(4)))
    case = Case("all_together", Sq=6, Sk=9, softcap=1.5, window=[4, 0], scale=0.6)
    case.add(sink=case.draw(4), bias=case.draw(1, 4, 1, 9), alibi=case.draw(4).abs())
    case.score = chain(capped(1.5), biased(case), sloped(3))
    case.see = lambda b, h, i, j: (i + 3 - 4 <= j) & (j <= i + 3)
    solve(case)


def quarter_case():
    case = Case("quarter_descale", dtype="e4m3")
    case.add(**{f"descale_{name}": case.draw(2, 2, dtype="f32").abs() + 0.5 for name in "qkv"})
    solve(case, sdpa={})


def packed_case():
    """Sequences of lengths 3, 0, 4 over keys of lengths 5, 2, 6, one operator call each."""
    case = Case("packed_causal", B=1, Sq=7, Sk=13, causal=True, max_seqlen_q=4, max_seqlen_k=6)
    starts_q, starts_k = [0, 3, 3, 7], [0, 5, 7, 13]
    for name in ("q", "k", "v", "do", "dlse"):
        case.stored[name] = case.stored[name][0]
    leaf = {name: case.stored[name].double()[None].requires_grad_() for name in "qkv"}
    outs, lses, loss = [], [], 0.0
    for b in (0, 2):
        rows, keys = slice(*starts_q[b : b + 2]), slice(*starts_k[b : b + 2])
        one = {"q": leaf["q"][:, rows], "k": leaf["k"][:, keys], "v": leaf["v"][:, keys]}
        Sq, Sk = one["q"].shape[1], one["k"].shape[1]
        part = Case("part", B=1, Sq=Sq, Sk=Sk)
        part.see = lambda b, h, i, j, shift=Sk - Sq: j <= i + shift
        o, lse = by_formula(part, one)
        loss = loss + (o[0] * case.stored["do"][rows].double()).sum()
        loss = loss + (lse[0] * case.stored["dlse"][:, rows]).sum()
        outs.append(by_sdpa(one, attn_mask=causal_lower_right(Sq, Sk))[0])
        lses.append(by_flex(part, one)[1][0])
        confirm(outs[-1], o[0])
    loss.backward()
    case.add(cu_seqlens_q=torch.tensor(starts_q, dtype=torch.int32))
    case.add(cu_seqlens_k=torch.tensor(starts_k, dtype=torch.int32))
    results = {"d" + name: leaf[name].grad[0] for name in "qkv"}
    case.save(results | {"o": torch.cat(outs), "lse": torch.cat(lses, dim=1)})


def paged_case():
    """Forward only: keys in pages of 4, the last page of each entry partly filled."""
    case = Case("paged_causal", Sq=2, Sk=12, causal=True, page_size=4)
    table, used = torch.tensor([[5, 0, 3], [2, 6, 1]], dtype=torch.int32), [11, 6]
    k, v = case.stored.pop("k"), case.stored.pop("v")
    outs, lses = [], []
    for b in range(2):
        one = {"q": case.stored["q"][b : b + 1].double()}
        one |= {n: x[b : b + 1, : used[b]].double() for n, x in (("k", k), ("v", v))}
        part = Case("part", B=1, Sq=2, Sk=used[b])
        part.see = lambda b, h, i, j, shift=used[b] - 2: j <= i + shift
        outs.append(by_sdpa(one, attn_mask=causal_lower_right(2, used[b])))
        lses.append(by_flex(part, one)[1])
    for name, rows in (("k", k), ("v", v)):
        pool = torch.full((7, 4, *rows.shape[2:]), torch.nan)
        for b in range(2):
            for j in range(used[b]):
                pool[table[b, j // 4], j % 4] = rows[b, j]
        case.stored[name] = pool
    del case.stored["do"], case.stored["dlse"]
    case.add(block_table=table, seqused_k=torch.tensor(used, dtype=torch.int32))
    case.save({"o": torch.cat(outs), "lse": torch.cat(lses)})


def rounding_case():
    """The framework's own conversions, in e4m3's range and around each format's small end."""
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(1000, generator=generator)
    values = values * 2.0 ** torch.randint(-12, 8, (1000,), generator=generator)
    values = values.clamp(-448, 448)
    rounded = {name: values.to(DTYPES[name]) for name in ("f16", "bf16", "e4m3")}
    save_file({"values": values} | rounded, HERE / "rounding.safetensors")


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
    warnings.filterwarnings("ignore", message="Lower right causal bias will produce NaNs")
    plain_cases()
    visibility_cases()
    score_cases()
    quarter_case()
    packed_case()
    paged_case()
    rounding_case()
