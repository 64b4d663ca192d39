"""scripts/compare: the peer gets its best setting, sides take turns, ratios are of medians, time bounds hold."""

import contextlib
import io
import os
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))
import compare  # noqa: E402


class FakeWorker:
    """Answers with the speed (tokens a second) that `speed(request)` says; remembers what it was asked."""

    def __init__(self, speed, log):
        self.speed = speed
        self.log = log
        self.pid = os.getpid()
        self.hello = {}

    def ask(self, request):
        if request["row"] == "ceilings":
            return {"ceilings": {"read_gb_s": 1}}
        self.log.append((self, request))
        tokens = max(1, request["tokens"])
        seconds = tokens / self.speed(request)
        return {"tokens": tokens, "seconds": seconds, "ceiling_seconds": seconds / 2, "step_seconds": [seconds]}


def comparison(ours, peer, deadline=float("inf")):
    log = []
    files = {"as shipped": "a.gguf", "Q4_0": "b.gguf"}
    made = compare.Comparison(FakeWorker(ours, log), FakeWorker(peer, log), files, "as shipped", deadline)
    return made, log


def quietly(call):
    with contextlib.redirect_stderr(io.StringIO()):
        return call()


def by_setting(speeds):
    """A peer whose speed depends on (type is Q4_0, flash attention)."""
    return lambda request: speeds[request["setting"]["type"] == "Q4_0", request["setting"]["flash_attention"]]


class CompareTest(unittest.TestCase):
    def test_peer_gets_its_best_setting_on_the_same_file_and_on_any(self):
        peer = by_setting({(False, False): 20, (False, True): 10, (True, False): 30, (True, True): 50})
        made, _ = comparison(lambda request: 100, peer)
        result, ratios = quietly(lambda: made.measure(compare.Row("decode", 16), 3))
        self.assertEqual(result["peer_same_file"]["setting"]["flash_attention"], False)
        self.assertEqual(result["peer_best"]["setting"], {"type": "Q4_0", "flash_attention": True, "unified": False})
        self.assertEqual({name: ratio["median"] for name, ratio in ratios.items()},
                         {"decode_16_same_file": 5.0, "decode_16_best": 2.0})
        self.assertEqual(result["of_ceiling"], 0.5)

    def test_best_on_the_same_file_is_measured_once(self):
        peer = by_setting({(False, False): 60, (False, True): 10, (True, False): 30, (True, True): 50})
        made, log = comparison(lambda request: 120, peer)
        result, ratios = quietly(lambda: made.measure(compare.Row("decode", 16), 3))
        self.assertEqual(ratios["decode_16_best"]["median"], ratios["decode_16_same_file"]["median"])
        self.assertEqual(len(log), 4 * 2 + 3 * 2)
        self.assertEqual(result["rounds"], 3)

    def test_sides_change_who_goes_first(self):
        peer = by_setting({(False, False): 60, (False, True): 10, (True, False): 30, (True, True): 50})
        made, log = comparison(lambda request: 120, peer)
        quietly(lambda: made.measure(compare.Row("decode", 16), 2))
        self.assertEqual([worker is made.ours for worker, _ in log[8:]], [True, False, False, True])

    def test_ceilings_are_measured_again_before_a_row(self):
        made, _ = comparison(lambda request: 100, lambda request: 100)
        quietly(lambda: made.measure(compare.Row("decode", 16), 1))
        self.assertEqual(made.ours.hello["ceilings"], {"read_gb_s": 1})

    def test_choice_of_a_busy_moment_is_not_held_against_the_peer(self):
        tries = []

        def peer(request):
            tries.append(request)
            best_when_tried = request["setting"]["type"] == "Q4_0" and len(tries) <= 8
            return 50 if best_when_tried else 20 if request["setting"]["type"] == "as shipped" else 1

        made, _ = comparison(lambda request: 100, peer)
        result, ratios = quietly(lambda: made.measure(compare.Row("decode", 16), 3))
        self.assertEqual(result["peer_best"]["setting"]["type"], "as shipped")
        self.assertEqual(ratios["decode_16_best"]["median"], 5.0)

    def test_long_measurements_are_repeated_five_times(self):
        made, _ = comparison(lambda request: 2048 / 21.0, lambda request: 1000)
        result, _ = quietly(lambda: made.measure(compare.Row("prompt", 2048), 9))
        self.assertEqual(result["rounds"], 5)

    def test_past_the_deadline_one_round_is_made(self):
        made, _ = comparison(lambda request: 100, lambda request: 100, deadline=0)
        result, _ = quietly(lambda: made.measure(compare.Row("decode", 16), 9))
        self.assertEqual(result["rounds"], 1)

    def test_longest_rows_try_only_types_that_were_good(self):
        made, log = comparison(lambda request: 100, lambda request: 50 + (request["setting"]["type"] != "Q4_0"))
        quietly(lambda: made.measure(compare.Row("prompt", 2048), 1))
        log.clear()
        quietly(lambda: made.choose(compare.Row("prompt", 8192)))
        self.assertEqual({request["setting"]["type"] for _, request in log}, {"as shipped"})

    def test_batches_are_tried_with_one_and_with_separate_buffers(self):
        made, _ = comparison(lambda request: 100, lambda request: 100)
        settings = made.settings(compare.Row("batch", 512, 8))
        self.assertEqual({setting["unified"] for setting in settings}, {True, False})
        self.assertEqual(len(settings), 8)

    def test_busy_rounds_take_turns_and_say_what_share_is_kept(self):
        made, log = comparison(lambda request: 100, lambda request: 50)
        result = quietly(lambda: compare.measure_busy(made, 0, 2))
        asked = [worker is made.ours for worker, request in log if request.get("steps") == compare.BUSY_STEPS]
        self.assertEqual(asked, [True, False, True, False, False, True, False, True])
        for side in ("remontoir", "llama_cpp"):
            self.assertEqual(result[side]["busy_share"]["median"], 1.0)
            self.assertEqual(result[side]["p99_over_median"]["median"], 1.0)
            self.assertEqual(result[side]["busy_steps"], 2)

    def test_busy_processes_end_with_the_block(self):
        with compare.BusyProcesses(1) as busy:
            process = busy.processes[0]
            self.assertIsNone(process.poll())
        self.assertIsNotNone(process.returncode)
        self.assertFalse(os.path.exists(f"/proc/{process.pid}"))


if __name__ == "__main__":
    unittest.main()
