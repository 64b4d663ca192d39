"""What six public models take, computed from their published configurations alone: the numbers that
tests/unit/apps/plan_models_test.cc holds `remontoir plan` to.

Usage: plan_numbers.py      (plain Python)
Weights: matrices at the bits a weight of their panels (kernels/packing.h), vectors in float32, the embedding left in the
file unless it is the output matrix too. Activations: rounds of 512 tokens, 128 rows of logits, 8 sequences, 2 threads,
contexts of 8192. Keys and values in float16.
"""
ROWS, LOGIT_ROWS, SEQUENCES, CONTEXT = 512, 128, 8, 8192
# Bits a weight in panels: quants, and the scales of 16 rows of 256 values.
BITS = {"F32": 32, "BF16": 16, "Q8_0": 8.5, "Q4_0": 4.5, "Q4_K": 4.625, "Q6_K": 6.5625, "MXFP4": 5}


def model(name, layers, width, heads, kv_heads, key, value, vocabulary, experts, used, expert_width, attention, vectors,
          bits, dense_layers=0, dense_width=0, shared_width=0, tied=False, latent_widths=(), latent_inputs=()):
    """attention: [values, type] of a layer's dense matrices beside feed-forward; vectors: values of a layer's vectors;
    bits: types of experts, other feed-forward matrices, the output and the embedding; latent_widths, latent_inputs:
    activations of latent attention, and those of them that products read."""
    expert_type, dense_type, output_type, embedding_type = bits
    moe_layers = layers - dense_layers
    matrices = [(layers * count, kind) for count, kind in attention]
    matrices.append((moe_layers * experts * 3 * width * expert_width, expert_type))
    matrices.append((moe_layers * experts * width, "F32"))  # routers
    residual = dense_width if dense_layers == 0 else 0      # a dense branch in every layer
    matrices.append(((dense_layers or (layers if residual else 0)) * 3 * width * dense_width, dense_type))
    matrices.append((moe_layers * 3 * width * shared_width, dense_type))
    matrices.append((vocabulary * width, output_type))
    parameters = sum(count for count, _ in matrices) + (0 if tied else vocabulary * width) + layers * vectors + width
    weights = sum(count * BITS[kind] / 8 for count, kind in matrices) + 4 * (layers * vectors + width)
    kv_values = kv_heads * (key + value)
    # Float32 activations by width of a row, and 48 bytes for every 32 values of their 8-bit forms.
    token = [width, width, heads * key, kv_heads * key, kv_heads * value, heads * value, width, experts]
    token += latent_widths
    forms = [2 * width, 2 * heads * value] + [2 * inner for inner in latent_inputs]
    if dense_width:
        token += [dense_width, dense_width]
        forms.append(2 * dense_width)
    if shared_width:
        token += [shared_width, shared_width]
        forms.append(2 * shared_width)
    if shared_width or residual:
        token.append(width)  # what joins the experts' output
    expert = [expert_width, expert_width, width]
    activations = 4 * ROWS * (sum(token) + used * sum(expert)) + 48 / 32 * ROWS * (sum(forms) + used * expert_width)
    activations += LOGIT_ROWS * (4 * width + 48 / 32 * 2 * width + 4 * vocabulary)
    state = 8 + 4 * value  # of a softmax that is split over threads
    activations += 8 * (CONTEXT // 1024 + 1) * heads * state
    print(f"{name:16s} parameters {parameters:>16,d}  weights {weights:>18,.0f}  kv a token {2 * layers * kv_values:>8,d}"
          f"  activations {activations:>15,.0f}")


def grouped(width, heads, kv_heads, head, kind):
    """Query, key, value and output matrices."""
    return [(2 * width * heads * head + 2 * width * kv_heads * head, kind)]


model("Grok-1", 64, 6144, 48, 8, 128, 128, 131072, 8, 2, 32768, grouped(6144, 48, 8, 128, "Q8_0"), 4 * 6144,
      ("Q4_K", "Q4_K", "Q6_K", "Q6_K"), tied=True)
model("Grok-2", 64, 8192, 64, 8, 128, 128, 131072, 8, 2, 16384, grouped(8192, 64, 8, 128, "Q8_0"), 4 * 8192,
      ("Q4_K", "Q4_K", "Q6_K", "Q4_K"), dense_width=32768)
model("Mixtral-8x7B", 32, 4096, 32, 8, 128, 128, 32000, 8, 2, 14336, grouped(4096, 32, 8, 128, "Q8_0"), 2 * 4096,
      ("Q4_K", "Q4_K", "Q6_K", "Q4_K"))
model("Qwen3-30B-A3B", 48, 2048, 32, 4, 128, 128, 151936, 128, 8, 768, grouped(2048, 32, 4, 128, "Q4_K"),
      2 * 2048 + 2 * 128, ("Q4_K", "Q4_K", "Q6_K", "Q4_K"))
model("GPT-OSS-120B", 36, 2880, 64, 8, 64, 64, 201088, 128, 4, 2880, grouped(2880, 64, 8, 64, "Q8_0"),
      2 * 2880 + 64 + 64 * 64 + 2 * 8 * 64 + 2880 + 128 + 128 * 3 * 2880, ("MXFP4", "Q8_0", "Q8_0", "Q8_0"))
# Multi-head latent attention: queries by a narrow matrix, one latent key of 512 + 64 values a token, two products a head.
model("DeepSeek-V3", 61, 7168, 128, 1, 576, 512, 129280, 256, 8, 2048,
      [(7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 128 * 128 * 7168, "Q4_K"), (128 * 2 * 128 * 512, "Q8_0")],
      2 * 7168 + 1536 + 512 + 256, ("Q4_K", "Q4_K", "Q6_K", "Q4_K"), dense_layers=3, dense_width=18432, shared_width=2048,
      latent_widths=(1536, 128 * 192, 576, 128 * 128), latent_inputs=(1536, 128 * 192, 128 * 128))
