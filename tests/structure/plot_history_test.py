"""scripts/plot_history draws every measurement, its range and the fit."""

import json
import pathlib
import subprocess
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"


def row(history, fresh, ms):
    return {"history": history, "fresh": fresh, "cached": history, "first_token_ms": ms,
            "low_ms": ms * 0.9, "high_ms": ms * 1.1, "fitted_ms": ms}


def plot(measured):
    return subprocess.run([ROOT / "scripts/plot_history"], input=json.dumps(measured), text=True,
                          capture_output=True, check=False)


class PlotHistory(unittest.TestCase):
    def test_draws_each_measurement_once_and_a_line_for_each_length(self):
        rows = [row(h, f, 1 + h / 100 + f) for h in (0, 2048, 8000) for f in (32, 128)]
        done = plot({"history": {"rows": rows, "fit_ms": [1, 1, 0], "farthest_from_fit": 0}})
        self.assertEqual(done.returncode, 0, done.stderr)
        svg = xml.etree.ElementTree.fromstring(done.stdout)
        self.assertEqual(len(svg.findall(f"{SVG}circle")), 6)
        self.assertEqual(len(svg.findall(f"{SVG}polyline")), 2)

    def test_says_what_is_missing(self):
        done = plot({"rooms": []})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--model", done.stderr)


if __name__ == "__main__":
    unittest.main()
