"""The scripts: every one stops at its first error and says how it is used; their helpers count and read right."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"

JUNIT = """<testsuites><testsuite>
<testcase name="a"/><testcase name="b"><failure message="x"/></testcase><testcase name="c"><skipped/></testcase>
<testcase name="d" status="run"/><testcase name="e"><error message="x"/></testcase><testcase name="f" status="notrun"/>
</testsuite></testsuites>"""

STREAM = b"""data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}

: a ping

data: {"choices":[{"index":0,"delta":{"content":"Hello "}}]}

data: {"choices":[{"index":0,"delta":{"content":"w\\u00f6rld"}}]}

data: {"choices":[]}

data: [DONE]

"""


def bash_scripts():
    found = [p for p in SCRIPTS.iterdir() if p.is_file()] + [ROOT / ".ci/run"]
    return [p for p in found if p.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n")]


def run_helper(name, *arguments, stdin=b""):
    return subprocess.run(
        [sys.executable, SCRIPTS / "lib" / name, *arguments], input=stdin, capture_output=True, check=False
    )


class Scripts(unittest.TestCase):
    def test_stop_at_the_first_error(self):
        self.assertGreater(len(bash_scripts()), 7)
        for script in bash_scripts():
            with self.subTest(script.name):
                self.assertIn("\nset -euo pipefail\n", script.read_text(encoding="utf-8"))

    def test_say_how_they_are_used(self):
        for script in bash_scripts():
            if script.parent != SCRIPTS:
                continue
            with self.subTest(script.name), tempfile.TemporaryDirectory() as elsewhere:
                done = subprocess.run([script, "--help"], cwd=elsewhere, capture_output=True, check=False, timeout=60)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(b"sage:", done.stdout)


class CountTests(unittest.TestCase):
    def test_closes_with_the_sum_of_all_files(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("one.xml", "two.xml"):
                (pathlib.Path(folder) / name).write_text(JUNIT, encoding="utf-8")
            done = run_helper("count_tests.py", folder)
        self.assertEqual(done.stdout.splitlines()[-1], b"4 passed, 4 failed, 4 skipped")
        self.assertEqual(done.returncode, 1)

    def test_fails_when_no_test_ran(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run_helper("count_tests.py", folder)
        self.assertEqual(done.stdout.splitlines()[-1], b"0 passed, 0 failed")
        self.assertEqual(done.returncode, 1)


class StreamChat(unittest.TestCase):
    def test_prints_the_words(self):
        done = run_helper("stream_chat.py", stdin=STREAM)
        self.assertEqual(done.stdout.decode(), "Hello w\u00f6rld\n")
        self.assertEqual(done.returncode, 0)

    def test_fails_on_what_is_no_answer(self):
        for text, message in [
            (b'{"error":{"message":"no such model"}}\n', b"no such model"),
            (b'data: {"error":{"message":"out of room"}}\n\n', b"out of room"),
            (STREAM.replace(b"data: [DONE]", b""), b"ended before its time"),
            (b"", b"ended before its time"),
        ]:
            with self.subTest(message):
                done = run_helper("stream_chat.py", stdin=text)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(message, done.stderr)


if __name__ == "__main__":
    unittest.main()
