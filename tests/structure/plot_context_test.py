"""scripts/plot_context draws every side at every context, and its table has a line for each."""

import json
import pathlib
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"


def one(side, context, seconds, **more):
    times = {"ttft_s": seconds, "gap_mean_ms": 5.0, "gap_p99_ms": 7.0}
    return {"side": side, "context": context, "others_share": 0.01, **times, **more}


def result(measured, **more):
    known = {"model": "m.gguf", "peer_model": "p.gguf", "rope_base_scale": 4, "threads": 2, "answer_tokens": 64}
    return known | {"measured": measured} | more


MEASURED = [
    *(one("exact", 8192, seconds) for seconds in (20.0, 22.0, 30.0)),
    one("sparse", 8192, 11.0, density=0.25, residual=0.4),
    one("exact", 32768, 320.0),
    one("sparse", 32768, 88.0, density=0.125, residual=0.6),
    one("llama.cpp", 8192, 44.0),
]


def plot(*results, words=()):
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for i, found in enumerate(results):
            files.append(pathlib.Path(folder) / f"{i}.json")
            files[-1].write_text(json.dumps(found), "utf-8")
        return subprocess.run([ROOT / "scripts/plot_context", *words, *files], text=True, capture_output=True, check=False)


class PlotContext(unittest.TestCase):
    def test_draws_a_point_for_each_side_and_context_in_both_panels(self):
        done = plot(result(MEASURED))
        self.assertEqual(done.returncode, 0, done.stderr)
        svg = xml.etree.ElementTree.fromstring(done.stdout)
        self.assertEqual(len(svg.findall(f"{SVG}circle")), 2 * 5)
        self.assertEqual(len(svg.findall(f"{SVG}polyline")), 2 * 3)

    def test_table_has_medians_spreads_ratios_and_powers(self):
        done = plot(result(MEASURED), words=["--table"])
        rows = [line for line in done.stdout.splitlines() if line.startswith("| ")]
        self.assertEqual(len(rows), 2 + 5)
        self.assertIn("| 8,192 | exact | 3 | 22.0 (20.0–30.0) | – |", done.stdout)
        self.assertIn("| 8,192 | sparse | 1 | 11.0 | 2.00 |", done.stdout)
        self.assertIn("| 25.0 % | 0.40 |", done.stdout)
        self.assertIn("sparse 1.50 (to 32,768)", done.stdout)
        self.assertNotIn("llama.cpp 1", done.stdout)

    def test_several_runs_of_the_same_are_one(self):
        done = plot(result(MEASURED[:2]), result(MEASURED[2:]), words=["--json"])
        self.assertEqual(json.loads(done.stdout)["measured"], MEASURED)
        done = plot(result(MEASURED), result(MEASURED, threads=1))
        self.assertNotEqual(done.returncode, 0)

    def test_says_what_is_missing(self):
        done = plot({})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("compare_context", done.stderr)


if __name__ == "__main__":
    unittest.main()
