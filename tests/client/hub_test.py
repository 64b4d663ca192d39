"""`remontoir pull`, `list`, `rm` and `-hf` against a hub on the loopback interface."""

import contextlib
import hashlib
import http.server
import json
import os
import pathlib
import signal
import subprocess
import threading
import time

import conftest
import pytest

SIZE = 3_000_000


class Hub:
    """One repository, o/r; a test may change how its files are sent."""

    def __init__(self):
        self.files = {}
        self.cut_after = []  # bytes after which each next answer about a file ends
        self.pause = None  # an Event: answers about files stop half-way until it is set
        self.requests = []

    def listing(self):
        siblings = [{"rfilename": "README.md", "size": 1}]
        for name, content in self.files.items():
            digest = hashlib.sha256(content).hexdigest()
            siblings.append({"rfilename": name, "size": len(content), "lfs": {"sha256": digest, "size": len(content)}})
        return json.dumps({"siblings": siblings}).encode()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        hub = self.server.hub
        hub.requests.append((self.path, dict(self.headers)))
        prefix = "/o/r/resolve/main/"
        if self.path == "/api/models/o/r?blobs=true":
            self.answer(200, hub.listing())
        elif self.path.startswith(prefix) and self.path.removeprefix(prefix) in hub.files:
            # As the hub does it: the digest here, the bytes elsewhere.
            name = self.path.removeprefix(prefix)
            content = hub.files[name]
            self.answer(302, b"", Location=f"/blobs/{name}", **{
                "X-Linked-Etag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Linked-Size": str(len(content))})
        elif self.path.startswith("/blobs/"):
            self.send_file(hub, hub.files[self.path.removeprefix("/blobs/")])
        else:
            self.answer(404, b"", **{"X-Error-Code": "EntryNotFound"})

    def answer(self, status, body, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_file(self, hub, content):
        asked = self.headers.get("Range")
        first = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        self.send_response(206 if asked else 200)
        self.send_header("ETag", f'"{hashlib.md5(content).hexdigest()}"')
        self.send_header("Content-Length", str(len(content) - first))
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        body = content[first:]
        if hub.cut_after:
            body = body[: hub.cut_after.pop(0)]
        with contextlib.suppress(OSError):
            if hub.pause:
                self.wfile.write(body[: len(body) // 2])
                hub.pause.wait(60)
                body = body[len(body) // 2 :]
            self.wfile.write(body)


@pytest.fixture
def hub():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.hub = Hub()
    server.hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.hub
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def remontoir(hub, tmp_path):
    """Starts the program with the hub and an empty store."""
    environment = {**os.environ, "HF_ENDPOINT": hub.url, "REMONTOIR_HOME": str(tmp_path), "no_proxy": "*"}
    environment.pop("HF_TOKEN", None)

    def start(*arguments):
        return subprocess.Popen([conftest.binary(), *arguments], env=environment, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    return start


def finish(process):
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_pulls_lists_and_removes(hub, remontoir, tmp_path):
    hub.files = {"m.Q8_0.gguf": os.urandom(1000), "m.Q4_K_M.gguf": os.urandom(SIZE)}
    code, out, err = finish(remontoir("pull", "hf:o/r"))
    assert code == 0, err
    path = tmp_path / "o/r/m.Q4_K_M.gguf"
    assert out == f"{path}\n"
    assert "SHA-256 right" in err
    assert path.read_bytes() == hub.files["m.Q4_K_M.gguf"]

    code, out, err = finish(remontoir("list"))
    assert code == 0, err
    assert "o/r/m.Q4_K_M.gguf" in out and "3.0 MB" in out

    code, out, err = finish(remontoir("rm", "m.q4"))
    assert (code, out) == (0, "removed o/r/m.Q4_K_M.gguf (3.0 MB)\n"), err
    assert list(tmp_path.iterdir()) == []
    assert finish(remontoir("list"))[:2] == (0, "")


def test_goes_on_where_the_connection_broke(hub, remontoir, tmp_path):
    hub.files = {"m.gguf": os.urandom(SIZE)}
    hub.cut_after = [1_000_000, 500_000]
    code, _, err = finish(remontoir("pull", "hf:o/r/m.gguf"))
    assert code == 0, err
    assert (tmp_path / "o/r/m.gguf").read_bytes() == hub.files["m.gguf"]
    ranges = [headers.get("Range") for path, headers in hub.requests if path.startswith("/blobs/")]
    assert ranges == [None, "bytes=1000000-", "bytes=1500000-"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_what_came(hub, remontoir, tmp_path, number):
    hub.files = {"m.gguf": os.urandom(SIZE)}
    hub.pause = threading.Event()
    process = remontoir("pull", "hf:o/r/m.gguf")
    partial = tmp_path / "o/r/m.gguf.partial"
    deadline = time.monotonic() + 60
    while not (partial.exists() and partial.stat().st_size == SIZE // 2):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(number)
    code, out, err = finish(process)
    assert code == 130 and out == ""
    assert "goes on after the 1.5 MB that are here" in err
    assert "not complete" in finish(remontoir("list"))[1]

    hub.pause.set()
    assert finish(remontoir("pull", "hf:o/r/m.gguf"))[0] == 0
    assert (tmp_path / "o/r/m.gguf").read_bytes() == hub.files["m.gguf"]
    assert [path for path in (tmp_path / "o/r").iterdir()] == [tmp_path / "o/r/m.gguf"]
    assert hub.requests[-1][1]["Range"] == f"bytes={SIZE // 2}-"


@pytest.mark.parametrize("arguments, code, said", [
    (["pull", "nonsense"], 2, "write hf:OWNER/REPO"),
    (["pull", "hf:../x"], 2, "the owner is no name of the hub"),
    (["pull"], 2, "reference is required"),
    (["pull", "hf:o/r:Q2_K"], 1, "it holds m.gguf (3.0 MB)"),
    (["pull", "hf:o/r/x.gguf"], 1, "o/r holds m.gguf (3.0 MB)"),
    (["pull", "hf:o/none"], 1, "has no repository o/none"),
    (["rm", "nothing"], 1, "no model is called 'nothing'"),
    (["rm", "../../etc/passwd"], 1, "no model is called"),
    (["run", "nothing.gguf", "-p", "x"], 1, "there is no file 'nothing.gguf'"),
    (["run", "-hf", "o/r:Q2_K", "-p", "x"], 1, "it holds m.gguf (3.0 MB)"),
    (["run", "-hf", "nonsense"], 2, "write hf:OWNER/REPO"),
])
def test_errors_say_what_to_do(hub, remontoir, tmp_path, arguments, code, said):
    hub.files = {"m.gguf": os.urandom(SIZE)}
    got, out, err = finish(remontoir(*arguments))
    assert (got, out) == (code, ""), err
    assert said in err
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_run_pulls_first_and_only_once(hub, remontoir, tmp_path):
    hub.files = {"m.Q4_1.gguf": pathlib.Path(conftest.model()).read_bytes()}
    arguments = ["run", "-hf", "o/r:Q4_1", "-p", "Say hi.", "--temperature", "0", "-n", "8"]
    code, first, err = finish(remontoir(*arguments))
    assert code == 0, err
    assert first.strip()
    count = len(hub.requests)
    code, second, err = finish(remontoir(*arguments))
    assert (code, second) == (0, first), err
    assert len(hub.requests) == count
