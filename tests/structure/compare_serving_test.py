"""scripts/compare_serving: sides meet the same arrivals in turns, spreads and ratios are of the rounds, modes are told apart."""

import contextlib
import io
import os
import pathlib
import stat
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))
import compare_serving as serving  # noqa: E402

NEEDED = ["--remontoir", "r", "--model", "m.gguf", "--peer-folder", "p"]


def report(short_p95, rate=2.0):
    times = {"mean": 1, "p50": 1, "p95": short_p95, "p99": 1, "std": short_p95 / 2, "max": 1}
    return {
        "requests": 10,
        "answered": 10,
        "refused": 0,
        "failed": 0,
        "answered_per_s": rate,
        "output_tokens_per_s": 100,
        "late_sends": 0,
        "ttft_ms": times,
        "short_ttft_ms": times,
        "others_share": 0.01,
    }


class FakeBench:
    """Answers each load with a report of `made(side)`; remembers what it was asked."""

    def __init__(self, made):
        self.made = made
        self.asked = []

    def measure(self, side, loads, seconds, context=serving.CONTEXT, warm_up=4):
        self.asked += [(side, load) for load in loads]
        self.context = context
        return [self.made(side) for _ in loads]


def quietly(call):
    with contextlib.redirect_stderr(io.StringIO()):
        return call()


def parse(*words):
    return quietly(lambda: serving.parse([*NEEDED, *words]))


class RoundsTest(unittest.TestCase):
    def test_sides_meet_the_same_arrivals_and_none_always_comes_first(self):
        bench = FakeBench(lambda side: report(1))
        arguments = parse("--rounds", "2", "--loads", "0.5", "--seconds", "30", "--seed", "7")
        quietly(lambda: serving.measure_loads(bench, arguments, ["adaptive", "fixed", serving.PEER]))
        self.assertEqual(bench.asked[0], ("adaptive", serving.closed_load(8, serving.CAPACITY_REQUESTS, 7)))
        first, second = serving.open_load(1.0, 30, 7), serving.open_load(1.0, 30, 8)
        self.assertEqual(
            bench.asked[1:],
            [("adaptive", first), ("fixed", first), (serving.PEER, first)]
            + [("fixed", second), (serving.PEER, second), ("adaptive", second)],
        )

    def test_capacity_with_failures_ends_the_comparison(self):
        with self.assertRaises(SystemExit):
            quietly(lambda: serving.capacity_of(FakeBench(lambda side: report(1) | {"answered": 9}), "adaptive", 1))

    def test_peers_rate_is_a_share_of_its_own_capacity(self):
        bench = FakeBench(lambda side: report(4000 if side == serving.PEER else 100))
        arguments = parse("--peer-rate", "auto", "--minutes", "10")
        result = quietly(lambda: serving.measure_peer_rate(bench, arguments, ["adaptive", serving.PEER]))
        self.assertEqual(bench.asked[1][1], serving.open_load(2.0 * 0.63, 600, 1))
        self.assertEqual(len(bench.asked), 3)
        self.assertEqual(
            result["parts"][0]["ratios"],
            {"adaptive / llama.cpp, short P95": 0.025, "adaptive / llama.cpp, short std": 0.025},
        )

    def test_pulse_compares_rates(self):
        bench = FakeBench(lambda side: report(1, rate=10 if side == serving.PEER else 45))
        arguments = parse("--pulse", "100")
        result = quietly(lambda: serving.measure_pulse(bench, arguments, ["adaptive", serving.PEER]))
        self.assertEqual(bench.asked[0][1], ["--pulse", "100", "--requests", "200", "--seed", "1"])
        self.assertEqual(result["parts"][0]["ratios"], {"adaptive / llama.cpp, answers/s": 4.5})

    def test_beside_long_prompts_the_streams_gaps_count_and_there_is_room_for_both(self):
        bench = FakeBench(lambda side: report(1))
        arguments = parse("--beside", "6000", "--seconds", "30", "--rounds", "1", "--no-peer")
        result = quietly(lambda: serving.measure_beside(bench, arguments, ["adaptive"]))
        self.assertEqual(bench.asked, [("adaptive", load) for load in serving.beside_loads(6000, 30, 1)])
        self.assertEqual(bench.context, 6000 + serving.CONTEXT)
        self.assertEqual(list(result["parts"][0]["sides"]), ["adaptive"])


class TablesTest(unittest.TestCase):
    def test_rows_show_the_median_and_the_spread_of_the_rounds(self):
        part = {"name": "a load", "sides": {"adaptive": serving.summary([report(10), report(30), report(20)])}}
        text = serving.markdown({"parts": [part]})
        self.assertIn("### a load", text)
        self.assertIn("20 (10–30)", text)
        widths = {line.count("|") for line in text.splitlines() if line.startswith("|")}
        self.assertEqual(widths, {len(serving.COLUMNS) + 2})

    def test_what_nobody_measured_is_a_dash(self):
        columns = serving.summary([{"answered": 0, "refused": 10}])
        self.assertIsNone(columns["P95"])
        self.assertEqual(serving.cell(columns["P95"]), "–")
        self.assertEqual(serving.cell(columns["refused"]), "10")


class BenchTest(unittest.TestCase):
    def bench(self, folder, script):
        program = pathlib.Path(folder) / "program"
        program.write_text(f"#!{sys.executable}\nimport sys\n{script}\n", encoding="utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        log = open(pathlib.Path(folder) / "log", "w", encoding="utf-8")
        self.addCleanup(log.close)
        made = serving.Bench(str(program), "m", {}, 2, log)
        self.stopped = 0

        class FakeServer:
            host, port, pid = "127.0.0.1", 9, os.getpid()

            def stop(_):
                self.stopped += 1

        made.start = lambda side, context: FakeServer()
        return made

    def test_reads_the_report_and_stops_the_server(self):
        with tempfile.TemporaryDirectory() as folder:
            made = self.bench(folder, "import json; print(json.dumps({'words': sys.argv[1:]}))")
            first, second = made.measure("adaptive", [["--rate", "1"], ["--rate", "2"]], 1)
        self.assertEqual(first["words"][:4], ["bench", "serving", "--url", "http://127.0.0.1:9"])
        self.assertEqual(first["words"][-2:], ["--rate", "1"])
        self.assertEqual(second["words"][-2:], ["--rate", "2"])
        self.assertIn("others_share", first)
        self.assertEqual(self.stopped, 1)

    def test_load_that_fails_stops_the_server_too(self):
        with tempfile.TemporaryDirectory() as folder:
            made = self.bench(folder, "sys.exit(1)")
            with self.assertRaises(SystemExit):
                made.measure("adaptive", [[]], 1)
        self.assertEqual(self.stopped, 1)


class ArgumentsTest(unittest.TestCase):
    def test_each_mode_has_its_own_rounds_and_policies(self):
        for words, rounds, policies in [
            ([], 3, serving.POLICIES),
            (["--peer-rate", "0.8"], 1, ["adaptive"]),
            (["--pulse", "100"], 3, ["adaptive"]),
            (["--policies", "fixed,legacy", "--rounds", "2"], 2, ["fixed", "legacy"]),
        ]:
            with self.subTest(words):
                arguments = parse(*words)
                self.assertEqual((arguments.rounds, arguments.policies), (rounds, policies))

    def test_what_makes_no_sense_is_refused(self):
        for words in (
            ["--policies", "greedy"],
            ["--pulse", "5", "--peer-rate", "1"],
            ["--peer-rate", "auto", "--no-peer"],
        ):
            with self.subTest(words), self.assertRaises(SystemExit):
                parse(*words)

    def test_peer_gets_the_requantised_form_where_there_is_one(self):
        with tempfile.TemporaryDirectory() as folder:
            arguments = parse("--peer-folder", folder)
            self.assertEqual(serving.peer_setting(arguments)["file"], "m.gguf")
            made = pathlib.Path(folder) / "m.Q4_0.gguf"
            made.touch()
            self.assertEqual(serving.peer_setting(arguments)["file"], str(made))


if __name__ == "__main__":
    unittest.main()
