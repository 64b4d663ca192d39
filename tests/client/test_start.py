"""What a start says about its weights, and that a damaged repack cache is no more than a slower start."""

from conftest import running_server

SMALL = ("--context", 256, "--kv-memory", "16MiB")


def start_log(tmp_path, setting):
    log = tmp_path / "log"
    with running_server(log, *SMALL, "--set", f"model.repack_cache={setting}") as server:
        assert server.client().completions.create(model="default", prompt="Hello", max_tokens=1).choices
    return log.read_text()


def test_second_start_takes_the_weights_from_the_cache(tmp_path):
    cache = tmp_path / "cache"
    assert "MiB of weights repacked and stored for the next start" in start_log(tmp_path, cache)
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    assert "MiB of weights from the repack cache" in start_log(tmp_path, cache)

    file.write_bytes(whole[:-1000] + bytes(1000))
    log = start_log(tmp_path, cache)
    assert "its weights are damaged; packed from the model" in log
    assert "MiB of weights repacked and stored for the next start" in log
    assert file.read_bytes() == whole


def test_starts_without_a_cache(tmp_path):
    (tmp_path / "file").write_text("in the way")
    for setting, warned in (("off", False), (tmp_path / "file/cache", True)):
        log = start_log(tmp_path, setting)
        assert log.count("MiB of weights repacked\n") == 1
        assert ("repack cache: not written" in log) == warned
