"""What the parts of scripts/compare share: progress, spreads, and how busy the machine is."""

import os
import pathlib
import statistics
import subprocess
import sys
import time


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def spread(values, digits=2):
    return {
        "median": round(statistics.median(values), digits),
        "low": round(min(values), digits),
        "high": round(max(values), digits),
    }


def percentile(values, percent):
    """The value that so many per cent of the others don't exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def in_turns(sides, turn):
    """The sides in another order each turn, so that none always comes first."""
    sides = list(sides)
    first = turn % len(sides)
    return sides[first:] + sides[:first]


def ticks_of(pid):
    """Processor time of a process and its threads so far, in clock ticks."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text("utf-8").rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


class LoadMeter:
    """The share of the machine that processes other than these used."""

    def __init__(self, pids):
        self.pids = list(pids)
        self.start = self.now()

    def now(self):
        fields = [int(x) for x in pathlib.Path("/proc/stat").read_text("utf-8").split("\n", 1)[0].split()[1:9]]
        idle = fields[3] + fields[4]
        return sum(fields), sum(fields) - idle, sum(map(ticks_of, self.pids))

    def others(self):
        total, busy, own = (b - a for a, b in zip(self.start, self.now()))
        return round(max(0.0, (busy - own) / max(1, total)), 3)


class BusyProcesses:
    """Processes that keep every core busy while the block runs."""

    def __init__(self, count):
        self.count = count
        self.processes = []

    def __enter__(self):
        spin = [sys.executable, "-c", "while True: pass"]
        self.processes = [subprocess.Popen(spin, stdin=subprocess.DEVNULL) for _ in range(self.count)]
        time.sleep(0.5)
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


def this_process():
    return os.getpid()
