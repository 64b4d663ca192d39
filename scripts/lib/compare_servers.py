"""The servers' part of scripts/compare: `remontoir serve` and llama.cpp's server with one client, in turns."""

import contextlib
import dataclasses
import http.client
import json
import pathlib
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse

from measuring import LoadMeter, in_turns, percentile, say, spread, this_process

HOST = "127.0.0.1"
SEQUENCES = 8
CONTEXT = 1024  # tokens of each
PROMPTS = (33, 500)  # tokens of the prompts whose first token is waited for
STREAM_SECONDS_MAX = 15  # a stream is left after that: a side that collapses must not stop the comparison
FIRST_SECONDS_LONG = 5  # a first token that takes longer isn't asked for again in that measurement
CHOICE_SECONDS_MAX = 120  # after that no further setting of the peer is tried
PAUSE_SECONDS = 0.1  # idle before each request: nothing spins any more
REPLY_SECONDS_MAX = 120
START_SECONDS_MAX = 180
# name, unit, whether more is better
METRICS = [
    *((f"ttft_{tokens}", "ms", False) for tokens in PROMPTS),
    ("itl_median", "ms", False),
    ("itl_p99", "ms", False),
    (f"streams_{SEQUENCES}", "tok/s", True),
]
TEXT = pathlib.Path(__file__).parents[2] / "ARCHITECTURE.md"


@dataclasses.dataclass(frozen=True)
class Effort:
    """How long a measurement is."""

    tries: int  # first tokens; their median counts
    stream_tokens: int  # of the single stream whose steps are timed
    batch_tokens: int  # of each of the concurrent streams


TRIAL = Effort(tries=1, stream_tokens=32, batch_tokens=16)
FULL = Effort(tries=3, stream_tokens=128, batch_tokens=64)


class Server:
    """A server process and where it listens."""

    def __init__(self, process, address, hello):
        self.process = process
        self.host, self.port = address
        self.hello = hello
        self.reply_seconds_max = REPLY_SECONDS_MAX  # until it says something, and between two things it says

    @property
    def pid(self):
        return self.process.pid

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def post(self, path, body, headers=None):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=self.reply_seconds_max)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **(headers or {})})
        return connection, connection.getresponse()

    def ask(self, path, body):
        connection, reply = self.post(path, body)
        with contextlib.closing(connection):
            data = reply.read()
        if reply.status != 200:
            raise SystemExit(f"compare: {path} answered {reply.status}: {data[:300]!r}")
        return json.loads(data)


def free_port():
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return listener.getsockname()[1]


def is_ready(port):
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    with contextlib.closing(connection):
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False


def start_ours(program, file, threads, log, context=CONTEXT, more=None):
    """`remontoir serve`; `more`: further keys of its configuration."""
    port = free_port()
    settings = {
        "server.port": port,
        "engine.threads": threads,
        "engine.sequences_max": SEQUENCES,
        "model.context": context,
        "telemetry.log_level": "warning",
        **(more or {}),
    }
    command = [program, "serve", "--model", file]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    limit = time.monotonic() + START_SECONDS_MAX
    while not is_ready(port):
        if process.poll() is not None or time.monotonic() > limit:
            process.kill()
            raise SystemExit(f"compare: remontoir serve didn't start; see {log.name}")
        time.sleep(0.1)
    return Server(process, (HOST, port), {"describe": "remontoir serve"})


def start_peer(setting, threads, log, context=CONTEXT, sequences=SEQUENCES):
    wanted = {**setting, "threads": threads, "sequences": sequences, "context": context}
    script = pathlib.Path(__file__).with_name("llama_server.py")
    process = subprocess.Popen(
        [sys.executable, str(script), json.dumps(wanted)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        encoding="utf-8",
    )
    line = process.stdout.readline()
    if not line.startswith("{"):
        process.kill()
        raise SystemExit(f"compare: llama.cpp's server didn't start; see {log.name}")
    hello = json.loads(line)
    address = urllib.parse.urlsplit(hello["address"])
    return Server(process, (address.hostname, address.port), hello)


class Stream:
    """One streamed completion: when its pieces arrived, how many tokens it had, and what the server said of it."""

    def __init__(self, server, prompt, tokens, headers=None, seconds_max=None):
        body = {
            "model": "default",
            "prompt": prompt,
            "max_tokens": tokens,
            "temperature": 0,
            "ignore_eos": True,
            "cache_prompt": False,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        seconds_max = STREAM_SECONDS_MAX if seconds_max is None else seconds_max
        self.start = time.perf_counter()
        connection, reply = server.post("/v1/completions", body, headers)
        self.headers = reply.headers
        lines = []
        whole = True
        with contextlib.closing(connection):
            for line in reply:
                if line.startswith(b"data: "):
                    lines.append((time.perf_counter(), line[6:]))
                    if lines[-1][0] - self.start > seconds_max and len(lines) > 2:
                        whole = False
                        break
        self.read(reply.status, lines)
        counted = self.usage.get("prompt_tokens"), self.usage.get("completion_tokens")
        if whole and counted != (len(prompt), tokens):
            raise SystemExit(f"compare: a stream counted {counted} tokens, wanted {(len(prompt), tokens)}")
        self.tokens = tokens if whole else len(self.arrivals)

    def read(self, status, lines):
        """Parsed when nothing is timed any more."""
        self.arrivals = []
        self.usage = {}
        self.timings = {}  # of `remontoir serve`, where they were asked for
        for arrival, line in lines:
            if line.startswith(b"[DONE]"):
                continue
            chunk = json.loads(line)
            if "error" in chunk:
                raise SystemExit(f"compare: a stream ended with {chunk['error']}")
            self.usage = chunk.get("usage") or self.usage
            self.timings = chunk.get("remontoir") or self.timings
            if any(choice.get("text") for choice in chunk.get("choices", ())):
                self.arrivals.append(arrival)
        if status != 200 or not self.arrivals:
            raise SystemExit(f"compare: a stream answered {status} and {len(self.arrivals)} pieces")

    def first_seconds(self):
        return self.arrivals[0] - self.start

    def gaps(self):
        return [b - a for a, b in zip(self.arrivals, self.arrivals[1:])]


class Prompts:
    """Prompts of exact lengths that begin differently, so that no earlier one's keys can be used again."""

    def __init__(self, ids):
        self.ids = ids
        self.next = 0

    def take(self, tokens):
        self.next = (self.next + 41) % len(self.ids)
        doubled = self.ids + self.ids
        return doubled[self.next : self.next + tokens]


def measure(server, metric, prompts, effort=FULL):
    """One measurement: {metric: value}, of both metrics of the single stream at once."""
    time.sleep(PAUSE_SECONDS)
    if metric.startswith("ttft_"):
        tokens = int(metric.removeprefix("ttft_"))
        seconds = []
        for _ in range(effort.tries):
            seconds.append(Stream(server, prompts.take(tokens), 1).first_seconds())
            if seconds[-1] > FIRST_SECONDS_LONG:
                break
            time.sleep(PAUSE_SECONDS)
        return {metric: 1e3 * statistics.median(seconds)}
    if metric.startswith("itl_"):
        gaps = Stream(server, prompts.take(PROMPTS[0]), effort.stream_tokens).gaps()
        return {"itl_median": 1e3 * statistics.median(gaps), "itl_p99": 1e3 * percentile(gaps, 99)}
    return {metric: concurrent_speed(server, prompts, effort.batch_tokens)}


def concurrent_speed(server, prompts, tokens):
    """Tokens a second of all streams together, from the first request to the last token."""
    streams, failures = [], []
    taken = [prompts.take(PROMPTS[0]) for _ in range(SEQUENCES)]

    def run(prompt):
        try:
            streams.append(Stream(server, prompt, tokens))
        except (SystemExit, OSError, http.client.HTTPException) as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(prompt,)) for prompt in taken]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise SystemExit(f"compare: {failures[0]}")
    seconds = max(s.arrivals[-1] for s in streams) - min(s.start for s in streams)
    return sum(s.tokens for s in streams) / seconds


def measurements():
    """One metric for each thing that is measured: the single stream gives two."""
    return [name for name, _, _ in METRICS if name != "itl_p99"]


def is_better(metric, a, b):
    more = next(more for name, _, more in METRICS if name == metric)
    return a > b if more else a < b


class ServerComparison:
    """Which setting of the peer is its best for which metric, and what was measured."""

    def __init__(self, program, files, same_type, threads, log):
        self.files = files  # type -> path
        self.same_type = same_type
        self.threads = threads
        self.log = log
        self.stack = contextlib.ExitStack()
        self.ours = self.keep(start_ours(program, files[same_type], threads, log))
        # The prompts' tokens: any text that is long enough.
        ids = self.ours.ask("/tokenize", {"prompt": TEXT.read_text("utf-8"), "add_special_tokens": False})
        self.prompts = Prompts(ids["tokens"])
        self.peers = {}  # index of a setting -> server

    def keep(self, server):
        self.stack.callback(server.stop)
        return server

    def warm_up(self, server):
        measure(server, f"ttft_{PROMPTS[0]}", self.prompts, TRIAL)

    def settings(self):
        return [
            {"type": t, "file": file, "flash_attention": fa, "unified": unified}
            for unified in (False, True)
            for fa in (True, False)
            for t, file in self.files.items()
        ]

    def choose(self):
        """Tries every setting once, the likely ones first; {metric: (same file, any)} as indices of settings."""
        settings = self.settings()
        tried = []
        limit = time.monotonic() + CHOICE_SECONDS_MAX
        for setting in settings:
            if len(tried) >= len(self.files) and time.monotonic() > limit:
                say(f"{len(settings) - len(tried)} settings of llama.cpp's server are left untried")
                break
            server = start_peer(setting, self.threads, self.log)
            try:
                values = {}
                self.warm_up(server)
                for metric in measurements():
                    values |= measure(server, metric, self.prompts, TRIAL)
            finally:
                server.stop()
            tried.append(values)
            say(f"trying llama.cpp's server {spell(setting)}: {', '.join(f'{k} {v:.1f}' for k, v in values.items())}")
        chosen = {}
        for metric in measurements():
            best = same = None
            for i, values in enumerate(tried):
                if best is None or is_better(metric, values[metric], tried[best][metric]):
                    best = i
                if settings[i]["type"] == self.same_type:
                    if same is None or is_better(metric, values[metric], tried[same][metric]):
                        same = i
            chosen[metric] = same, best
        for index in {i for pair in chosen.values() for i in pair}:
            self.peers[index] = self.keep(start_peer(settings[index], self.threads, self.log))
            self.warm_up(self.peers[index])
        return settings, chosen

    def run(self, rounds, deadline):
        settings, chosen = self.choose()
        self.warm_up(self.ours)
        values = {name: {"remontoir": [], "peer_same_file": [], "peer_best": []} for name, _, _ in METRICS}
        meter = LoadMeter([this_process(), self.ours.pid, *(server.pid for server in self.peers.values())])
        done = 0
        while done < rounds and not (done > 0 and time.monotonic() > deadline):
            for metric in measurements():
                same, best = chosen[metric]
                sides = {"remontoir": self.ours, "peer_same_file": self.peers[same]}
                if best != same:
                    sides["peer_best"] = self.peers[best]
                for side in in_turns(sides, done):
                    measured = measure(sides[side], metric, self.prompts)
                    for name, value in measured.items():
                        values[name][side].append(value)
            done += 1
            say(f"servers: round {done} of {rounds}")
        return self.result(values, settings, chosen, done, meter.others())

    def result(self, values, settings, chosen, rounds, others):
        rows, ratios, spreads = [], {}, {}
        for name, unit, more in METRICS:
            row = {"row": name, "unit": unit, "rounds": rounds}
            same, best = chosen["itl_median" if name == "itl_p99" else name]
            medians = {side: statistics.median(found) for side, found in values[name].items() if found}
            # A choice made in a busy moment isn't held against the peer.
            if best == same or is_better(name, medians["peer_same_file"], medians["peer_best"]):
                best, values[name]["peer_best"] = same, values[name]["peer_same_file"]
                medians["peer_best"] = medians["peer_same_file"]
            for side, index in (("remontoir", None), ("peer_same_file", same), ("peer_best", best)):
                row[side] = spread(values[name][side])
                if index is not None:
                    row[side]["setting"] = {k: v for k, v in settings[index].items() if k != "file"}
            for side, suffix in (("peer_same_file", "same_file"), ("peer_best", "best")):
                # Above 1: Remontoir is the faster one, of times as of rates.
                paired = [a / b if more else b / a for a, b in zip(values[name]["remontoir"], values[name][side])]
                ours, peers = medians["remontoir"], medians[side]
                ratios[f"{name}_{suffix}"] = round(ours / peers if more else peers / ours, 3)
                spreads[f"{name}_{suffix}"] = [round(min(paired), 2), round(max(paired), 2)]
            rows.append(row)
        peer = next(iter(self.peers.values())).hello
        return {
            "peer": peer["describe"],
            "peer_features": peer["features"],
            "sequences": SEQUENCES,
            "others_share": others,
            "rows": rows,
            "ratios": ratios,
            "ratio_spreads": spreads,
        }

    def close(self):
        self.stack.close()


def spell(setting):
    return setting["type"] + " fa" * setting["flash_attention"] + " unified" * setting["unified"]


def compare_servers(program, files, same_type, threads, rounds, deadline, log):
    """Both servers idle when it isn't their turn."""
    say("starting the servers")
    comparison = ServerComparison(program, files, same_type, threads, log)
    with contextlib.closing(comparison):
        return comparison.run(rounds, deadline)


def print_servers(result):
    print(f"\nservers: remontoir serve and {result['peer']}, {result['sequences']} sequences")
    print(f"{'row':12} {'unit':6} {'remontoir':>20} {'llama.cpp same file':>20} {'best':>20} {'/same':>6} {'/best':>6}")
    for row in result["rows"]:
        columns = [
            f"{row[side]['median']:.1f} ({row[side]['low']:.1f}-{row[side]['high']:.1f})"
            for side in ("remontoir", "peer_same_file", "peer_best")
        ]
        print(
            f"{row['row']:12} {row['unit']:6} {columns[0]:>20} {columns[1]:>20} {columns[2]:>20} "
            f"{result['ratios'][row['row'] + '_same_file']:6.2f} {result['ratios'][row['row'] + '_best']:6.2f}"
        )
    print(f"ratios above 1: remontoir is faster; others used {100 * result['others_share']:.0f} % of the machine")
