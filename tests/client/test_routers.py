"""What routers ask a worker: the tokens of prompts and chats, and what is served."""

import json
import urllib.error
import urllib.request

import pytest

CHAT = {"messages": [{"role": "user", "content": "Hello!"}]}


def post(server, path, body):
    """Status and JSON of a reply."""
    request = urllib.request.Request(
        server.url + path, data=json.dumps(body).encode(), headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.parametrize("text", ["", "Hello, world!", "naïve 日本語 🦙\n\n  x", "<|im_start|>user"])
def test_gives_tokens_and_the_text_back(server, text):
    status, tokenized = post(server, "/tokenize", {"prompt": text, "return_token_strs": True})
    assert status == 200
    assert tokenized["count"] == len(tokenized["tokens"]) == len(tokenized["token_strs"])
    assert post(server, "/detokenize", {"tokens": tokenized["tokens"]}) == (200, {"prompt": text})


def test_counts_what_an_answer_counts(server, client):
    usage = client.chat.completions.create(model="default", max_tokens=1, **CHAT).usage
    _, tokenized = post(server, "/tokenize", CHAT)
    assert tokenized["count"] == usage.prompt_tokens
    assert tokenized["max_model_len"] == next(iter(client.models.list())).max_model_len
    for _ in range(2):
        assert post(server, "/v1/chat/completions/render", CHAT)[1]["token_ids"] == tokenized["tokens"]
    _, open_ended = post(server, "/tokenize", {**CHAT, "add_generation_prompt": False})
    assert open_ended["tokens"] == tokenized["tokens"][: open_ended["count"]]
    assert open_ended["count"] < tokenized["count"]


@pytest.mark.parametrize(
    "path, body, param",
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
        ("/detokenize", {"tokens": [10**6]}, "tokens"),
        ("/v1/chat/completions/render", {}, "messages"),
    ],
)
def test_names_the_wrong_field(server, path, body, param):
    status, reply = post(server, path, body)
    assert status == 400
    assert reply["error"]["type"] == "invalid_request_error"
    assert reply["error"]["param"] == param


def test_tells_what_it_serves(server, client):
    names = [model.id for model in client.models.list()]
    for path in ("/model_info", "/get_model_info"):
        status, _, body = server.get(path)
        info = json.loads(body)
        assert status == 200
        assert info["served_model_name"] == names[0]
        assert info["model_path"].endswith(".gguf")
        assert info["is_generation"] is True
    for path in ("/server_info", "/get_server_info"):
        status, headers, body = server.get(path)
        info = json.loads(body)
        assert status == 200
        assert headers["X-Inference-Version"].startswith(info["version"] + "-")
        assert [info["served_model_name"], *info["aliases"]] == names
        assert info["kv_room_tokens"] >= info["max_model_len"] > 0
        assert info["sequences_max"] > 0 and info["queue_max"] > 0 and info["backend"]


def test_asks_for_a_key_when_there_are_keys(guarded_server):
    for path in ("/model_info", "/server_info"):
        assert guarded_server.get(path)[0] == 401
    assert post(guarded_server, "/tokenize", {"prompt": "x"})[0] == 401
