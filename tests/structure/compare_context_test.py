"""scripts/compare_context: sides read the same prompts in turns, modes are checked, a broken run keeps what it has."""

import argparse
import contextlib
import email.message
import io
import json
import pathlib
import struct
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))
import compare_context as context  # noqa: E402
from compare_servers import Prompts  # noqa: E402

NEEDED = ["--remontoir", "r", "--model", "m.gguf", "--peer-folder", "p"]


def quietly(call):
    with contextlib.redirect_stderr(io.StringIO()):
        return call()


class FakeSides:
    """Measures nothing; remembers who read what, and breaks off after so many times."""

    def __init__(self, names, measurements_max=1000):
        self.servers = dict.fromkeys(names)
        self.left = measurements_max
        self.asked = []

    def measure(self, side, tokens, prompt):
        if self.left == 0:
            raise SystemExit("enough")
        self.left -= 1
        self.asked.append((side, tokens, tuple(prompt)))
        return {"side": side, "context": tokens, "ttft_s": 1, "gap_mean_ms": 1, "gap_p99_ms": 1, "others_share": 0}


def run(sides, contexts, rounds=None, peer_context_max=32768):
    arguments = argparse.Namespace(contexts=contexts, rounds=rounds, peer_context_max=peer_context_max)
    result = {"measured": []}
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "kept.json"
        with contextlib.suppress(SystemExit):
            prompts = Prompts(list(range(40000)))
            quietly(lambda: context.measure_all(arguments, sides, prompts, result, file))
        return result, json.loads(file.read_text("utf-8"))


class TurnsTest(unittest.TestCase):
    def test_sides_read_the_same_prompt_in_a_round_and_none_always_comes_first(self):
        sides = FakeSides(["exact", "sparse", context.PEER])
        run(sides, [2048])
        self.assertEqual(len(sides.asked), 9)
        rounds = [sides.asked[i : i + 3] for i in (0, 3, 6)]
        self.assertEqual({len({prompt for _, _, prompt in one}) for one in rounds}, {1})
        self.assertEqual(len({one[0][2][0] for one in rounds}), 3)
        self.assertEqual([one[0][0] for one in rounds], ["exact", "sparse", context.PEER])
        self.assertEqual(len(sides.asked[0][2]), 2048 - context.ANSWER_TOKENS)

    def test_long_contexts_have_fewer_rounds_and_come_last(self):
        sides = FakeSides(["exact"])
        run(sides, [32768, 8192, 16384])
        self.assertEqual([tokens for _, tokens, _ in sides.asked], [8192] * 3 + [16384] * 2 + [32768])

    def test_auto_is_measured_where_it_engages_and_the_peer_up_to_its_bound(self):
        sides = FakeSides(["exact", "auto", context.PEER])
        run(sides, [16384, 24576], rounds=1, peer_context_max=16384)
        self.assertEqual({asked[:2] for asked in sides.asked},
                         {("exact", 16384), (context.PEER, 16384), ("exact", 24576), ("auto", 24576)})

    def test_run_that_breaks_off_has_kept_what_it_measured(self):
        result, kept = run(FakeSides(["exact", "sparse"], measurements_max=3), [2048])
        self.assertEqual(len(kept["measured"]), 3)
        self.assertEqual(kept, result)


class ChecksTest(unittest.TestCase):
    def stream(self, mode, timings):
        headers = email.message.Message()
        headers["X-Flash-Attn-Mode"] = mode
        return types.SimpleNamespace(headers=headers, timings=timings)

    def test_mode_follows_from_side_and_context(self):
        for side, tokens, mode in [
            ("exact", 32768, "exact"),
            ("sparse", 4096, "exact"),
            ("sparse", 8192, "custom_sparse"),
            ("auto", 16384, "exact"),
            ("auto", 24576, "custom_sparse"),
        ]:
            with self.subTest(side=side, tokens=tokens):
                self.assertEqual(context.check_ours(side, tokens, self.stream(mode, {}))["mode"], mode)
                other = "exact" if mode == "custom_sparse" else "custom_sparse"
                with self.assertRaises(SystemExit):
                    context.check_ours(side, tokens, self.stream(other, {}))

    def test_reading_of_far_blocks_is_noted_and_a_cached_prompt_ends_the_comparison(self):
        timings = {"cached_tokens": 0, "attention_density": 0.2, "attention_residual": 0.3}
        noted = context.check_ours("sparse", 8192, self.stream("custom_sparse", timings))
        self.assertEqual((noted["density"], noted["residual"]), (0.2, 0.3))
        with self.assertRaises(SystemExit):
            context.check_ours("exact", 2048, self.stream("exact", {"cached_tokens": 64}))


class StretchedTest(unittest.TestCase):
    def file(self, folder, trained):
        file = pathlib.Path(folder) / "m.Q4_0.gguf"
        pairs = [(".context_length", context.UINT32, struct.pack("<I", trained)),
                 (".rope.freq_base", context.FLOAT32, struct.pack("<f", 10000))]
        data = b"GGUF" + b"".join(b"llama" + key.encode() + struct.pack("<I", kind) + value for key, kind, value in pairs)
        file.write_bytes(data + b"weights")
        return file

    def test_copy_says_another_context_and_nothing_else(self):
        with tempfile.TemporaryDirectory() as folder:
            file = self.file(folder, 8192)
            got = context.stretched(str(file), 32768, 4, pathlib.Path(folder))
            self.assertEqual(got["rope_freq_base"], 40000)
            before, after = file.read_bytes(), pathlib.Path(got["file"]).read_bytes()
            self.assertEqual(before.replace(struct.pack("<I", 8192), struct.pack("<I", 32768)), after)

    def test_file_that_was_trained_for_it_is_taken_as_it_is(self):
        with tempfile.TemporaryDirectory() as folder:
            file = self.file(folder, 32768)
            self.assertEqual(context.stretched(str(file), 32768, 1, pathlib.Path(folder))["file"], str(file))


class ArgumentsTest(unittest.TestCase):
    def parse(self, *words):
        return quietly(lambda: context.parse([*NEEDED, *words]))

    def test_quick_is_one_round_up_to_16k(self):
        quick = self.parse("--quick")
        self.assertEqual((quick.rounds, quick.contexts), (1, [2048, 4096, 8192, 16384]))
        self.assertEqual(self.parse("--quick", "--contexts", "32768").contexts, [32768])

    def test_unknown_sides_and_none_of_ours_are_refused(self):
        for words in (["--sides", "dense"], ["--sides", context.PEER], ["--contexts", "16"]):
            with self.subTest(words), self.assertRaises(SystemExit):
                self.parse(*words)


if __name__ == "__main__":
    unittest.main()
