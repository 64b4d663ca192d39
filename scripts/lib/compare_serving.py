"""Servers under load, in turns: `remontoir serve` by policy and llama.cpp's, the same arrivals for each (scripts/compare_serving)."""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from compare_servers import SEQUENCES, start_ours, start_peer
from measuring import LoadMeter, in_turns, say, spread, this_process

POLICIES = ["adaptive", "fixed", "immediate", "legacy"]
PEER = "llama.cpp"
CONTEXT = 4096  # tokens of each of the sequences
LOADS = [0.5, 0.8]  # of the measured capacity
PEER_SHARE = 0.63  # of the peer's own capacity, where --peer-rate is auto
CAPACITY_REQUESTS = 60  # of the closed loop that measures it
BESIDE_STREAMS = 4  # that run while long prompts are read
BESIDE_ANSWER_TOKENS = 400  # of each of them, one after the other
REPLY_SECONDS_MAX = 300
# A row's columns: title, where it stands in the report of `bench serving --json`.
COLUMNS = [
    ("TTFT mean", ("ttft_ms", "mean")),
    ("P50", ("ttft_ms", "p50")),
    ("P95", ("ttft_ms", "p95")),
    ("P99", ("ttft_ms", "p99")),
    ("std", ("ttft_ms", "std")),
    ("short P50", ("short_ttft_ms", "p50")),
    ("short P95", ("short_ttft_ms", "p95")),
    ("short std", ("short_ttft_ms", "std")),
    ("ITL P50", ("itl_ms", "p50")),
    ("ITL P99", ("itl_ms", "p99")),
    ("ITL max", ("itl_ms", "max")),
    ("tok/s out", ("output_tokens_per_s",)),
    ("answers/s", ("answered_per_s",)),
    ("refused", ("refused",)),
    ("failed", ("failed",)),
    ("late sends", ("late_sends",)),
    ("others", ("others_share",)),
]


class RunMeter(LoadMeter):
    """Knows the load's own process too, which has ended when the meter is read."""

    def now(self):
        total, busy, own = super().now()
        times = os.times()
        return total, busy, own + round((times.children_user + times.children_system) * os.sysconf("SC_CLK_TCK"))


def open_load(rate, seconds, seed):
    return ["--rate", f"{rate:.4f}", "--seconds", f"{seconds:g}", "--seed", str(seed)]


def closed_load(clients, requests, seed):
    return ["--clients", str(clients), "--requests", str(requests), "--seed", str(seed)]


def pulse_load(clients, requests, seed):
    return ["--pulse", str(clients), "--requests", str(requests), "--seed", str(seed)]


def fixed_lengths(prompt_tokens, answer_tokens):
    return ["--short-tokens", str(prompt_tokens), "--long-share", "0", "--output-tokens", str(answer_tokens)]


def beside_loads(prompt_tokens, seconds, seed):
    """The streams whose gaps count, and the client whose prompts they run beside."""
    streams = ["--clients", str(BESIDE_STREAMS), "--seconds", f"{seconds:g}", "--seed", str(seed)]
    prompts = ["--clients", "1", "--seconds", f"{seconds:g}", "--seed", str(seed + 1000)]
    return [*streams, *fixed_lengths(40, BESIDE_ANSWER_TOKENS)], [*prompts, *fixed_lengths(prompt_tokens, 16)]


class Bench:
    """Starts a side, loads it, stops it."""

    def __init__(self, program, model, peer_setting, threads, log):
        self.program = program
        self.model = model
        self.peer_setting = peer_setting
        self.threads = threads
        self.log = log

    def start(self, side, context):
        if side == PEER:
            return start_peer(self.peer_setting, self.threads, self.log, context)
        policy = {"dynamic_batching.policy": side}
        return start_ours(self.program, self.model, self.threads, self.log, context, policy)

    def measure(self, side, loads, seconds_max, context=CONTEXT, warm_up=4):
        """The reports of loads that run at once on a server of their own, and the share of the machine that others used
        meanwhile."""
        server = self.start(side, context)
        with contextlib.ExitStack() as leaving:
            leaving.callback(server.stop)
            command = [self.program, "bench", "serving", "--url", f"http://{server.host}:{server.port}", "--completions"]
            command += ["--json", "--warm-up", str(warm_up), "--reply-seconds-max", str(REPLY_SECONDS_MAX)]
            meter = RunMeter([this_process(), server.pid])
            running = []
            for load in loads:
                running.append(subprocess.Popen([*command, *load], stdout=subprocess.PIPE, stderr=self.log))
                leaving.callback(running[-1].kill)
            outputs = [process.communicate(timeout=seconds_max + 2 * REPLY_SECONDS_MAX)[0] for process in running]
            if any(process.returncode != 0 for process in running):
                raise SystemExit(f"compare_serving: the load on {side} failed; see {self.log.name}")
            return [json.loads(output) | {"others_share": meter.others()} for output in outputs]


def value_of(report, path):
    """None where the report has no such value: nobody was answered, or refused."""
    for key in path:
        report = report.get(key) if isinstance(report, dict) else None
    return report


def summary(reports):
    """Median, lowest and highest of every column over the rounds."""
    columns = {}
    for title, path in COLUMNS:
        values = [value for value in (value_of(report, path) for report in reports) if value is not None]
        columns[title] = spread(values) if values else None
    return columns


def run_rounds(bench, name, sides, loads, seconds):
    """A round for each load: every side meets the same arrivals, in another order each round."""
    reports = {side: [] for side in sides}
    rounds = len(loads)
    for turn, load in enumerate(loads):
        for side in in_turns(sides, turn):
            [report] = bench.measure(side, [load], seconds)
            reports[side].append(report)
            ttft = report.get("ttft_ms", {})
            say(
                f"{name}, round {turn + 1} of {rounds}, {side}: {report['answered']} of {report['requests']} answered, "
                f"first token P50 {ttft.get('p50', 0):.0f} P95 {ttft.get('p95', 0):.0f} ms"
            )
    return {
        "name": name,
        "rounds": rounds,
        "sides": {side: summary(found) for side, found in reports.items()},
        "reports": reports,
    }


def capacity_of(bench, side, seed):
    """Requests a second of as many clients as there are sequences, without pauses."""
    [report] = bench.measure(side, [closed_load(SEQUENCES, CAPACITY_REQUESTS, seed)], REPLY_SECONDS_MAX)
    if report["answered"] != report["requests"]:
        raise SystemExit(f"compare_serving: {side} answered {report['answered']} of {report['requests']} in a closed loop")
    say(f"capacity of {side}: {report['answered_per_s']:.2f} requests/s, {report['output_tokens_per_s']:.0f} tok/s out")
    return report


def digits(value):
    if value is None:
        return "–"
    return f"{value:.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def cell(column):
    if column is None:
        return "–"
    middle, low, high = (digits(column[key]) for key in ("median", "low", "high"))
    return middle if low == high else f"{middle} ({low}–{high})"


def markdown(result):
    """One table for each load: a line for each side, times in ms, lowest and highest over rounds in brackets."""
    lines = []
    for part in result["parts"]:
        lines += [f"### {part['name']}", ""]
        lines.append("| side | " + " | ".join(title for title, _ in COLUMNS) + " |")
        lines.append("| --- |" + " --: |" * len(COLUMNS))
        for side, columns in part["sides"].items():
            lines.append(f"| {side} | " + " | ".join(cell(columns[title]) for title, _ in COLUMNS) + " |")
        lines.append("")
        for name, ratio in part.get("ratios", {}).items():
            lines.append(f"{name}: {digits(ratio)}")
        lines += [""] * bool(part.get("ratios"))
    return "\n".join(lines)


def ratios_to_peer(part, columns):
    """{"adaptive / llama.cpp, short P95": ...}: medians, for each side but the peer."""
    found = {}
    peer = part["sides"].get(PEER)
    for side, values in part["sides"].items():
        for title in columns:
            if side != PEER and peer and peer[title] and values[title] and peer[title]["median"] > 0:
                found[f"{side} / {PEER}, {title}"] = round(values[title]["median"] / peer[title]["median"], 4)
    return found


def measure_loads(bench, arguments, sides):
    capacity = capacity_of(bench, sides[0], arguments.seed)
    parts = []
    for share in arguments.loads:
        rate = share * capacity["answered_per_s"]
        name = f"open loop, {rate:.2f} requests/s ({100 * share:.0f} % of {sides[0]}'s closed loop)"
        loads = [open_load(rate, arguments.seconds, arguments.seed + turn) for turn in range(arguments.rounds)]
        parts.append(run_rounds(bench, name, sides, loads, arguments.seconds))
    return {"capacity": capacity, "parts": parts}


def measure_peer_rate(bench, arguments, sides):
    capacity, seconds = None, 60 * arguments.minutes
    if arguments.peer_rate == "auto":
        capacity = capacity_of(bench, PEER, arguments.seed)
        rate = PEER_SHARE * capacity["answered_per_s"]
    else:
        rate = float(arguments.peer_rate)
    loads = [open_load(rate, seconds, arguments.seed + turn) for turn in range(arguments.rounds)]
    name = f"open loop, {rate:.2f} requests/s for {arguments.minutes:g} minutes"
    part = run_rounds(bench, name, sides, loads, seconds)
    part["ratios"] = ratios_to_peer(part, ["short P95", "short std"])
    return {"capacity": capacity, "parts": [part]}


def measure_pulse(bench, arguments, sides):
    seeds = range(arguments.seed, arguments.seed + arguments.rounds)
    loads = [pulse_load(arguments.pulse, arguments.requests, seed) for seed in seeds]
    name = f"pulse, {arguments.requests} requests of {arguments.pulse} clients"
    part = run_rounds(bench, name, sides, loads, REPLY_SECONDS_MAX)
    part["ratios"] = ratios_to_peer(part, ["answers/s"])
    return {"parts": [part]}


def measure_beside(bench, arguments, sides):
    """Gaps of running streams while prompts of so many tokens are read one after the other."""
    name = f"{BESIDE_STREAMS} streams beside prompts of {arguments.beside} tokens, {arguments.seconds:g} s"
    context = arguments.beside + CONTEXT
    reports = {side: [] for side in sides}
    for turn in range(arguments.rounds):
        loads = beside_loads(arguments.beside, arguments.seconds, arguments.seed + turn)
        for side in in_turns(sides, turn):
            # Warmed up, one load would be over before the other began.
            streams, prompts = bench.measure(side, loads, arguments.seconds, context, warm_up=0)
            reports[side].append(streams)
            gaps = streams.get("itl_ms", {})
            say(
                f"{name}, round {turn + 1} of {arguments.rounds}, {side}: {prompts['answered']} prompts of "
                f"{prompts['requests']}, gaps P99 {gaps.get('p99', 0):.0f} at most {gaps.get('max', 0):.0f} ms"
            )
    found = {side: summary(report) for side, report in reports.items()}
    part = {"name": name, "rounds": arguments.rounds, "sides": found, "reports": reports}
    part["ratios"] = ratios_to_peer(part, ["ITL P99", "ITL max"])
    return {"parts": [part]}


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--remontoir", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--peer-model")
    parser.add_argument("--peer-folder", required=True, type=pathlib.Path)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--policies", type=lambda text: text.split(","))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--loads", type=lambda text: [float(share) for share in text.split(",")], default=LOADS)
    parser.add_argument("--peer-rate")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--pulse", type=int)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--beside", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args(words)
    modes = [mode for mode in (arguments.peer_rate, arguments.pulse, arguments.beside) if mode is not None]
    if len(modes) > 1:
        parser.error("--peer-rate, --pulse and --beside are modes of their own")
    one_policy = bool(modes)
    if arguments.peer_rate == "auto" and arguments.no_peer:
        parser.error("--peer-rate auto needs the peer")
    # The long run is one round; the short ones are repeated.
    arguments.rounds = arguments.rounds or (1 if arguments.peer_rate is not None else 3)
    arguments.policies = arguments.policies or (POLICIES[:1] if one_policy else POLICIES)
    unknown = set(arguments.policies) - set(POLICIES)
    if unknown:
        parser.error(f"no policy {', '.join(sorted(unknown))}; there are {', '.join(POLICIES)}")
    return arguments


def peer_setting(arguments):
    """As llama.cpp's server was measured best: 4-bit weights without minima, flash attention on."""
    made = arguments.peer_folder / f"{pathlib.Path(arguments.model).stem}.Q4_0.gguf"
    file = arguments.peer_model or (str(made) if made.exists() else arguments.model)
    return {"type": pathlib.Path(file).name, "file": file, "flash_attention": True, "unified": False}


def main():
    arguments = parse(sys.argv[1:])
    started = time.monotonic()
    setting = peer_setting(arguments)
    sides = [*arguments.policies, *([] if arguments.no_peer else [PEER])]
    if not arguments.no_peer:
        say(f"llama.cpp serves {setting['file']}")
    with open(arguments.peer_folder / "compare_serving.log", "w", encoding="utf-8") as log:
        bench = Bench(arguments.remontoir, arguments.model, setting, arguments.threads, log)
        if arguments.pulse is not None:
            result = measure_pulse(bench, arguments, sides)
        elif arguments.beside is not None:
            result = measure_beside(bench, arguments, sides)
        elif arguments.peer_rate is not None:
            result = measure_peer_rate(bench, arguments, sides)
        else:
            result = measure_loads(bench, arguments, sides)
    result |= {
        "model": arguments.model,
        "peer_setting": None if arguments.no_peer else setting,
        "threads": arguments.threads,
        "sequences": SEQUENCES,
        "context": CONTEXT,
        "seconds": round(time.monotonic() - started),
    }
    print(markdown(result))
    shares = [report["others_share"] for part in result["parts"] for found in part["reports"].values() for report in found]
    print(f"Other processes used {100 * statistics.median(shares):.0f} % of the machine at the median.")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
