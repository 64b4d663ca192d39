"""First tokens and single steps against context: `remontoir serve`, exact and sparse, and llama.cpp's server, in turns
(scripts/compare_context)."""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import statistics
import struct
import sys
import time

from compare_servers import PAUSE_SECONDS, Prompts, Stream, start_ours, start_peer
from compare_serving import PEER, peer_setting
from context_table import table
from measuring import LoadMeter, in_turns, percentile, say, this_process, ticks_of

MODES = {"exact": "exact", "sparse": "custom_sparse", "auto": "auto"}  # side -> attention.mode
SIDES = [*MODES, PEER]
# Tokens of prompt and answer beyond which rows are sparse, where the mode is one that may be.
ENGAGE_AT = {"sparse": 4288, "auto": 16384}
CONTEXTS = [2048, 4096, 8192, 16384, 24576, 32768]
QUICK_CONTEXT_MAX = 16384
ROUNDS = [(8192, 3), (16384, 2)]  # up to so many tokens; one beyond
ANSWER_TOKENS = 64
WARM_UP_TOKENS = 256
REPLY_SECONDS_MAX = 3600
IDLE_SHARE_MAX = 0.02  # of the machine: more than this, and a server that waits isn't idle
BYTES_PER_TOKEN = 6  # more than the text has
SOURCES = [("/usr/share/common-licenses", "*"), ("/usr/lib/python3.11", "*.py")]  # as `bench attention` takes them
METADATA_BYTES_MAX = 1 << 24
UINT32, FLOAT32 = 4, 6  # types of a value in GGUF


def rounds_at(context, wanted):
    return wanted or next((rounds for most, rounds in ROUNDS if context <= most), 1)


def installed_text(size):
    """The first bytes of texts that Debian installs."""
    parts, length = [], 0
    for folder, pattern in SOURCES:
        for path in sorted(pathlib.Path(folder).glob(pattern)):
            if path.is_symlink() or not path.is_file():
                continue
            parts.append(path.read_bytes())
            length += len(parts[-1])
            if length >= size:
                return b"".join(parts)[:size].decode("utf-8", "ignore")
    raise SystemExit(f"compare_context: installed licences and Python sources have {length} bytes, wanted {size}")


def place_of(metadata, name, kind):
    """Where the value of a GGUF file's key that ends in this name begins."""
    tail = name.encode() + struct.pack("<I", kind)
    at = metadata.find(tail)
    if at < 0:
        raise SystemExit(f"compare_context: the peer's file has no {name} of type {kind}")
    return at + len(tail)


def stretched(file, context, base_scale, folder):
    """llama.cpp's file and RoPE base for a context: its server caps a sequence at the context that the file says it was
    trained for, so a copy of the file says another one."""
    with open(file, "rb") as source:
        metadata = source.read(METADATA_BYTES_MAX)
    [base] = struct.unpack_from("<f", metadata, place_of(metadata, ".rope.freq_base", FLOAT32))
    at = place_of(metadata, ".context_length", UINT32)
    [trained] = struct.unpack_from("<I", metadata, at)
    if trained < context:
        copy = folder / f"{pathlib.Path(file).stem}.context-{context}.gguf"
        part = copy.with_suffix(".part")
        shutil.copyfile(file, part)
        with open(part, "r+b") as target:
            target.seek(at)
            target.write(struct.pack("<I", context))
        part.rename(copy)
        file = str(copy)
    return {"file": file, "rope_freq_base": base * base_scale}


def is_measured(side, context, peer_context_max):
    """`auto` is `exact` until it engages."""
    return context <= peer_context_max if side == PEER else side != "auto" or context > ENGAGE_AT["auto"]


def mode_expected(side, context):
    return "custom_sparse" if context > ENGAGE_AT.get(side, context) else "exact"


def check_ours(side, context, stream):
    """That it did what is measured: the mode wanted, and nothing out of a cache."""
    mode = stream.headers.get("X-Flash-Attn-Mode")
    if mode != mode_expected(side, context):
        raise SystemExit(f"compare_context: {side} at {context} tokens answered in mode {mode}")
    if stream.timings.get("cached_tokens"):
        raise SystemExit(f"compare_context: {side} had {stream.timings['cached_tokens']} tokens of a prompt in its cache")
    return {
        "mode": mode,
        "density": stream.timings.get("attention_density"),
        "residual": stream.timings.get("attention_residual"),
    }


class Sides:
    """The servers, all up; one computes."""

    def __init__(self, servers):
        self.servers = servers

    def measure(self, side, context, prompt):
        server = self.servers[side]
        idle = [other.pid for other in self.servers.values() if other is not server]
        time.sleep(PAUSE_SECONDS)
        meter = LoadMeter([this_process(), server.pid])
        before, started = sum(map(ticks_of, idle)), time.perf_counter()
        headers = None if side == PEER else {"X-Timings": "true"}
        stream = Stream(server, prompt, context - len(prompt), headers, REPLY_SECONDS_MAX)
        ticks = (time.perf_counter() - started) * os.sysconf("SC_CLK_TCK") * os.cpu_count()
        idle_share = (sum(map(ticks_of, idle)) - before) / ticks
        if idle_share > IDLE_SHARE_MAX:
            say(f"servers that wait used {100 * idle_share:.0f} % of the machine meanwhile")
        gaps = stream.gaps()
        measured = {
            "side": side,
            "context": context,
            "prompt_tokens": len(prompt),
            "ttft_s": round(stream.first_seconds(), 4),
            # Pieces of text may be of several tokens; the mean counts tokens.
            "gap_mean_ms": round(1e3 * sum(gaps) / (stream.tokens - 1), 3),
            "gap_median_ms": round(1e3 * statistics.median(gaps), 3),
            "gap_p99_ms": round(1e3 * percentile(gaps, 99), 3),
            "others_share": meter.others(),
            "idle_share": round(idle_share, 4),
        }
        return measured | (check_ours(side, context, stream) if side != PEER else {})

    def warm_up(self, prompts):
        for side in self.servers:
            self.measure(side, WARM_UP_TOKENS, prompts.take(WARM_UP_TOKENS - 8))


def start(arguments, sides, peer, leaving, log):
    """Servers of one sequence each, stopped when `leaving` ends."""
    servers = {}
    context = max(arguments.contexts)
    for side in sides:
        say(f"starting {side}")
        if side == PEER:
            server = start_peer(peer, arguments.threads, log, context, sequences=1)
        else:
            more = {
                "attention.mode": MODES[side],
                "model.rope_freq_base_scale": arguments.rope_base_scale,
                "engine.sequences_max": 1,
            }
            server = start_ours(arguments.remontoir, arguments.model, arguments.threads, log, context, more)
        server.reply_seconds_max = REPLY_SECONDS_MAX
        leaving.callback(server.stop)
        servers[side] = server
    return Sides(servers)


def describe(measured):
    density = f", density {measured['density']:.3f}, residual {measured['residual']:.2f}" if measured.get("density") else ""
    return (
        f"first token {measured['ttft_s']:.2f} s, step {measured['gap_mean_ms']:.1f} ms (P99 {measured['gap_p99_ms']:.1f})"
        f"{density}; others used {100 * measured['others_share']:.0f} % of the machine"
    )


def keep(result, file):
    part = file.with_suffix(".part")
    part.write_text(json.dumps(result) + "\n", "utf-8")
    part.rename(file)


def measure_all(arguments, sides, prompts, result, file):
    """Short contexts first; every side reads the same prompt in a round."""
    turn = 0
    for context in sorted(arguments.contexts):
        present = [side for side in sides.servers if is_measured(side, context, arguments.peer_context_max)]
        rounds = rounds_at(context, arguments.rounds)
        for done in range(rounds):
            prompt = prompts.take(context - ANSWER_TOKENS)
            for side in in_turns(present, turn):
                measured = sides.measure(side, context, prompt)
                say(f"{context} tokens, round {done + 1} of {rounds}, {side}: {describe(measured)}")
                result["measured"].append(measured)
                keep(result, file)
            turn += 1


def parse(words):
    def numbers(text):
        return [int(number) for number in text.split(",")]

    parser = argparse.ArgumentParser(prog="compare_context", description=__doc__)
    parser.add_argument("--remontoir", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--peer-model")
    parser.add_argument("--peer-folder", required=True, type=pathlib.Path)
    parser.add_argument("--peer-context-max", type=int, default=max(CONTEXTS))
    parser.add_argument("--rope-base-scale", type=float, default=4.0)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--contexts", type=numbers)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--sides", type=lambda text: text.split(","), default=SIDES)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(words)
    most = QUICK_CONTEXT_MAX if arguments.quick else max(CONTEXTS)
    arguments.contexts = arguments.contexts or [context for context in CONTEXTS if context <= most]
    if arguments.quick and arguments.rounds is None:
        arguments.rounds = 1
    if min(arguments.contexts) < WARM_UP_TOKENS:
        parser.error(f"a context has {WARM_UP_TOKENS} tokens at least")
    unknown = set(arguments.sides) - set(SIDES)
    if unknown:
        parser.error(f"no side {', '.join(sorted(unknown))}; there are {', '.join(SIDES)}")
    if not set(arguments.sides) & set(MODES):
        parser.error("one side at least is Remontoir's")
    return arguments


def stop(*_):
    raise SystemExit("compare_context: stopped")


def main():
    arguments = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, stop)
    started = time.monotonic()
    wanted = [s for s in arguments.sides if any(is_measured(s, c, arguments.peer_context_max) for c in arguments.contexts)]
    peer = None
    if PEER in wanted:
        peer = peer_setting(arguments)
        peer |= stretched(peer["file"], max(arguments.contexts), arguments.rope_base_scale, arguments.peer_folder)
        say(f"llama.cpp serves {peer['file']}, RoPE base {peer['rope_freq_base']:g}")
    result = {
        "model": pathlib.Path(arguments.model).name,
        "peer_model": peer and pathlib.Path(peer["file"]).name,
        "rope_base_scale": arguments.rope_base_scale,
        "threads": arguments.threads,
        "answer_tokens": ANSWER_TOKENS,
        "measured": [],
    }
    file = arguments.peer_folder / "compare_context.json"
    failure = None
    with contextlib.ExitStack() as leaving:
        log = leaving.enter_context(open(arguments.peer_folder / "compare_context.log", "w", encoding="utf-8"))
        try:
            sides = start(arguments, wanted, peer, leaving, log)
            server = next(server for side, server in sides.servers.items() if side != PEER)
            text = installed_text(BYTES_PER_TOKEN * max(arguments.contexts))
            ids = server.ask("/tokenize", {"prompt": text, "add_special_tokens": False})["tokens"]
            prompts = Prompts(ids)
            sides.warm_up(prompts)
            measure_all(arguments, sides, prompts, result, file)
        except (SystemExit, KeyboardInterrupt, OSError, http.client.HTTPException) as error:
            # What was measured before is worth printing.
            failure = error
            say(f"broken off: {error or 'interrupted'}")
    result["seconds"] = round(time.monotonic() - started)
    if result["measured"]:
        keep(result, file)
        print(json.dumps(result) if arguments.json else table(result))
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main())
