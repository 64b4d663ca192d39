"""Room for keys and values: what a client may wish, what replies say, who shares cached prefixes."""

import json
import re

import openai
import pytest

from conftest import running_server

TEXT = "The escapement lets the train of wheels turn by one tooth at each swing of the pendulum. " * 6
CHAT = {"model": "default", "messages": [{"role": "user", "content": TEXT}], "temperature": 0, "max_tokens": 4}
COMPLETION = {"model": "default", "prompt": TEXT, "temperature": 0, "max_tokens": 4}
ROOM_HEADERS = ("x-kv-bucket", "x-kv-init-us", "x-cache")


@pytest.fixture
def salt(request):
    """Nothing of another test is cached under it."""
    return {"cache_salt": request.node.name}


def asked(client, *, chat=False, stream=False, headers=None, body=None, **fields):
    """Headers, text and cached tokens of an answer."""
    endpoint, request = (client.chat.completions, CHAT) if chat else (client.completions, COMPLETION)
    options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    raw = endpoint.with_raw_response.create(
        **{**request, **fields}, **options, extra_headers=headers, extra_body=body
    )
    answer = list(raw.parse()) if stream else [raw.parse()]
    choices = [choice for part in answer for choice in part.choices]
    if not chat:
        text = "".join(choice.text for choice in choices)
    elif stream:
        text = "".join(choice.delta.content or "" for choice in choices)
    else:
        text = "".join(choice.message.content for choice in choices)
    return raw.headers, text, answer[-1].usage.prompt_tokens_details.cached_tokens


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_second_of_two_prompts_is_a_hit_with_the_same_text(client, salt, chat, stream):
    how = {"chat": chat, "stream": stream, "body": salt}
    first, cold_text, cached = asked(client, **how)
    assert (first["x-cache"], cached) == ("MISS", 0)
    second, warm_text, cached = asked(client, **how)
    assert second["x-cache"] == "HIT"
    assert cached > 64
    assert warm_text == cold_text
    for headers in (first, second):
        assert headers["x-kv-cache-strategy"] == "bucketed_prealloc_v2"
        assert headers["x-kv-bucket"] == "2048"
        assert int(headers["x-kv-init-us"]) >= 0


@pytest.mark.parametrize("stream", [False, True])
def test_dynamic_room_has_no_class_and_no_cache_but_the_same_text(client, salt, stream):
    _, text, _ = asked(client, stream=stream, body=salt)
    headers, dynamic_text, cached = asked(
        client, stream=stream, body=salt, headers={"X-KV-Cache-Mode": "Dynamic"}
    )
    assert headers["x-kv-cache-strategy"] == "dynamic"
    assert "x-kv-bucket" not in headers
    assert int(headers["x-kv-init-us"]) >= 0
    assert (headers["x-cache"], cached) == ("MISS", 0)
    assert dynamic_text == text


def test_no_cache_neither_takes_nor_leaves(client, salt):
    no_cache = {"Cache-Control": "max-age=0, no-cache"}
    assert asked(client, body=salt, headers=no_cache)[0]["x-cache"] == "MISS"
    assert asked(client, body=salt)[0]["x-cache"] == "MISS"
    headers, _, cached = asked(client, body=salt, headers=no_cache)
    assert (headers["x-cache"], cached) == ("MISS", 0)


def test_another_salt_is_another_cache(client, salt):
    asked(client, body=salt)
    assert asked(client, body={"cache_salt": salt["cache_salt"] + "."})[0]["x-cache"] == "MISS"
    assert asked(client, body=salt)[0]["x-cache"] == "HIT"


def test_another_key_is_another_cache(guarded_server):
    first, second = (guarded_server.client(api_key=key) for key in ("sk-first", "sk-second"))
    assert asked(first)[0]["x-cache"] == "MISS"
    assert asked(second)[0]["x-cache"] == "MISS"
    assert asked(first)[0]["x-cache"] == "HIT"
    assert guarded_server.get("/v1/engine/plan")[0] == 401


def test_class_follows_what_is_reserved(client, salt):
    for fields, body, bucket in (
        ({"max_tokens": 3}, {}, "2048"),
        ({"max_tokens": 3}, {"max_context_length": 1}, "2048"),
        ({"max_tokens": 4000, "stop": ["e"]}, {}, "6144"),
        ({"max_tokens": 4000, "stop": ["e"]}, {"max_context_length": 3000}, "4096"),
    ):
        assert asked(client, body={**salt, **body}, **fields)[0]["x-kv-bucket"] == bucket


def test_short_hint_does_not_cut_the_answer(client, salt):
    _, text, _ = asked(client, body=salt, max_tokens=100)
    _, hinted, _ = asked(client, body={**salt, "max_context_length": 1}, max_tokens=100)
    assert hinted == text


@pytest.mark.parametrize(
    "extra, param",
    [
        ({"extra_headers": {"X-KV-Cache-Mode": "paged"}}, "X-KV-Cache-Mode"),
        ({"extra_body": {"max_context_length": 0}}, "max_context_length"),
        ({"extra_body": {"max_context_length": "8k"}}, "max_context_length"),
        ({"extra_body": {"cache_salt": "s" * 257}}, "cache_salt"),
    ],
)
def test_errors_name_what_is_wrong_and_the_strategy(client, extra, param):
    for endpoint, request in ((client.chat.completions, CHAT), (client.completions, COMPLETION)):
        with pytest.raises(openai.BadRequestError) as caught:
            endpoint.create(**request, **extra)
        assert caught.value.param == param
        headers = caught.value.response.headers
        assert headers["x-kv-cache-strategy"] == "bucketed_prealloc_v2"
        assert not any(name in headers for name in ROOM_HEADERS)


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/metrics", "/v1/engine/plan", "/nowhere"])
def test_replies_that_generate_nothing_say_the_strategy_alone(server, path):
    _, headers, _ = server.get(path)
    assert headers["X-KV-Cache-Strategy"] == "bucketed_prealloc_v2"
    assert not any(name in headers for name in ROOM_HEADERS)


def test_plan_log_and_metrics_say_the_same(tmp_path):
    with running_server(tmp_path / "log", "--kv-memory", "64MiB") as server:
        plan = json.loads(server.get("/v1/engine/plan")[2])
        page = server.get("/metrics")[2].decode()
    memory = plan["kv_memory"]
    parts = ("locked", "prefaulted", "plain")
    assert plan["strategy"] == "bucketed_prealloc_v2"
    assert plan["arena_bytes"] <= memory["bytes"] == sum(memory[f"{part}_bytes"] for part in parts)
    assert plan["arena_bytes"] == plan["arena_pages"] * plan["page_bytes"]
    shares = ("weights_bytes", "activation_bytes", "arena_bytes", "dynamic_bytes_max", "sealed_bytes")
    assert plan["total_bytes"] == sum(plan[share] for share in shares) < plan["free_bytes"]
    assert [bucket["tokens"] for bucket in plan["buckets"]] == [2048, 4096, 6144, 8192]
    for part in parts:
        (gauge,) = re.findall(rf'^remontoir_kv_memory_bytes{{state="{part}"}} (\S+)$', page, re.M)
        assert float(gauge) == memory[f"{part}_bytes"]
    log = (tmp_path / "log").read_text()
    assert f"KV room: 0.06 GiB, {memory['state']}, {memory['huge_bytes'] >> 21} huge pages" in log
    assert len(memory["notes"]) == (memory["state"] != "locked")
    for note in memory["notes"]:
        assert note in log
        assert "ulimit -l" in note


def test_classes_above_the_context_are_dropped_with_a_note(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("kv_cache: {prealloc_buckets: [4096, 8192, 16384, 32768], bucket_capacity: 32}\n")
    with running_server(tmp_path / "log", "--config", config) as server:
        plan = json.loads(server.get("/v1/engine/plan")[2])
        assert asked(server.client())[0]["x-kv-bucket"] == "4096"
    assert plan["buckets"] == [{"tokens": tokens, "capacity": 32} for tokens in (4096, 8192)]
    note = "kv_cache.prealloc_buckets: 16384, 32768 are above the model's context of 8192 and dropped"
    assert plan["notes"] == [note]
    log = (tmp_path / "log").read_text()
    assert log.count(note) == 1


def test_dynamic_strategy_takes_no_arena(tmp_path, client):
    with running_server(tmp_path / "log", "--set", "kv_cache.strategy=dynamic") as server:
        plan = json.loads(server.get("/v1/engine/plan")[2])
        assert server.get("/health")[1]["X-KV-Cache-Strategy"] == "dynamic"
        for _ in range(2):
            headers, text, cached = asked(server.client(), headers={"X-KV-Cache-Mode": "bucketed"})
            assert headers["x-kv-cache-strategy"] == "dynamic"
            assert "x-kv-bucket" not in headers
            assert (headers["x-cache"], cached) == ("MISS", 0)
            assert text == asked(client)[1]
    assert plan["strategy"] == "dynamic"
    assert plan["arena_pages"] == 0
    assert plan["dynamic_pages_max"] == 8192 // plan["page_tokens"]
    assert plan["buckets"] == []
    assert "KV room: dynamic, at most" in (tmp_path / "log").read_text()
