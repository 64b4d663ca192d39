"""Tiny random models for what the other oracles leave out, with reference logits in float64:

  tiny-grok2-long      Grok-2 with attention.temperature_length 12 and YaRN keys, which only llama.cpp applies
  tiny-deepseek3       DeepSeek-V3: sigmoid routing in groups with a selection bias, YaRN with its scale in the scores
  tiny-deepseek2-lite  DeepSeek-V2-Lite: no query compression, two shared experts, and an older file's attn_kv_b

Usage: python scripts/oracles/tiny_grok_deepseek.py FOLDER   (wants NumPy and gguf)

The references are plain: one sequence, all positions at once, one expert after the other. They read the weights as a
loader finds them in the file. Seeds are tried until no greedy choice and no choice of experts is close.
"""
import json
import pathlib
import sys

import gguf
import numpy as np

VOCABULARY = 288  # as wide as the other tiny models'
GREEDY = 16
MARGIN_MIN = 0.02   # between the best two logits of a greedy choice
PART_MATTERS_MIN = 0.05  # change of some logit where a part of the model is left out
CHOICE_MIN = 3e-4   # between the last chosen and the first dropped expert or group, in compared scores
F32, Q8_0 = gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.Q8_0


# --- Blocks ---------------------------------------------------------------------------------------------------

def rms_norm(x, weight, epsilon):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon) * weight


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def gelu_tanh(x):
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def cap(x, limit):
    return limit * np.tanh(x / limit) if limit else x


def frequencies(width, base, yarn=None):
    """yarn: factor, original context, beta_fast, beta_slow"""
    i = np.arange(width // 2)
    plain = base ** (-2.0 * i / width)
    if yarn is None:
        return plain
    factor, context, beta_fast, beta_slow = yarn
    turning = lambda turns: width * np.log(context / (turns * 2 * np.pi)) / (2 * np.log(base))
    low, high = max(np.floor(turning(beta_fast)), 0), min(np.ceil(turning(beta_slow)), width - 1)
    ramp = np.clip((i - low) / max(high - low, 0.001), 0, 1)
    return plain / factor * ramp + plain * (1 - ramp)


def rotate(x, freqs, magnitude, halves):
    """x [tokens][heads][width]"""
    angle = np.arange(x.shape[0])[:, None, None] * freqs
    c, s = np.cos(angle) * magnitude, np.sin(angle) * magnitude
    out = np.empty_like(x)
    first, second = (slice(0, len(freqs)), slice(len(freqs), None)) if halves else (slice(0, None, 2), slice(1, None, 2))
    a, b = x[..., first], x[..., second]
    out[..., first], out[..., second] = a * c - b * s, b * c + a * s
    return out


def attend(q, k, v, scale, limit=0, factor=None):
    """q, k, v [tokens][heads][width]; factor [tokens] multiplies a query's capped scores"""
    tokens = q.shape[0]
    scores = cap(np.einsum("qhd,khd->hqk", q, k) * scale, limit)
    if factor is not None:
        scores = scores * factor[None, :, None]
    scores = np.where(np.tril(np.ones((tokens, tokens), bool)), scores, -np.inf)
    return np.einsum("hqk,khd->qhd", softmax(scores), v).reshape(tokens, -1)


def best(scores, count, gaps):
    """The highest scores' places, ties to the lower; notes how near the first one left out came"""
    order = np.argsort(-scores, kind="stable")
    if count < len(order):
        gaps.append(scores[order[count - 1]] - scores[order[count]])
    return order[:count]


def feed_forward(x, gate, up, down, act):
    return (act(x @ gate.T) * (x @ up.T)) @ down.T


# --- Models ---------------------------------------------------------------------------------------------------

def grok(w, c, ids, gaps, llama_cpp=False):
    tokens, heads, width = len(ids), c["heads"], c["head_width"]
    x = w["token_embd.weight"][ids] * c["embedding_scale"]
    freqs, magnitude = frequencies(width, c["base"]), 1
    factor = np.ones(tokens)
    if llama_cpp:
        freqs, magnitude = frequencies(width, c["base"], c["yarn"]), 1 + 0.1 * np.log(c["yarn"][0])
    else:
        positions = np.arange(tokens)
        late = positions > c["temperature_length"]
        factor[late] = np.log2(positions[late]) / np.log2(c["temperature_length"])
    for layer in range(c["layers"]):
        t = lambda name: w[f"blk.{layer}.{name}.weight"]
        norm = lambda y, name: rms_norm(y, t(name), c["epsilon"])
        h = norm(x, "attn_norm")
        q = rotate((h @ t("attn_q").T).reshape(tokens, heads, width), freqs, magnitude, True)
        k = rotate((h @ t("attn_k").T).reshape(tokens, -1, width), freqs, magnitude, True)
        v = (h @ t("attn_v").T).reshape(tokens, -1, width)
        share = heads // k.shape[1]
        a = attend(q, k.repeat(share, 1), v.repeat(share, 1), c["attention_scale"], c["attention_cap"], factor)
        x = x + norm(a @ t("attn_output").T, "attn_output_norm")
        h = norm(x, "ffn_norm")
        logits = h @ t("ffn_gate_inp").T
        p = softmax(logits if llama_cpp else cap(logits, c["router_cap"]))
        y = feed_forward(h, t("ffn_gate"), t("ffn_up"), t("ffn_down"), gelu_tanh)
        for row in range(tokens):
            chosen = best(np.log(p[row]), c["used"], gaps)
            gates = p[row, chosen] / (p[row, chosen].sum() if llama_cpp else 1)
            for e, g in zip(chosen, gates):
                y[row] += g * feed_forward(h[row], t("ffn_gate_exps")[e], t("ffn_up_exps")[e], t("ffn_down_exps")[e], gelu_tanh)
        x = x + norm(y / np.sqrt(2), "post_ffw_norm")
    x = rms_norm(x, w["output_norm.weight"], c["epsilon"])
    return cap(x @ w["output.weight"].T * c["logit_scale"], c["logit_cap"])


def choose(c, logits, bias, gaps):
    """DeepSeek's choice of experts for one token: (experts, weights)"""
    score = sigmoid(logits) if c["sigmoid"] else softmax(logits)
    compared = score if c["sigmoid"] else np.log(score)
    compared = compared + bias if bias is not None else compared
    groups = compared.reshape(c["groups"], -1)
    worth = np.sort(groups, -1)[:, -2:].sum(-1) if c["sigmoid"] else groups.max(-1)
    open_groups = best(worth, c["groups_used"], gaps)
    shut = np.ones(c["groups"], bool)
    shut[open_groups] = False
    chosen = best(np.where(np.repeat(shut, groups.shape[1]), -np.inf, compared), c["used"], gaps)
    weights = score[chosen]
    return chosen, (weights / weights.sum() if c["renormalise"] else weights) * c["weights_scale"]


def deepseek(w, c, ids, gaps):
    tokens, heads, rank = len(ids), c["heads"], c["rank"]
    plain, rotary, value = c["plain_width"], c["rotary_width"], c["value_width"]
    x = w["token_embd.weight"][ids]
    freqs = frequencies(rotary, c["base"], c.get("yarn"))
    scale = (plain + rotary) ** -0.5
    if "yarn" in c:
        scale *= (1 + c["log_multiplier"] * np.log(c["yarn"][0])) ** 2
    for layer in range(c["layers"]):
        t = lambda name: w[f"blk.{layer}.{name}.weight"]
        h = rms_norm(x, t("attn_norm"), c["epsilon"])
        if "query_rank" in c:
            q = rms_norm(h @ t("attn_q_a").T, t("attn_q_a_norm"), c["epsilon"]) @ t("attn_q_b").T
        else:
            q = h @ t("attn_q").T
        q = q.reshape(tokens, heads, plain + rotary)
        q = np.concatenate([q[..., :plain], rotate(q[..., plain:], freqs, 1, False)], -1)
        compressed = h @ t("attn_kv_a_mqa").T
        latent = rms_norm(compressed[:, :rank], t("attn_kv_a_norm"), c["epsilon"])
        turned = rotate(compressed[:, None, rank:], freqs, 1, False).repeat(heads, 1)
        if c["old_file"]:
            kv = (latent @ t("attn_kv_b").T).reshape(tokens, heads, plain + value)
            k, v = kv[..., :plain], kv[..., plain:]
        else:
            k = np.einsum("tr,hrn->thn", latent, t("attn_k_b"))
            v = np.einsum("tr,hvr->thv", latent, t("attn_v_b"))
        x = x + attend(q, np.concatenate([k, turned], -1), v, scale) @ t("attn_output").T
        h = rms_norm(x, t("ffn_norm"), c["epsilon"])
        if layer < c["dense_layers"]:
            x = x + feed_forward(h, t("ffn_gate"), t("ffn_up"), t("ffn_down"), silu)
            continue
        y = feed_forward(h, t("ffn_gate_shexp"), t("ffn_up_shexp"), t("ffn_down_shexp"), silu)
        bias = w.get(f"blk.{layer}.exp_probs_b.bias") if c.get("biased", True) else None
        for row in range(tokens):
            for e, g in zip(*choose(c, h[row] @ t("ffn_gate_inp").T, bias, gaps)):
                y[row] += g * feed_forward(h[row], t("ffn_gate_exps")[e], t("ffn_up_exps")[e], t("ffn_down_exps")[e], silu)
        x = x + y
    return rms_norm(x, w["output_norm.weight"], c["epsilon"]) @ w["output.weight"].T


# --- Files ----------------------------------------------------------------------------------------------------

GROK_LONG = dict(
    layers=2, width=64, heads=4, kv_heads=2, head_width=16, feed_forward=96, expert_width=64, experts=8, used=2, epsilon=1e-5,
    base=208533496.0, yarn=(16.0, 64, 8.0, 1.0), temperature_length=12, embedding_scale=8.0, logit_scale=0.5, attention_scale=0.25,
    attention_cap=30.0, router_cap=30.0, logit_cap=50.0)
DEEPSEEK3 = dict(
    layers=3, width=64, heads=2, rank=64, query_rank=32, plain_width=32, rotary_width=32, value_width=32, feed_forward=96,
    expert_width=32, experts=16, used=4, shared=1, groups=4, groups_used=2, sigmoid=True, renormalise=True, weights_scale=2.5,
    dense_layers=1, epsilon=1e-6, base=10000.0, yarn=(8.0, 64, 32.0, 1.0), log_multiplier=0.1, expert_gain=0.5, old_file=False)
DEEPSEEK2_LITE = dict(
    layers=2, width=64, heads=4, rank=32, plain_width=16, rotary_width=8, value_width=24, feed_forward=96, expert_width=32,
    experts=8, used=3, shared=2, groups=1, groups_used=1, sigmoid=False, renormalise=False, weights_scale=1.0, dense_layers=1,
    epsilon=1e-6, base=10000.0, old_file=True)


class Draw:
    """Random weights by name, in the order of the file"""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.tensors = {}

    def matrix(self, name, *shape, gain=1.0):
        self.tensors[name] = (self.random.standard_normal(shape) * gain / np.sqrt(shape[-1])).astype(np.float32)

    def vector(self, name, size, low=0.5, high=1.5):
        self.tensors[name] = self.random.uniform(low, high, size).astype(np.float32)

    def outer(self, c, embedding_gain=1.0, output_gain=4.0):
        self.matrix("token_embd.weight", VOCABULARY, c["width"], gain=embedding_gain)
        self.vector("output_norm.weight", c["width"])
        self.matrix("output.weight", VOCABULARY, c["width"], gain=output_gain)

    def experts(self, p, c):
        self.matrix(p + "ffn_gate_inp.weight", c["experts"], c["width"], gain=4)
        for name in ("gate", "up"):
            self.matrix(p + f"ffn_{name}_exps.weight", c["experts"], c["expert_width"], c["width"])
        # Experts that weigh less than the rest let a choice that flips by rounding change less.
        self.matrix(p + "ffn_down_exps.weight", c["experts"], c["width"], c["expert_width"], gain=c.get("expert_gain", 1.0))

    def dense(self, p, c, feed_forward, suffix=""):
        for name in ("gate", "up"):
            self.matrix(p + f"ffn_{name}{suffix}.weight", feed_forward, c["width"])
        self.matrix(p + f"ffn_down{suffix}.weight", c["width"], feed_forward)


def draw_grok(c, seed):
    d = Draw(seed)
    d.outer(c)
    for layer in range(c["layers"]):
        p = f"blk.{layer}."
        for name in ("attn_norm", "attn_output_norm", "ffn_norm", "post_ffw_norm"):
            d.vector(p + name + ".weight", c["width"])
        d.matrix(p + "attn_q.weight", c["heads"] * c["head_width"], c["width"], gain=2)
        d.matrix(p + "attn_k.weight", c["kv_heads"] * c["head_width"], c["width"], gain=2)
        d.matrix(p + "attn_v.weight", c["kv_heads"] * c["head_width"], c["width"])
        d.matrix(p + "attn_output.weight", c["width"], c["heads"] * c["head_width"])
        d.experts(p, c)
        d.dense(p, c, c["feed_forward"])
    return d.tensors


def draw_deepseek(c, seed):
    d = Draw(seed)
    d.outer(c, embedding_gain=8, output_gain=2)
    heads, key = c["heads"], c["plain_width"] + c["rotary_width"]
    for layer in range(c["layers"]):
        p = f"blk.{layer}."
        d.vector(p + "attn_norm.weight", c["width"])
        if "query_rank" in c:
            d.matrix(p + "attn_q_a.weight", c["query_rank"], c["width"])
            d.vector(p + "attn_q_a_norm.weight", c["query_rank"])
            d.matrix(p + "attn_q_b.weight", heads * key, c["query_rank"], gain=2)
        else:
            d.matrix(p + "attn_q.weight", heads * key, c["width"], gain=2)
        d.matrix(p + "attn_kv_a_mqa.weight", c["rank"] + c["rotary_width"], c["width"])
        d.vector(p + "attn_kv_a_norm.weight", c["rank"])
        if c["old_file"]:
            d.matrix(p + "attn_kv_b.weight", heads * (c["plain_width"] + c["value_width"]), c["rank"])
        else:
            d.matrix(p + "attn_k_b.weight", heads, c["rank"], c["plain_width"])
            d.matrix(p + "attn_v_b.weight", heads, c["value_width"], c["rank"])
        d.matrix(p + "attn_output.weight", c["width"], heads * c["value_width"])
        d.vector(p + "ffn_norm.weight", c["width"])
        if layer < c["dense_layers"]:
            d.dense(p, c, c["feed_forward"])
            continue
        d.experts(p, c)
        if c["sigmoid"]:
            d.vector(p + "exp_probs_b.bias", c["experts"], -0.3, 0.3)
        d.dense(p, c, c["expert_width"] * c["shared"], "_shexp")
    return d.tensors


def common_keys(c):
    keys = dict(context_length=512, embedding_length=c["width"], block_count=c["layers"], feed_forward_length=c["feed_forward"],
                expert_feed_forward_length=c["expert_width"], expert_count=c["experts"], expert_used_count=c["used"],
                vocab_size=VOCABULARY)
    keys["attention.head_count"] = c["heads"]
    keys["attention.layer_norm_rms_epsilon"] = c["epsilon"]
    keys["rope.freq_base"] = c["base"]
    if "yarn" in c:
        factor, context, beta_fast, beta_slow = c["yarn"]
        keys |= {"rope.scaling.type": "yarn", "rope.scaling.factor": factor, "rope.scaling.original_context_length": context,
                 "rope.scaling.yarn_beta_fast": beta_fast, "rope.scaling.yarn_beta_slow": beta_slow}
    return keys


def grok_keys(c):
    return common_keys(c) | {
        "attention.head_count_kv": c["kv_heads"], "attention.key_length": c["head_width"], "attention.value_length": c["head_width"],
        "rope.dimension_count": c["head_width"], "embedding_scale": c["embedding_scale"], "logit_scale": c["logit_scale"],
        "attention.output_scale": c["attention_scale"], "attn_logit_softcapping": c["attention_cap"],
        "router_logit_softcapping": c["router_cap"], "final_logit_softcapping": c["logit_cap"],
        "attention.temperature_length": c["temperature_length"]}


def deepseek_keys(c):
    key = c["plain_width"] + c["rotary_width"]
    keys = common_keys(c) | {
        "rope.dimension_count": c["rotary_width"], "attention.kv_lora_rank": c["rank"], "leading_dense_block_count": c["dense_layers"],
        "expert_shared_count": c["shared"], "expert_weights_scale": c["weights_scale"], "expert_weights_norm": c["renormalise"],
        "expert_gating_func": 2 if c["sigmoid"] else 1}
    if "query_rank" in c:
        keys["attention.q_lora_rank"] = c["query_rank"]
    if c["groups"] > 1:
        keys |= {"expert_group_count": c["groups"], "expert_group_used_count": c["groups_used"]}
    if "yarn" in c:
        keys["rope.scaling.yarn_log_multiplier"] = c["log_multiplier"]
    if c["old_file"]:
        return keys | {"attention.head_count_kv": c["heads"], "attention.key_length": key, "attention.value_length": c["value_width"]}
    return keys | {"attention.head_count_kv": 1, "attention.key_length": c["rank"] + c["rotary_width"],
                   "attention.value_length": c["rank"], "attention.key_length_mla": key,
                   "attention.value_length_mla": c["value_width"]}


def write(path, architecture, keys, tensors, matrix_type):
    writer = gguf.GGUFWriter(str(path), architecture)
    for name, value in keys.items():
        put = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}[type(value)]
        put(f"{architecture}.{name}", value)
    for name, values in tensors.items():
        kind = matrix_type if values.ndim > 1 else F32
        writer.add_tensor(name, gguf.quants.quantize(values, kind) if kind != F32 else values, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def read(path):
    weights = {}
    for t in gguf.GGUFReader(str(path)).tensors:
        shape = [int(n) for n in reversed(t.shape)]
        weights[t.name] = gguf.quants.dequantize(t.data, t.tensor_type).reshape(shape).astype(np.float64)
    return weights


def prompts():
    random = np.random.default_rng(5)
    return {f"s{n}": [int(i) for i in random.integers(3, VOCABULARY, n)] for n in (3, 17, 64)}


def as_stored(c):
    """Numbers as float32 metadata has them"""
    return {k: float(np.float32(v)) if isinstance(v, float) else v for k, v in c.items()}


def refer(weights, c, model, variants, checked):
    """Sequences with logits of every variant, or None where a choice is close"""
    sequences, arrays = {}, {}
    for name, prompt in prompts().items():
        ids, margins, gaps = list(prompt), [], []
        for _ in range(GREEDY):
            last = model(weights, c, ids, [])[-1]
            order = np.sort(last)
            margins.append(order[-1] - order[-2])
            ids.append(int(last.argmax()))
        entry = dict(prompt=prompt, greedy=ids[len(prompt):], min_greedy_margin=round(float(min(margins)), 5))
        for variant, arguments in variants.items():
            arrays[name, variant] = model(weights, c, ids, gaps, **arguments)
        entry["min_choice_gap"] = round(float(min(gaps)), 6)
        if checked and (min(margins) < MARGIN_MIN or min(gaps) < CHOICE_MIN):
            return None
        sequences[name] = entry
    return sequences, arrays


# name, architecture, configuration, weights, keys, reference, its variants, types of files, and parts that must matter
# as the configuration without them
MODELS = [
    ("tiny-grok2-long", "grok", GROK_LONG, draw_grok, grok_keys, grok, {"logits": {}, "logits_llamacpp": {"llama_cpp": True}}, [F32],
     [{"temperature_length": 1000}, {"router_cap": 0}, {"attention_cap": 0}, {"logit_cap": 0}]),
    ("tiny-deepseek3", "deepseek2", DEEPSEEK3, draw_deepseek, deepseek_keys, deepseek, {"logits": {}}, [F32, Q8_0],
     [{"groups": 1, "groups_used": 1}, {"log_multiplier": 0.0}, {"renormalise": False}, {"weights_scale": 1.0}, {"biased": False},
      {"yarn": (8.0, 1e9, 32.0, 1.0)}]),
    ("tiny-deepseek2-lite", "deepseek2", DEEPSEEK2_LITE, draw_deepseek, deepseek_keys, deepseek, {"logits": {}}, [F32],
     [{"renormalise": True}]),
]


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {}
    for name, architecture, config, draw, keys, model, variants, types, parts in MODELS:
        stored = as_stored(config)
        for seed in range(1, 1000):
            tensors = draw(config, seed)
            referred = refer({k: v.astype(np.float64) for k, v in tensors.items()}, stored, model, variants, True)
            if referred is not None:
                break
        sequences, arrays = referred
        longest = sequences["s64"]["prompt"] + sequences["s64"]["greedy"]
        for part in parts:
            without = model({k: v.astype(np.float64) for k, v in tensors.items()}, stored | part, longest, [])
            change = float(np.abs(without - arrays["s64", "logits"]).max())
            print(name, "without", part, round(change, 3), flush=True)
            assert change > PART_MATTERS_MIN, part
        for kind in types:
            full = f"{name}.{kind.name.lower()}"
            write(folder / f"{full}.gguf", architecture, keys(config), tensors, kind)
            sequences, arrays = refer(read(folder / f"{full}.gguf"), stored, model, variants, False)
            for (sequence, variant), values in arrays.items():
                file = f"{full}.{sequence}.{variant}.npy"
                np.save(folder / file, values.astype(np.float32))
                sequences[sequence][variant] = file
            manifest[full] = dict(file=f"{full}.gguf", seed=seed, sequences=sequences)
            spread = max(float(np.abs(v).max()) for v in arrays.values())
            print(full, "seed", seed, "largest logit", round(spread, 2), {n: (s["min_greedy_margin"], s["min_choice_gap"]) for n, s in sequences.items()}, flush=True)
    (folder / "grok_deepseek.json").write_text(json.dumps(manifest, indent=1) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
