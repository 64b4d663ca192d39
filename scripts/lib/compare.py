"""Runs the rows of scripts/compare: Remontoir and llama.cpp in turns, medians, ratios and spreads."""

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from compare_servers import compare_servers, print_servers
from measuring import BusyProcesses, LoadMeter, in_turns, percentile, say, spread, this_process

LONG_SECONDS = 20.0  # a measurement that takes longer is repeated LONG_ROUNDS times only
LONG_ROUNDS = 5
TRIAL_SECONDS = 5.0  # a setting of the peer that takes longer is tried once, else twice
QUICK_SECONDS = 13.5 * 60  # after that --quick starts no further round
SERVER_SECONDS = 150  # of it are kept for the servers
BUSY_SECONDS = 75  # and for the steps beside busy processes
LONG_TOKENS = 8192  # rows of so many tokens try only the types that were good in shorter ones
STEPS = 32
BATCH_DEPTH = 512
BUSY_DEPTH = 16
BUSY_STEPS = 300
BUSY_ROUNDS = 5
STEPS_SECONDS_MAX = 60
BUSY_SECONDS_MAX = 20  # a side that collapses beside busy processes gets this long


@dataclasses.dataclass(frozen=True)
class Row:
    """What is measured; tokens are a prompt's length or the keys already there."""

    row: str
    tokens: int
    sequences: int = 1

    @property
    def name(self):
        return f"{self.row}_{self.sequences if self.row == 'batch' else self.tokens}"

    def request(self):
        request = {"row": self.row, "tokens": self.tokens, "sequences": self.sequences}
        return request if self.row == "prompt" else request | {"steps": STEPS, "seconds_max": STEPS_SECONDS_MAX}


# Deep decodes come after the prompts whose keys they use; the longest prompt comes last but for its decode.
QUICK_ROWS = [
    Row("prompt", 512),
    Row("decode", 16),
    Row("batch", BATCH_DEPTH, 8),
    Row("prompt", 2048),
    Row("decode", 2048),
    Row("prompt", 8192),
    Row("decode", 8192),
]
FULL_ROWS = [
    Row("prompt", 32),
    Row("prompt", 128),
    *QUICK_ROWS[:3],
    Row("batch", BATCH_DEPTH, 32),
    *QUICK_ROWS[3:],
]


class Worker:
    """A process that answers one JSON line with one JSON line."""

    def __init__(self, command, log):
        self.name = pathlib.Path(command[0]).name
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, encoding="utf-8"
        )
        self.pid = self.process.pid
        self.hello = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"compare: {self.name} ended with code {self.process.wait()}; see build/peer/*.log")
        answer = json.loads(line)
        if "error" in answer:
            raise SystemExit(f"compare: {self.name}: {answer['error']}")
        return answer

    def ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def spell(setting):
    """A setting for people, e.g. Q4_0 fa."""
    return setting["type"] + " fa" * setting["flash_attention"] + " unified" * setting["unified"]


class Comparison:
    """Both sides, the peer's files, and what was measured so far."""

    def __init__(self, ours, peer, files, same_type, deadline):
        self.ours = ours
        self.peer = peer
        self.files = files  # type -> path
        self.same_type = same_type
        self.deadline = deadline
        self.chosen = {}  # by row
        self.likely = {}  # the peer's best type for a kind of row so far, for rows too long to try all

    def settings(self, row):
        """All that the peer is tried with for a row."""
        types = list(self.files)
        if row.tokens >= LONG_TOKENS and row.row in self.likely:
            types = [t for t in types if t in (self.same_type, self.likely[row.row])]
        unified = (False, True) if row.row == "batch" else (False,)
        return [
            {"type": t, "file": self.files[t], "flash_attention": fa, "unified": u}
            for t in types
            for fa in (True, False)
            for u in unified
        ]

    def peer_speed(self, row, setting):
        answer = self.peer.ask({**row.request(), "setting": setting})
        return answer["tokens"] / answer["seconds"], answer["seconds"]

    def choose(self, row):
        """The peer's fastest setting on the same file, and on any."""
        if row.name in self.chosen:
            return self.chosen[row.name]
        tried = []
        for setting in self.settings(row):
            speed, seconds = self.peer_speed(row, setting)
            if seconds < TRIAL_SECONDS:
                speed = max(speed, self.peer_speed(row, setting)[0])
            tried.append((speed, setting))
            say(f"{row.name}: trying llama.cpp {spell(setting)}: {speed:.1f} tok/s")
        best = max(tried, key=lambda t: t[0])[1]
        same = max((t for t in tried if t[1]["type"] == self.same_type), key=lambda t: t[0])[1]
        self.likely[row.row] = best["type"]
        self.chosen[row.name] = same, best
        return same, best

    def measure(self, row, rounds):
        same, best = self.choose(row)
        sides = {"remontoir": None, "peer_same_file": same}
        if best is not same:
            sides["peer_best"] = best
        speeds = {side: [] for side in sides}
        ceiling_ratios, longest, done = [], 0.0, 0
        self.ours.hello["ceilings"] = self.ours.ask({"row": "ceilings"})["ceilings"]
        meter = LoadMeter([this_process(), self.ours.pid, self.peer.pid])
        while done < rounds and not (done > 0 and time.monotonic() > self.deadline):
            for side in in_turns(sides, done):
                time.sleep(0.05)  # the other side's threads have stopped spinning
                if side == "remontoir":
                    answer = self.ours.ask(row.request())
                    ceiling_ratios.append(answer["ceiling_seconds"] / answer["seconds"])
                    speed, seconds = answer["tokens"] / answer["seconds"], answer["seconds"]
                else:
                    speed, seconds = self.peer_speed(row, sides[side])
                speeds[side].append(speed)
                longest = max(longest, seconds)
            done += 1
            if longest > LONG_SECONDS:
                rounds = min(rounds, LONG_ROUNDS)
        # A choice made in a busy moment isn't held against the peer.
        if statistics.median(speeds.get("peer_best", [0])) < statistics.median(speeds["peer_same_file"]):
            best, speeds["peer_best"] = same, speeds["peer_same_file"]
        result = {
            "row": row.name,
            "rounds": done,
            "others_share": meter.others(),
            **{side: spread(speeds[side]) for side in ("remontoir", "peer_same_file", "peer_best")},
            "of_ceiling": round(statistics.median(ceiling_ratios), 3),
        }
        result["peer_same_file"]["setting"] = describe(same)
        result["peer_best"]["setting"] = describe(best)
        ratios = {}
        for side, suffix in (("peer_same_file", "same_file"), ("peer_best", "best")):
            paired = [a / b for a, b in zip(speeds["remontoir"], speeds[side])]
            ratios[f"{row.name}_{suffix}"] = spread(paired) | {
                "median": round(result["remontoir"]["median"] / result[side]["median"], 3)
            }
        say(
            f"{row.name}: {result['remontoir']['median']:.1f} tok/s, llama.cpp "
            f"{result['peer_same_file']['median']:.1f} same file, {result['peer_best']['median']:.1f} best; "
            f"others used {100 * result['others_share']:.0f} % of the machine"
        )
        return result, ratios


def measure_busy(comparison, cores, rounds):
    """Single steps of both sides in turns, quiet and beside a busy process for each core."""
    row = Row("decode", BUSY_DEPTH)
    request = row.request() | {"steps": BUSY_STEPS, "seconds_max": BUSY_SECONDS_MAX}
    setting = comparison.choose(row)[1]
    sides = {"remontoir": comparison.ours, "llama_cpp": comparison.peer}
    measured = {side: {"quiet": [], "busy": [], "quiet_tail": [], "busy_tail": [], "steps": 0} for side in sides}

    def run(turn, state):
        for side in in_turns(sides, turn):
            time.sleep(0.1)
            answer = sides[side].ask({**request, "setting": setting})
            steps = answer["step_seconds"]
            measured[side][state].append(answer["tokens"] / answer["seconds"])
            measured[side][state + "_tail"].append(percentile(steps, 99) / statistics.median(steps))
            measured[side]["steps"] += len(steps) if state == "busy" else 0

    for turn in range(rounds):
        run(turn, "quiet")
        with BusyProcesses(cores):
            run(turn, "busy")
        say(f"beside busy processes: round {turn + 1} of {rounds}")
    result = {"busy_processes": cores, "depth": BUSY_DEPTH, "rounds": rounds, "setting": describe(setting)}
    for side, values in measured.items():
        result[side] = {
            "quiet": spread(values["quiet"]),
            "busy": spread(values["busy"]),
            "busy_share": spread([b / q for b, q in zip(values["busy"], values["quiet"])], 3),
            "p99_over_median": spread(values["busy_tail"]),
            "p99_over_median_quiet": spread(values["quiet_tail"]),
            "busy_steps": values["steps"],
        }
        say(f"beside busy processes, {side}: {result[side]}")
    return result


def describe(setting):
    return {k: setting[k] for k in ("type", "flash_attention", "unified")}


def requantised(peer, source, folder, types):
    """The file in the peer's other types, made once."""
    files = {}
    for name in types:
        file = folder / f"{pathlib.Path(source).stem}.{name}.gguf"
        if not file.exists():
            say(f"requantising to {name}")
            part = file.with_suffix(".part")
            peer.ask({"requantise": name, "from": source, "to": str(part)})
            part.rename(file)
        files[name] = str(file)
    return files


def print_table(result):
    absolute = result["absolute"]
    print(f"{absolute['file']}, {absolute['threads']} threads")
    print(f"remontoir: {absolute['remontoir']['describe']}")
    print(f"llama.cpp: {absolute['llama_cpp']['describe']}\n")
    if absolute["rows"]:
        print_rows(result)
    if "busy" in result:
        print_busy(result["busy"])
    if "server" in result:
        print_servers(result["server"])


def print_rows(result):
    absolute = result["absolute"]
    print(
        f"{'row':12} {'remontoir':>20} {'llama.cpp same file':>20} {'best':>20} {'/same':>6} {'/best':>6} "
        f"{'ceiling':>7} {'rounds':>6}  best setting"
    )
    for row in absolute["rows"]:
        columns = [
            f"{row[side]['median']:.1f} ({row[side]['low']:.0f}-{row[side]['high']:.0f})"
            for side in ("remontoir", "peer_same_file", "peer_best")
        ]
        print(
            f"{row['row']:12} {columns[0]:>20} {columns[1]:>20} {columns[2]:>20} "
            f"{result['ratios'][row['row'] + '_same_file']:6.2f} {result['ratios'][row['row'] + '_best']:6.2f} "
            f"{row['of_ceiling']:7.2f} {row['rounds']:6d}  {spell(row['peer_best']['setting'])}"
        )
    most = max(row["others_share"] for row in absolute["rows"])
    print(f"\ntokens a second: median (lowest-highest); others used at most {100 * most:.0f} % of the machine")


def print_busy(busy):
    print(f"\nsteps at depth {busy['depth']} beside {busy['busy_processes']} busy processes, {busy['rounds']} rounds")
    print(f"{'':12} {'quiet tok/s':>20} {'busy tok/s':>20} {'share':>6} {'P99/median':>11} {'when quiet':>11}")
    for side in ("remontoir", "llama_cpp"):
        measured = busy[side]
        columns = [
            f"{measured[state]['median']:.1f} ({measured[state]['low']:.0f}-{measured[state]['high']:.0f})"
            for state in ("quiet", "busy")
        ]
        print(
            f"{side:12} {columns[0]:>20} {columns[1]:>20} {100 * measured['busy_share']['median']:5.0f}% "
            f"{measured['p99_over_median']['median']:11.2f} {measured['p99_over_median_quiet']['median']:11.2f}"
        )


def start_workers(arguments, rows, log):
    prompts = sorted({r.tokens for r in rows if r.row == "prompt"})
    depths = sorted({r.tokens for r in rows if r.row == "decode"})
    if arguments.busy:
        depths.append(BUSY_DEPTH + BUSY_STEPS)
    batches = sorted({r.sequences for r in rows if r.row == "batch"})
    command = [arguments.remontoir, "bench", "engine", "--worker", "--model", arguments.model]
    command += ["--threads", str(arguments.threads), "--steps", str(STEPS), "--batch-depth", str(BATCH_DEPTH)]
    for flag, numbers in (("--prompt", prompts), ("--depth", depths), ("--batch", batches)):
        command += [flag, ",".join(map(str, numbers or [1]))]
    say("loading the model on both sides")
    ours = Worker(command, log)
    script = pathlib.Path(__file__).with_name("llama_worker.py")
    peer = Worker([sys.executable, str(script), str(arguments.threads)], log)
    return ours, peer


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--remontoir", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--peer-folder", required=True, type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rows", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--server", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    started = time.monotonic()
    rows = QUICK_ROWS if arguments.quick else FULL_ROWS
    if arguments.rows:
        wanted = [] if arguments.rows == "none" else arguments.rows.split(",")
        unknown = set(wanted) - {row.name for row in FULL_ROWS}
        if unknown:
            parser.error(f"no row {', '.join(sorted(unknown))}; there are {', '.join(r.name for r in FULL_ROWS)}")
        rows = [row for row in FULL_ROWS if row.name in wanted]
    rounds = min(arguments.rounds, 3) if arguments.quick else arguments.rounds

    with open(arguments.peer_folder / "compare.log", "w", encoding="utf-8") as log:
        ours, peer = start_workers(arguments, rows, log)
        same_type = "as shipped"
        types = ["Q4_0"] if arguments.quick else ["Q4_0", "Q8_0"]
        files = {same_type: arguments.model} | requantised(peer, arguments.model, arguments.peer_folder, types)
        end = started + QUICK_SECONDS if arguments.quick else float("inf")
        deadline = end - SERVER_SECONDS * arguments.server - BUSY_SECONDS * arguments.busy
        comparison = Comparison(ours, peer, files, same_type, deadline)
        measured, ratios = [], {}
        for row in rows:
            result, row_ratios = comparison.measure(row, rounds)
            measured.append(result)
            ratios |= row_ratios
        extra = {}
        if arguments.busy:
            extra["busy"] = measure_busy(comparison, os.cpu_count(), min(rounds, BUSY_ROUNDS))
        ours.close()
        peer.close()
        if arguments.server:
            extra["server"] = compare_servers(
                arguments.remontoir, files, same_type, arguments.threads, rounds, end, log
            )

    result = {
        "absolute": {
            "file": arguments.model,
            "threads": arguments.threads,
            "steps": STEPS,
            "batch_depth": BATCH_DEPTH,
            "remontoir": ours.hello,
            "llama_cpp": peer.hello | {"n_batch": 2048, "n_ubatch": 512, "kv": "F16", "files": files},
            "seconds": round(time.monotonic() - started),
            "rows": measured,
        },
        "ratios": {name: ratio["median"] for name, ratio in ratios.items()},
        "ratio_spreads": {name: [ratio["low"], ratio["high"]] for name, ratio in ratios.items()},
    }
    result |= extra
    if arguments.json:
        print(json.dumps(result))
    else:
        print_table(result)


if __name__ == "__main__":
    main()
