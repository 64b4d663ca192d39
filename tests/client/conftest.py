"""Servers for the outside view: the built program on a free port, asked by the official client."""

import contextlib
import os
import pathlib
import socket
import subprocess
import time
import urllib.error
import urllib.request

import openai
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
START_SECONDS_MAX = 120


def binary():
    """The program under test: REMONTOIR_BINARY, or the newest of the builds that are meant to be fast."""
    named = os.environ.get("REMONTOIR_BINARY")
    if named:
        return pathlib.Path(named)
    built = [p for p in (ROOT / "build" / preset / "remontoir" for preset in ("ci", "release")) if p.exists()]
    if not built:
        pytest.exit("no build/ci/remontoir: run scripts/build ci", returncode=2)
    return max(built, key=lambda p: p.stat().st_mtime)


def model():
    home = pathlib.Path(os.environ.get("REMONTOIR_HOME") or pathlib.Path.home() / ".cache/remontoir")
    path = home / "SmolLM2-135M-Instruct.Q4_1.gguf"
    if not path.exists():
        pytest.exit(f"no {path}: run scripts/fetch_model", returncode=2)
    return path


class Server:
    """A running server and how to talk to it."""

    def __init__(self, process, port):
        self.process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def client(self, **options):
        options = {"api_key": "unused", "max_retries": 0, "timeout": 120, **options}
        return openai.OpenAI(base_url=f"{self.url}/v1", **options)

    def get(self, path):
        """Status, headers and body of a plain GET."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=30) as response:
                return response.status, response.headers, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def running_server(log_path, *flags):
    port = free_port()
    command = [str(binary()), "serve", "--model", str(model()), "--port", str(port)]
    # Nothing of the tests in the user's folders.
    command += ["--set", "model.repack_cache=off", *map(str, flags)]
    with open(log_path, "wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    server = Server(process, port)
    try:
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            assert process.poll() is None, f"the server ended: {pathlib.Path(log_path).read_text()}"
            assert time.monotonic() < deadline, f"not ready: {pathlib.Path(log_path).read_text()}"
            try:
                if server.get("/health")[0] == 200:
                    break
            except OSError:
                pass
            time.sleep(0.05)
        yield server
    finally:
        process.terminate()
        try:
            code = process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = "nothing within 30 s"
    assert code == 0, f"SIGTERM gave exit code {code}: {pathlib.Path(log_path).read_text()}"


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with running_server(tmp_path_factory.mktemp("server") / "log", "--alias", "smol") as running:
        yield running


@pytest.fixture(scope="session")
def client(server):
    return server.client()


@pytest.fixture
def narrow_server(tmp_path):
    """One answer at a time, and one request that may wait."""
    with running_server(tmp_path / "log", "--sequences-max", 1, "--queue-max", 1) as running:
        yield running


@pytest.fixture
def guarded_server(tmp_path):
    keys = tmp_path / "keys.txt"
    keys.write_text("# test keys\nsk-first\nsk-second\n")
    with running_server(tmp_path / "log", "--api-keys-file", keys) as running:
        yield running
