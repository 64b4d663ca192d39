"""Makes tiny random models of the families that the shared oracles lack, and their logits in float64.

Usage: python scripts/oracles/tiny_families.py FOLDER   (wants NumPy alone)

Per model: FOLDER/<name>.gguf, <name>.<sequence>.logits.npy (float32 [tokens, vocabulary]) and an entry in
FOLDER/families.json, in the form of the shared oracles' manifest. A seed is kept if no greedy choice is closer than
0.01, no router's choice closer than 5e-4 in probability, and every part that makes the family what it is changes some
logit by more than 0.05 when it is left out.
"""

import json
import pathlib
import sys

import gguf_f32
import numpy as np
from reference import Reference

GREEDY_TOKENS = 16
GREEDY_MARGIN_MIN = 0.01
ROUTER_GAP_MIN = 5e-4
PART_MATTERS_MIN = 0.05

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = (
    "Ġ t|h e|i n|Ġ a|r e|o n|Ġt he|e r|a t|Ġ s|o u|e s|Ġ w|n d|i s|o r|e n|Ġ c|Ġ o|i t|Ġ m|l l|Ġa nd|in g|a l|Ġ b|Ġo f|o m|v e"
).split("|")
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_alphabet():
    """The printable stand-in of every byte in byte-level vocabularies: itself, or a letter from 256 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(b) if b in plain else chr(next(others)) for b in range(256)]


def vocabulary():
    return SPECIALS + byte_alphabet() + [merge.replace(" ", "") for merge in MERGES]


VOCABULARY = len(vocabulary())


def tokenizer_keys():
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": vocabulary(),
        "tokenizer.ggml.token_type": [3] * len(SPECIALS) + [1] * (VOCABULARY - len(SPECIALS)),
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }


class Draw:
    """Random tensors of one seed."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def matrix(self, *shape, gain=1.2):
        return self.random.normal(0, gain / np.sqrt(shape[-1]), shape).astype(np.float32)

    def vector(self, width, centre=1.0):
        return (centre + self.random.uniform(-0.5, 0.5, width)).astype(np.float32)


def attention_tensors(draw, p, width, heads, kv_heads, head_width, gain):
    return {
        p + "attn_norm.weight": draw.vector(width),
        p + "attn_q.weight": draw.matrix(heads * head_width, width, gain=gain),
        p + "attn_k.weight": draw.matrix(kv_heads * head_width, width, gain=gain),
        p + "attn_v.weight": draw.matrix(kv_heads * head_width, width),
        p + "attn_output.weight": draw.matrix(width, heads * head_width),
    }


def gated_tensors(draw, p, width, inner, suffix="", experts=()):
    return {
        p + f"ffn_gate{suffix}.weight": draw.matrix(*experts, inner, width),
        p + f"ffn_up{suffix}.weight": draw.matrix(*experts, inner, width),
        p + f"ffn_down{suffix}.weight": draw.matrix(*experts, width, inner),
    }


def common_keys(architecture, layers, width, inner, heads, kv_heads, head_width, base):
    values = {
        "context_length": 512,
        "embedding_length": width,
        "block_count": layers,
        "feed_forward_length": inner,
        "attention.head_count": heads,
        "attention.head_count_kv": kv_heads,
        "attention.key_length": head_width,
        "attention.value_length": head_width,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.dimension_count": head_width,
        "rope.freq_base": base,
        "vocab_size": VOCABULARY,
    }
    keys = {
        "general.architecture": architecture,
        "general.name": "tiny random " + architecture,
        "general.license": "cc0-1.0",
    }
    return keys | {f"{architecture}.{key}": value for key, value in values.items()} | tokenizer_keys()


def gemma2(draw):
    layers, width, inner, heads, kv_heads, head_width = 4, 64, 96, 4, 2, 32
    keys = common_keys("gemma2", layers, width, inner, heads, kv_heads, head_width, 10000.0)
    keys["gemma2.attention.sliding_window"] = 16
    keys["gemma2.attn_logit_softcapping"] = 50.0
    keys["gemma2.final_logit_softcapping"] = 30.0
    tensors = {
        "token_embd.weight": draw.matrix(VOCABULARY, width, gain=4.0),
        "output_norm.weight": draw.vector(width, 2.0),
    }
    for layer in range(layers):
        p = f"blk.{layer}."
        # Scores that the cap of 50 bends.
        tensors |= attention_tensors(draw, p, width, heads, kv_heads, head_width, gain=2.5)
        tensors[p + "post_attention_norm.weight"] = draw.vector(width)
        tensors[p + "ffn_norm.weight"] = draw.vector(width)
        tensors[p + "post_ffw_norm.weight"] = draw.vector(width)
        tensors |= gated_tensors(draw, p, width, inner)
    return keys, tensors


def qwen2moe(draw):
    layers, width, inner, heads, kv_heads, head_width = 2, 64, 128, 4, 2, 16
    experts, expert_inner, shared_inner = 8, 32, 64
    keys = common_keys("qwen2moe", layers, width, inner, heads, kv_heads, head_width, 1e6)
    keys["qwen2moe.expert_count"] = experts
    keys["qwen2moe.expert_used_count"] = 3
    keys["qwen2moe.expert_feed_forward_length"] = expert_inner
    keys["qwen2moe.expert_shared_feed_forward_length"] = shared_inner
    tensors = {
        "token_embd.weight": draw.matrix(VOCABULARY, width, gain=8.0),
        "output_norm.weight": draw.vector(width),
        "output.weight": draw.matrix(VOCABULARY, width, gain=2.0),
    }
    for layer in range(layers):
        p = f"blk.{layer}."
        tensors |= attention_tensors(draw, p, width, heads, kv_heads, head_width, gain=1.6)
        for part, count in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
            tensors[p + f"attn_{part}.bias"] = draw.vector(count * head_width, 0.0)
        tensors[p + "ffn_norm.weight"] = draw.vector(width)
        tensors[p + "ffn_gate_inp.weight"] = draw.matrix(experts, width, gain=2.0)
        tensors |= gated_tensors(draw, p, width, expert_inner, "_exps", (experts,))
        tensors[p + "ffn_gate_inp_shexp.weight"] = draw.matrix(width, gain=1.5)
        tensors |= gated_tensors(draw, p, width, shared_inner, "_shexp")
    return keys, tensors


def phi3_long(draw):
    layers, width, inner, heads, kv_heads, head_width = 2, 64, 96, 4, 2, 24
    keys = common_keys("phi3", layers, width, inner, heads, kv_heads, head_width, 10000.0)
    keys["phi3.rope.dimension_count"] = 16
    keys["phi3.rope.scaling.original_context_length"] = 32
    keys["phi3.rope.scaling.attn_factor"] = float(np.sqrt(1 + np.log(512 / 32) / np.log(32)))
    tensors = {
        "token_embd.weight": draw.matrix(VOCABULARY, width, gain=8.0),
        "output_norm.weight": draw.vector(width),
        "output.weight": draw.matrix(VOCABULARY, width, gain=2.0),
        "rope_factors_long.weight": draw.random.uniform(1, 8, 8).astype(np.float32),
        "rope_factors_short.weight": draw.random.uniform(1, 2, 8).astype(np.float32),
    }
    for layer in range(layers):
        p = f"blk.{layer}."
        apart = attention_tensors(draw, p, width, heads, kv_heads, head_width, gain=1.6)
        joined = np.concatenate([apart.pop(p + f"attn_{part}.weight") for part in "qkv"])
        tensors |= apart | {p + "attn_qkv.weight": joined, p + "ffn_norm.weight": draw.vector(width)}
        tensors[p + "ffn_up.weight"] = draw.matrix(2 * inner, width)
        tensors[p + "ffn_down.weight"] = draw.matrix(width, inner)
    return keys, tensors


# Name, maker, the parts whose absence must show, and the context where one makes a difference.
MODELS = [
    ("tiny-gemma2", gemma2, ["window", "attn_logit_softcapping", "final_logit_softcapping"], None),
    ("tiny-qwen2moe", qwen2moe, ["biases", "raw shares", "shared gate", "shared expert"], None),
    ("tiny-phi3-long", phi3_long, ["factors", "magnitude"], 512),
    ("tiny-phi3-short", phi3_long, ["factors", "magnitude"], 32),
]


def prompts():
    random = np.random.default_rng(2024)
    text = [len(SPECIALS) + byte for byte in b"Once upon a time"]
    drawn = {f"s{n}": [int(x) for x in random.integers(len(SPECIALS), VOCABULARY, n)] for n in (3, 64)}
    return {"s3": drawn["s3"], "s17": [1, *text], "s64": drawn["s64"]}


def answer(reference, prompt):
    """-> (greedy tokens, logits of prompt and answer, the closest greedy choice)"""
    ids, margin = list(prompt), np.inf
    for _ in range(GREEDY_TOKENS):
        last = reference.logits(ids)[-1]
        best = np.sort(last)[-2:]
        margin = min(margin, best[1] - best[0])
        if margin < GREEDY_MARGIN_MIN:
            break
        ids.append(int(last.argmax()))
    return ids[len(prompt) :], reference.logits(ids), margin


def parts_matter(path, parts, context, ids, logits):
    return {part: float(np.abs(Reference(path, [part], context).logits(ids) - logits).max()) for part in parts}


def try_seed(folder, name, maker, parts, context, seed):
    """The model's entry of the manifest, or None where a margin is too small. Leaves the model's file."""
    path = folder / f"{name}.f32.gguf"
    gguf_f32.write(path, *maker(Draw(seed)))
    reference = Reference(path, context=context)
    fitting = {s: p for s, p in prompts().items() if context is None or len(p) + GREEDY_TOKENS <= context}
    entry = {"arch": reference.architecture, "file": path.name, "seed": seed, "sequences": {}}
    entry["reference"] = "own float64 (scripts/oracles)"
    for prompt in fitting.values():  # most seeds end here
        reference.logits(prompt)
        if reference.router_gap < ROUTER_GAP_MIN:
            return None
    for sequence, prompt in fitting.items():
        greedy, logits, margin = answer(reference, prompt)
        if margin < GREEDY_MARGIN_MIN or reference.router_gap < ROUTER_GAP_MIN:
            return None
        file = f"{name}.{sequence}.logits.npy"
        np.save(folder / file, logits.astype(np.float32))
        entry["sequences"][sequence] = {
            "prompt": prompt,
            "greedy": greedy,
            "logits": file,
            "min_greedy_margin": round(float(margin), 5),
        }
    # The last sequence is the longest.
    entry["parts"] = parts_matter(path, parts, context, prompt + greedy, logits)
    entry["max_abs_logit"] = round(float(np.abs(logits).max()), 3)
    if np.isfinite(reference.router_gap):
        entry["min_router_gap"] = float(reference.router_gap)
    return entry if min(entry["parts"].values()) > PART_MATTERS_MIN else None


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {}
    for name, maker, parts, context in MODELS:
        for seed in range(1, 2000):
            entry = try_seed(folder, name, maker, parts, context, seed)
            if entry is not None:
                break
        else:
            raise SystemExit(f"{name}: no seed has the margins")
        manifest[name + ".f32"] = entry
        print(name, {k: v for k, v in entry.items() if k != "sequences"})
    (folder / "families.json").write_text(json.dumps(manifest) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
