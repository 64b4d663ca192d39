"""scripts/plot_attention draws every measurement and the tiles of the lists."""

import json
import pathlib
import subprocess
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"


def row(keys, density, effective):
    return {"keys_per_block": keys, "positions_per_block": 32, "density": density, "effective_compute": {"median": effective}}


def plot(measured, *words):
    return subprocess.run([ROOT / "scripts/plot_attention", *words], input=json.dumps(measured), text=True,
                          capture_output=True, check=False)


class PlotAttention(unittest.TestCase):
    def test_draws_each_measurement_and_one_mark_for_each_block_size(self):
        rows = [row(keys, density, 0.9) for keys in (128, 16) for density in (0.05, 0.5)]
        done = plot({"masked": rows})
        self.assertEqual(done.returncode, 0, done.stderr)
        svg = xml.etree.ElementTree.fromstring(done.stdout)
        self.assertEqual(len(svg.findall(f"{SVG}circle")), 4 + 2)

    def test_lists_no_tile_above_the_diagonal_or_of_another_document(self):
        done = plot({"masked": [row(64, 0.1, 1.0)]})
        svg = xml.etree.ElementTree.fromstring(done.stdout)
        tiles = [one.get("fill") for one in svg.findall(f"{SVG}rect") if one.get("class") == "tile"]
        self.assertEqual(len(tiles), 400)
        masked = "#eeeeee"
        self.assertTrue(all(tiles[r * 20 + k] == masked for r in range(20) for k in range(r + 1, 20)))
        self.assertTrue(all(tiles[r * 20 + k] == masked for r in range(7, 20) for k in range(7)))

    def test_sealing_keeps_every_key_of_a_kind(self):
        svg = xml.etree.ElementTree.fromstring(plot({}, "--keys").stdout)
        colours = {kind: [one.get("fill") for one in svg.findall(f"{SVG}rect") if one.get("class") == kind]
                   for kind in ("key", "sealed")}
        self.assertNotEqual(colours["key"], colours["sealed"])
        self.assertEqual(sorted(colours["key"]), sorted(colours["sealed"]))

    def test_what_one_row_wants_is_read_for_all(self):
        svg = xml.etree.ElementTree.fromstring(plot({}, "--keys").stdout)
        wanted, union = ([one.get("fill") for one in svg.findall(f"{SVG}rect") if one.get("class") == kind]
                         for kind in ("wanted", "union"))
        self.assertEqual(len(wanted), 8 * len(union))
        for i, fill in enumerate(union):
            self.assertEqual(fill == "#1f5fa8", "#1f5fa8" in wanted[i :: len(union)])

    def test_draws_every_block_of_a_choice_once(self):
        segment = {"read": "08" * 64, "log2_share": [-5.0] * 64, "chosen": "1" * 20 + "0" * 44}
        done = plot({"model": "m", "layer": 5, "head": 4, "position": 8184, "segments": [segment] * 2}, "--choice")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("40 of 128 far blocks", done.stdout)
        paths = xml.etree.ElementTree.fromstring(done.stdout).findall(f"{SVG}path")
        self.assertEqual([path.get("d").count("M") for path in paths], [128, 88, 40])

    def test_says_what_is_missing(self):
        for words, tool in (((), "bench attention"), (("--choice",), "attention_picture")):
            done = plot({}, *words)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(tool, done.stderr)


if __name__ == "__main__":
    unittest.main()
