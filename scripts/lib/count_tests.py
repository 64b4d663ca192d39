"""Adds up the JUnit files of a folder and closes with the line 'N passed, N failed'; used by scripts/test."""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def count(path):
    """(passed, failed, skipped) of one file, from its test cases."""
    passed = failed = skipped = 0
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            failed += 1
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def main():
    folder = pathlib.Path(sys.argv[1])
    total = [0, 0, 0]
    for path in sorted(folder.glob("*.xml")):
        counts = count(path)
        total = [a + b for a, b in zip(total, counts)]
        print(f"{path.stem:32} {counts[0]:5} passed {counts[1]:3} failed {counts[2]:3} skipped")
    print(f"{sum(total)} tests ran" if not total[2] else f"{total[0] + total[1]} tests ran, {total[2]} didn't")
    closing = f"{total[0]} passed, {total[1]} failed"
    print(closing + (f", {total[2]} skipped" if total[2] else ""))
    return 1 if total[1] or not total[0] else 0


if __name__ == "__main__":
    sys.exit(main())
