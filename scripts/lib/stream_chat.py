"""Reads a streamed chat completion (server-sent events) on stdin and prints the words as they come."""

import json
import sys


def main():
    words = 0
    for line in sys.stdin.buffer:
        line = line.strip()
        if not line.startswith(b"data:"):
            # A reply that is no stream is an error object.
            if line.startswith(b"{"):
                sys.exit(f"the server answered: {line.decode('utf-8', 'replace')}")
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            print()
            return 0 if words else 1
        chunk = json.loads(data)
        if "error" in chunk:
            sys.exit(f"\nthe server said: {chunk['error']['message']}")
        for choice in chunk["choices"]:
            text = choice["delta"].get("content") or ""
            words += bool(text)
            print(text, end="", flush=True)
    sys.exit("\nthe stream ended before its time")


if __name__ == "__main__":
    sys.exit(main())
