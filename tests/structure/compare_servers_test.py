"""The servers' part of scripts/compare: streams are read right, each metric gets the peer's best, ratios mean speed."""

import contextlib
import http.server
import io
import json
import pathlib
import sys
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))
import compare_servers as servers  # noqa: E402

SETTINGS = [
    {"type": "as shipped", "file": "a", "flash_attention": True, "unified": False},
    {"type": "Q4_0", "file": "b", "flash_attention": False, "unified": True},
]


class FakeCompletions(http.server.BaseHTTPRequestHandler):
    """Streams as many pieces as tokens were asked for; `server.bad` spoils the count."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        with contextlib.suppress(OSError):  # the client may leave
            for i in range(body["max_tokens"]):
                time.sleep(self.server.pause)
                self.send({"choices": [{"text": f"word{i}"}]})
            usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": body["max_tokens"] - self.server.bad}
            self.send({"choices": [{"text": "", "finish_reason": "length"}], "usage": usage})
            self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def send(self, chunk):
        self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        self.wfile.flush()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def fake_server(bad=0, pause=0.0):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), FakeCompletions) as listener:
        listener.bodies, listener.bad, listener.pause = [], bad, pause
        thread = threading.Thread(target=listener.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield servers.Server(None, listener.server_address, {}), listener
        finally:
            listener.shutdown()
            thread.join()


class StreamTest(unittest.TestCase):
    def test_every_piece_of_text_is_an_arrival(self):
        with fake_server() as (server, listener):
            stream = servers.Stream(server, [1, 2, 3], 5)
        self.assertEqual(len(stream.arrivals), 5)
        self.assertEqual(len(stream.gaps()), 4)
        self.assertEqual(stream.tokens, 5)
        self.assertGreater(stream.first_seconds(), 0)
        self.assertEqual(listener.bodies[0]["prompt"], [1, 2, 3])

    def test_wrong_count_of_tokens_ends_the_comparison(self):
        with fake_server(bad=1) as (server, _), self.assertRaises(SystemExit):
            servers.Stream(server, [1, 2, 3], 5)

    def test_stream_that_takes_too_long_is_left_with_what_came(self):
        kept = servers.STREAM_SECONDS_MAX
        servers.STREAM_SECONDS_MAX = 0
        try:
            with fake_server(pause=0.01) as (server, _):
                stream = servers.Stream(server, [1], 50)
        finally:
            servers.STREAM_SECONDS_MAX = kept
        self.assertEqual(stream.tokens, len(stream.arrivals))
        self.assertEqual(stream.tokens, 3)

    def test_concurrent_streams_are_as_many_as_sequences(self):
        with fake_server() as (server, listener):
            speed = servers.concurrent_speed(server, servers.Prompts(list(range(500))), 4)
        self.assertGreater(speed, 0)
        self.assertEqual(len(listener.bodies), servers.SEQUENCES)


class PromptsTest(unittest.TestCase):
    def test_no_two_prompts_begin_alike(self):
        prompts = servers.Prompts(list(range(1400)))
        taken = [prompts.take(33) for _ in range(200)]
        self.assertEqual({len(prompt) for prompt in taken}, {33})
        self.assertEqual(len({prompt[0] for prompt in taken}), 200)


class ResultTest(unittest.TestCase):
    def result(self, values, chosen):
        made = servers.ServerComparison.__new__(servers.ServerComparison)
        peer = servers.Server.__new__(servers.Server)
        peer.hello = {"describe": "peer", "features": ""}
        made.peers = {0: peer}
        return made.result(values, SETTINGS, chosen, 3, 0.0)

    def test_ratios_above_one_mean_that_remontoir_is_faster(self):
        values = {
            name: {"remontoir": [20 if more else 10], "peer_same_file": [10 if more else 40], "peer_best": []}
            for name, _, more in servers.METRICS
        }
        result = self.result(values, {metric: (0, 0) for metric in servers.measurements()})
        for name, _, more in servers.METRICS:
            self.assertEqual(result["ratios"][f"{name}_best"], 2 if more else 4, name)
            self.assertEqual(result["ratios"][f"{name}_same_file"], 2 if more else 4, name)

    def test_best_is_never_worse_than_the_same_file(self):
        values = {
            name: {"remontoir": [10], "peer_same_file": [50 if more else 20], "peer_best": [20 if more else 50]}
            for name, _, more in servers.METRICS
        }
        result = self.result(values, {metric: (0, 1) for metric in servers.measurements()})
        for row in result["rows"]:
            self.assertEqual(row["peer_best"]["median"], row["peer_same_file"]["median"])
            self.assertEqual(row["peer_best"]["setting"]["type"], "as shipped")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            servers.print_servers(result)
        for name, _, _ in servers.METRICS:
            self.assertIn(name, printed.getvalue())


if __name__ == "__main__":
    unittest.main()
