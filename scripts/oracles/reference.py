"""What a tiny model's file means, in float64 and as plainly as can be: one sequence, every score at once.

Written from the published descriptions of the architectures (Gemma Team, "Gemma 2", 2024; Qwen Team,
"Qwen1.5-MoE" and "Qwen2", 2024; Microsoft, "Phi-3", 2024; Ding et al., "LongRoPE", 2024), not from the server's code. `without` switches a part off, so that a maker of
oracles can see that it matters.
"""

import math

import numpy as np

import gguf_f32


def softmax(x):
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


class Reference:
    def __init__(self, path, without=(), context=None):
        """context: the positions that a sequence may have, where the model has rotary factors for long and short."""
        keys, tensors = gguf_f32.read(path)
        self.architecture = keys["general.architecture"]
        self.keys = {k.removeprefix(self.architecture + "."): v for k, v in keys.items()}
        self.tensors = {name: array.astype(np.float64) for name, array in tensors.items()}
        self.without = set(without)
        self.gemma = self.architecture == "gemma2"
        self.phi = self.architecture == "phi3"
        self.turned = self.keys["rope.dimension_count"]  # leading values of a head that turn
        self.context = context
        self.heads = self.keys["attention.head_count"]
        self.kv_heads = self.keys["attention.head_count_kv"]
        self.head_width = self.keys["attention.key_length"]
        self.router_gap = math.inf  # the smallest distance of a chosen expert's probability from the next one's

    def tensor(self, layer, name):
        return self.tensors[f"blk.{layer}.{name}"]

    def norm(self, x, weight):
        mean = (x * x).mean(-1, keepdims=True)
        return x / np.sqrt(mean + self.keys["attention.layer_norm_rms_epsilon"]) * weight

    def cap(self, x, key):
        cap = self.keys.get(key, 0)
        return cap * np.tanh(x / cap) if cap and key not in self.without else x

    def rotate(self, x):
        """x [tokens, heads, width]: value i turns with value i + width / 2."""
        half = self.turned // 2
        frequencies = self.keys["rope.freq_base"] ** (-np.arange(half) / half) / self.factors()
        angles = np.arange(len(x))[:, None, None] * frequencies
        magnitude = 1 if "magnitude" in self.without else self.keys.get("rope.scaling.attn_factor", 1)
        cos, sin = np.cos(angles) * magnitude, np.sin(angles) * magnitude
        low, high, rest = x[..., :half], x[..., half : self.turned], x[..., self.turned :]
        return np.concatenate([low * cos - high * sin, high * cos + low * sin, rest], -1)

    def factors(self):
        if self.context is None or "factors" in self.without:
            return 1
        length = "long" if self.context > self.keys["rope.scaling.original_context_length"] else "short"
        return self.tensors[f"rope_factors_{length}.weight"]

    def projections(self, layer, x):
        if not self.phi:
            return [self.project(layer, x, part) for part in "qkv"]
        joined = x @ self.tensor(layer, "attn_qkv.weight").T
        queries, keys = self.heads * self.head_width, self.kv_heads * self.head_width
        return np.split(joined, [queries, queries + keys], -1)

    def project(self, layer, x, name):
        out = x @ self.tensor(layer, f"attn_{name}.weight").T
        bias = self.tensors.get(f"blk.{layer}.attn_{name}.bias")
        return out if bias is None or "biases" in self.without else out + bias

    def attention(self, layer, x):
        tokens = len(x)
        query, key, value = (part.reshape(tokens, -1, self.head_width) for part in self.projections(layer, x))
        query, key = self.rotate(query), self.rotate(key)
        share = self.heads // self.kv_heads
        key, value = np.repeat(key, share, 1), np.repeat(value, share, 1)
        scores = np.einsum("thd,shd->hts", query, key) / math.sqrt(self.head_width)
        scores = self.cap(scores, "attn_logit_softcapping")
        back = np.arange(tokens)[:, None] - np.arange(tokens)[None]
        seen = back >= 0
        # The first layer has the window, the second sees everything, and so on.
        if self.gemma and layer % 2 == 0 and "window" not in self.without:
            seen &= back < self.keys["attention.sliding_window"]
        weights = softmax(np.where(seen, scores, -np.inf))
        attended = np.einsum("hts,shd->thd", weights, value).reshape(tokens, -1)
        return attended @ self.tensor(layer, "attn_output.weight").T

    def gated(self, layer, x, suffix=""):
        if self.phi:
            gate, up = np.split(self.tensor(layer, "ffn_up.weight"), 2)
        else:
            gate, up = (self.tensor(layer, f"ffn_{part}{suffix}.weight") for part in ("gate", "up"))
        down = self.tensor(layer, f"ffn_down{suffix}.weight")
        activation = gelu_tanh if self.gemma else silu
        return (activation(x @ gate.T) * (x @ up.T)) @ down.T

    def experts(self, layer, x):
        shares = softmax(x @ self.tensor(layer, "ffn_gate_inp.weight").T)
        used = self.keys["expert_used_count"]
        order = np.argsort(-shares, axis=-1, kind="stable")
        ranked = np.take_along_axis(shares, order, -1)
        self.router_gap = min(self.router_gap, (ranked[:, used - 1] - ranked[:, used]).min())
        gate, up, down = (self.tensor(layer, f"ffn_{part}_exps.weight") for part in ("gate", "up", "down"))
        out = np.zeros_like(x)
        for token, row in enumerate(x):
            weights = ranked[token, :used]  # as they are: they need not sum to 1
            if "raw shares" in self.without:
                weights = weights / weights.sum()
            for weight, expert in zip(weights, order[token]):
                out[token] += weight * (down[expert] @ (silu(gate[expert] @ row) * (up[expert] @ row)))
        shared = self.gated(layer, x, "_shexp")
        if "shared gate" not in self.without:
            shared = shared * sigmoid(x @ self.tensor(layer, "ffn_gate_inp_shexp.weight"))[:, None]
        return out if "shared expert" in self.without else out + shared

    def block(self, layer, x):
        attended = self.attention(layer, self.norm(x, self.tensor(layer, "attn_norm.weight")))
        if self.gemma:
            attended = self.norm(attended, self.tensor(layer, "post_attention_norm.weight"))
        x = x + attended
        inner = self.norm(x, self.tensor(layer, "ffn_norm.weight"))
        if self.phi:
            return x + self.gated(layer, inner)
        if not self.gemma:
            return x + self.experts(layer, inner)
        return x + self.norm(self.gated(layer, inner), self.tensor(layer, "post_ffw_norm.weight"))

    def logits(self, ids):
        """-> [tokens, vocabulary]: row i is what comes after token i."""
        embedding = self.tensors["token_embd.weight"]
        x = embedding[ids]
        if self.gemma:
            x = x * float(np.sqrt(np.float32(self.keys["embedding_length"])))
        for layer in range(self.keys["block_count"]):
            x = self.block(layer, x)
        x = self.norm(x, self.tensors["output_norm.weight"])
        return self.cap(x @ self.tensors.get("output.weight", embedding).T, "final_logit_softcapping")
