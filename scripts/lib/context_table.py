"""What scripts/compare_context measured, by context and side, and its table."""

import math
import statistics

from measuring import spread

SIDES = ["exact", "auto", "sparse", "llama.cpp"]  # as tables and pictures order them
METRICS = ["ttft_s", "gap_mean_ms", "gap_p99_ms", "density", "residual"]
EXPONENT_FROM = 8192  # tokens: from there to the longest context


def by_context(measured):
    """{context: {side: {metric: its median, lowest and highest, "rounds": how many}}}, both in order."""
    found = {}
    for context in sorted({one["context"] for one in measured}):
        found[context] = {}
        for side in SIDES:
            ones = [one for one in measured if (one["context"], one["side"]) == (context, side)]
            if not ones:
                continue
            found[context][side] = {"rounds": len(ones)}
            for metric in METRICS:
                values = [one[metric] for one in ones if one.get(metric) is not None]
                if values:
                    found[context][side][metric] = spread(values, 4)
    return found


def merged(results):
    """Several runs as one; None where they don't measure the same."""
    first = results[0]
    same = ["model", "peer_model", "rope_base_scale", "threads", "answer_tokens"]
    if any(other[key] != first[key] for other in results[1:] for key in same):
        return None
    return first | {"measured": [one for result in results for one in result["measured"]]}


def exponent(found, side):
    """The side's longest context, and the b by which first tokens grow from EXPONENT_FROM to there, with context ^ b; None
    where it wasn't measured at both."""
    points = [(c, sides[side]["ttft_s"]["median"]) for c, sides in found.items() if side in sides and c >= EXPONENT_FROM]
    if len(points) < 2 or points[0][0] != EXPONENT_FROM:
        return None
    (near, short), (far, long) = points[0], points[-1]
    return far, math.log(long / short) / math.log(far / near)


def digits(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cell(values):
    middle, low, high = (digits(values[key]) for key in ("median", "low", "high"))
    return middle if low == high else f"{middle} ({low}–{high})"


def times(sides, side, metric):
    """How many times as long `exact` takes: above 1, the side is faster."""
    if side == "exact" or "exact" not in sides:
        return "–"
    return f"{sides['exact'][metric]['median'] / sides[side][metric]['median']:.2f}"


def table(result):
    """Markdown: a line for each context and side."""
    found = by_context(result["measured"])
    lines = [
        "| tokens | side | rounds | first token, s | exact / it | step, ms | exact / it | step P99, ms | read exactly | residual |",
        "| --: | --- | --: | --: | --: | --: | --: | --: | --: | --: |",
    ]
    for context, sides in found.items():
        for side, values in sides.items():
            density = f"{100 * values['density']['median']:.1f} %" if "density" in values else "–"
            residual = f"{values['residual']['high']:.2f}" if "residual" in values else "–"
            lines.append(
                f"| {context:,} | {side} | {values['rounds']} | {cell(values['ttft_s'])} | {times(sides, side, 'ttft_s')} | "
                f"{cell(values['gap_mean_ms'])} | {times(sides, side, 'gap_mean_ms')} | {cell(values['gap_p99_ms'])} | "
                f"{density} | {residual} |"
            )
    grows = {side: exponent(found, side) for side in SIDES}
    lines.append("")
    if any(grows.values()):
        powers = [f"{side} {power[1]:.2f} (to {power[0]:,})" for side, power in grows.items() if power]
        lines.append(f"From {EXPONENT_FROM:,} tokens on first tokens grow with context to the power of: {', '.join(powers)}.")
    others = [one["others_share"] for one in result["measured"]]
    lines.append(
        f"{result['model']} ({result['peer_model'] or 'no'} on llama.cpp's side), RoPE base x {result['rope_base_scale']:g}, "
        f"{result['threads']} threads; medians with the lowest and highest; other processes used "
        f"{100 * statistics.median(others):.0f} % of the machine at the median, {100 * max(others):.0f} % at most."
    )
    return "\n".join(lines)
