"""Reads LAYERS and the sources, and says what breaks the order of the house (used by layers_test.py)."""

import dataclasses
import pathlib
import re

SOURCE_SUFFIXES = {".h", ".cc", ".inc"}
FILE_LINES_MAX = 600

# A family of models is one file of flags and tensor names, src/model/<family>.cc: nothing else may ask
# which family it serves.
FAMILIES = ("llama", "mixtral", "mistral", "qwen", "gemma", "phi", "deepseek", "grok", "gpt[-_]?oss",
            "smollm")
# llama.cpp (kLlamaCpp) is no family but a program, whose reading of files can be asked for.
FAMILY_WORD = re.compile(r"(?<![a-z])(" + "|".join(FAMILIES) + r")(?![a-z]|\.cpp|[ _]cpp)", re.IGNORECASE)
# Files whose business is a list of names that stand in model files, and why.
FAMILY_NAMES_ALLOWED = {
    "model/families.cc": "lists the families that this build knows",
    "tokenizer/pretokenizer.cc": "pre-tokenizers are named after models in the files' own metadata",
    "tokenizer/vocabulary.cc": "so are kinds of vocabularies",
    "tokenizer/tokenizer.cc": "likewise",
}

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


@dataclasses.dataclass
class Layers:
    """What LAYERS says: the floor of every room, the two wings, and the doors between them."""

    floor: dict
    text_wing: set
    number_wing: set
    allow: set
    meet: set


def parse_layers(text):
    """Reads LAYERS: lines 'NUMBER room...', then 'text-wing', 'number-wing', 'allow' and 'meet'."""
    layers = Layers({}, set(), set(), set(), set())
    sets = {
        "text-wing": layers.text_wing,
        "number-wing": layers.number_wing,
        "allow": layers.allow,
        "meet": layers.meet,
    }
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        if words[0].isdigit():
            for room in words[1:]:
                if room in layers.floor:
                    raise ValueError(f"LAYERS:{number}: {room} stands on two floors")
                layers.floor[room] = int(words[0])
        elif words[0] in sets:
            sets[words[0]].update(words[1:])
        else:
            raise ValueError(f"LAYERS:{number}: unknown word {words[0]}")
    return layers


def wing_violation(layers, room, included):
    """Why a file of `room` may not include `included` (a path below src/), or None."""
    other = included.split("/", 1)[0]
    if room in layers.meet:
        return None
    if room in layers.number_wing and other in layers.text_wing:
        return f"the number wing ({room}) includes the text wing ({other})"
    if room in layers.text_wing and other in layers.number_wing and included not in layers.allow:
        return f"the text wing ({room}) includes the number wing ({included})"
    return None


def include_violation(layers, room, included):
    """Why a file of `room` may not include `included`, or None."""
    if "/" not in included:
        return f'"{included}" is not written relative to src/'
    other = included.split("/", 1)[0]
    if other not in layers.floor:
        return f'"{included}" is in a folder that LAYERS does not name'
    if other != room:
        if layers.floor[other] > layers.floor[room]:
            return f'"{included}" is on a higher floor than {room}'
        if layers.floor[other] == layers.floor[room]:
            return f'"{included}" is another room on the floor of {room}'
    return wing_violation(layers, room, included)


def family_violations(name, text):
    """Lines of code (comments don't count) that name a model family outside its own file."""
    if name in FAMILY_NAMES_ALLOWED:
        return
    own = pathlib.PurePath(name).stem.replace("_", "") if name.startswith("model/") and name.endswith(".cc") else ""

    def blank_comment(match):
        part = match.group(0)
        return re.sub(r"[^\n]", " ", part) if part.startswith("/") else part

    code = COMMENT_OR_TEXT.sub(blank_comment, text)
    for number, line in enumerate(code.splitlines(), start=1):
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", line)
        for match in FAMILY_WORD.finditer(words):
            if not own.startswith(re.sub("[-_]", "", match.group(1).lower())):
                yield number, f"names the model family {match.group(1)} outside src/model/<family>.cc"


def file_violations(name, text):
    """What every source file of src/ and tests/ owes its reader, whatever its room."""
    lines = text.splitlines()
    if not lines or not lines[0].startswith("// ") or len(lines[0].split()) < 2:
        yield 1, "does not open with a comment line that says what the file is for"
    if len(lines) > FILE_LINES_MAX:
        yield len(lines), f"has {len(lines)} lines; {FILE_LINES_MAX} is the bound"


def sources_below(folder):
    return sorted(p for p in folder.rglob("*") if p.suffix in SOURCE_SUFFIXES and p.is_file())


def violations(root):
    """Every broken rule under `root` as 'path:line: what', in order."""
    root = pathlib.Path(root)
    layers = parse_layers((root / "LAYERS").read_text(encoding="utf-8"))
    found = []
    for path in sources_below(root / "src"):
        name = path.relative_to(root / "src").as_posix()
        text = path.read_text(encoding="utf-8")
        room = name.split("/", 1)[0]
        problems = list(file_violations(name, text)) + list(family_violations(name, text))
        if room not in layers.floor:
            problems.append((1, f"folder {room} is not in LAYERS"))
        else:
            for number, line in enumerate(text.splitlines(), start=1):
                match = INCLUDE.match(line)
                problem = include_violation(layers, room, match.group(1)) if match else None
                if problem:
                    problems.append((number, problem))
        found += [f"src/{name}:{number}: {what}" for number, what in problems]
    for path in sources_below(root / "tests"):
        name = path.relative_to(root).as_posix()
        found += [f"{name}:{number}: {what}" for number, what in file_violations(name, path.read_text("utf-8"))]
    return found
