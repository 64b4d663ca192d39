"""The order of the house: every quoted include goes down, and the checker catches planted violations."""

import pathlib
import tempfile
import unittest

import layers

ROOT = pathlib.Path(__file__).resolve().parents[2]

HOUSE = """
# a small house
4 apps
3 server
2 tokenizer kv
1 base sampling formats
text-wing tokenizer
number-wing kv sampling
allow sampling/token_id.h
meet server apps
"""

# (what is planted, file below the house, its text, a part of the message or None when all is well)
PLANTED = [
    ("downward", "src/kv/a.cc", '// Rooms.\n#include "base/b.h"\n', None),
    ("own folder", "src/kv/a.cc", '// Rooms.\n#include "kv/b.h"\n', None),
    ("system header", "src/kv/a.cc", "// Rooms.\n#include <server/b.h>\n", None),
    ("upward", "src/kv/a.cc", '// Rooms.\n#include "server/b.h"\n', "src/kv/a.cc:2: \"server/b.h\" is on a higher floor"),
    ("upward, odd spaces", "src/kv/a.cc", '// Rooms.\n #  include  "server/b.h"\n', "higher floor"),
    ("sideways", "src/kv/a.cc", '// Rooms.\n#include "tokenizer/b.h"\n', "another room on the floor"),
    ("numbers in the text wing", "src/tokenizer/a.cc", '// Words.\n#include "sampling/sampler.h"\n', "the text wing (tokenizer) includes the number wing"),
    ("allowed header", "src/tokenizer/a.cc", '// Words.\n#include "sampling/token_id.h"\n', None),
    ("room in no wing", "src/tokenizer/a.cc", '// Words.\n#include "formats/b.h"\n', None),
    ("wings meet", "src/server/a.cc", '// Serves.\n#include "kv/b.h"\n#include "tokenizer/b.h"\n', None),
    ("unknown folder", "src/cellar/a.cc", '// Wine.\n', "folder cellar is not in LAYERS"),
    ("include of an unknown folder", "src/kv/a.cc", '// Rooms.\n#include "cellar/b.h"\n', "LAYERS does not name"),
    ("include without folder", "src/kv/a.cc", '// Rooms.\n#include "b.h"\n', "not written relative to src/"),
    ("no opening line", "src/kv/a.cc", '#include "base/b.h"\n', "does not open with a comment line"),
    ("empty file", "src/kv/a.cc", "", "does not open with a comment line"),
    ("long file", "src/kv/a.cc", "// Rooms.\n" + "int x;\n" * 600, "has 601 lines"),
    ("long test", "tests/unit/kv/a_test.cc", "// Facts.\n" + "\n" * 600, "has 601 lines"),
    ("longest file", "src/kv/a.cc", "// Rooms.\n" + "\n" * 599, None),
    ("family by name", "src/server/a.cc", '// Serves.\nif (arch == "llama") {}\n', "src/server/a.cc:2: names the model family llama"),
    ("family in CamelCase", "src/server/a.cc", "// Serves.\nvoid LoadMixtral();\n", "names the model family Mixtral"),
    ("family in snake_case", "src/server/a.cc", "// Serves.\nbool is_qwen2;\n", "names the model family qwen"),
    ("family in a comment", "src/server/a.cc", "// Serves faster than llama.cpp.\n", None),
    ("family at home", "src/model/llama.cc", '// Llama.\nconst char* kName = "llama";\n', None),
    ("another family's home", "src/model/llama.cc", '// Llama.\nconst char* kName = "gemma3";\n', "names the model family gemma"),
    ("a word that holds a name", "src/server/a.cc", "// Serves.\nint philosophy;\n", None),
]

HOUSE_WITH_MODEL = HOUSE.replace("2 tokenizer kv", "2 tokenizer kv model")


def violations_of(files):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "src").mkdir()
        (root / "tests").mkdir()
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        return layers.violations(root)


class Checker(unittest.TestCase):
    def test_judges_planted_files(self):
        for what, name, text, message in PLANTED:
            with self.subTest(what):
                found = violations_of({"LAYERS": HOUSE_WITH_MODEL, name: text})
                if message is None:
                    self.assertEqual(found, [])
                else:
                    self.assertEqual(len(found), 1, found)
                    self.assertIn(message, found[0])

    def test_refuses_a_room_on_two_floors(self):
        with self.assertRaisesRegex(ValueError, "kv stands on two floors"):
            layers.parse_layers("1 kv\n2 kv\n")

    def test_refuses_a_word_it_does_not_know(self):
        with self.assertRaisesRegex(ValueError, "LAYERS:1: unknown word wings"):
            layers.parse_layers("wings a b\n")


class House(unittest.TestCase):
    def test_every_rule_holds(self):
        self.assertEqual(layers.violations(ROOT), [])

    def test_every_exception_is_a_file(self):
        for name in layers.FAMILY_NAMES_ALLOWED:
            self.assertTrue((ROOT / "src" / name).is_file(), name)

    def test_every_room_of_a_wing_stands_on_a_floor(self):
        rules = layers.parse_layers((ROOT / "LAYERS").read_text(encoding="utf-8"))
        for room in rules.text_wing | rules.number_wing | rules.meet:
            self.assertIn(room, rules.floor)

    def test_the_sources_were_read(self):
        self.assertGreater(len(layers.sources_below(ROOT / "src")), 20)


if __name__ == "__main__":
    unittest.main()
