"""Runs clang-tidy on the files given, on every core, until a time bound; used by scripts/lint."""

import argparse
import concurrent.futures
import os
import subprocess
import sys
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--database", required=True, help="folder with compile_commands.json")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.seconds

    def check(file):
        left = deadline - time.monotonic()
        if left <= 0:
            return file, "left", ""
        # The database was written for GCC, some of whose options Clang doesn't know.
        unknown = ["unknown-warning-option", "ignored-optimization-argument"]
        allowed = [f"--extra-arg=-Wno-{warning}" for warning in unknown]
        options = ["--quiet", *allowed, "-p", arguments.database]
        command = [arguments.tool, *options, file]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=left, stdin=subprocess.DEVNULL, check=False
            )
        except subprocess.TimeoutExpired:
            return file, "left", ""
        return file, "clean" if done.returncode == 0 else "bad", done.stdout + done.stderr

    counts = {"clean": 0, "bad": 0, "left": 0}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for file, outcome, text in pool.map(check, arguments.files):
            counts[outcome] += 1
            if outcome == "bad":
                print(f"{file}:\n{text}")
    print(
        f"clang-tidy: {counts['clean']} files clean, {counts['bad']} with findings, "
        f"{counts['left']} not reached in {arguments.seconds:.0f} s"
    )
    return 1 if counts["bad"] else 0


if __name__ == "__main__":
    sys.exit(main())
