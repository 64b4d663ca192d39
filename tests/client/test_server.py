"""What every reply carries, how errors look to the official client, and what happens when a client leaves."""

import concurrent.futures
import json
import re
import time
import urllib.request

import openai
import pytest

HELLO = [{"role": "user", "content": "Hello!"}]
SHORT = {"model": "default", "messages": HELLO, "max_tokens": 4, "temperature": 0}
VERSION = re.compile(r"^\d+\.\d+\.\d+-dynamic-batch$")


def test_lists_the_model_and_answers_to_every_name(client):
    models = list(client.models.list())
    assert models
    assert all(model.object == "model" for model in models)
    file_name = "SmolLM2-135M-Instruct.Q4_1.gguf"
    for name in {model.id for model in models} | {"default", "smol", file_name}:
        assert client.chat.completions.create(**{**SHORT, "model": name}).choices


def test_is_healthy(server):
    status, headers, _ = server.get("/health")
    assert status == 200
    assert VERSION.match(headers["X-Inference-Version"])


def test_marks_every_reply(client, server):
    chat = client.chat.completions.with_raw_response.create(**SHORT)
    models = client.models.with_raw_response.list()
    stream = client.chat.completions.with_raw_response.create(**SHORT, stream=True)
    ids = set()
    for response in (chat, models, stream):
        ids.add(response.headers["x-request-id"])
        assert VERSION.match(response.headers["X-Inference-Version"])
    assert len(ids) == 3, "a request id belongs to one request"
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert "no-cache" in stream.headers["cache-control"]
    for _ in stream.parse():
        pass
    _, headers, _ = server.get("/no/such/path")
    assert headers["x-request-id"]
    assert VERSION.match(headers["X-Inference-Version"])


def test_shows_the_request_id_in_the_client(client):
    assert client.chat.completions.create(**SHORT)._request_id


@pytest.mark.parametrize("stream", [False, True])
def test_refuses_a_prompt_beyond_the_context(client, stream):
    request = {**SHORT, "messages": [{"role": "user", "content": "word " * 10_000}]}
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(**request, stream=stream)
    assert error.value.status_code == 400
    assert error.value.code == "context_length_exceeded"
    assert "token limit exceeded" in error.value.message
    assert error.value.type == "invalid_request_error"


@pytest.mark.parametrize(
    "change, param",
    [
        ({"temperature": 3}, "temperature"),
        ({"top_p": -0.5}, "top_p"),
        ({"n": 0}, "n"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logit_bias": {"5": 101}}, "logit_bias"),
    ],
)
def test_names_the_wrong_field(client, change, param):
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(**{**SHORT, **change})
    assert error.value.type == "invalid_request_error"
    assert error.value.param is not None and error.value.param.startswith(param)


def test_does_not_know_another_model(client):
    with pytest.raises(openai.NotFoundError) as error:
        client.chat.completions.create(**{**SHORT, "model": "gpt-nonesuch"})
    assert error.value.code == "model_not_found"


def test_does_not_know_another_path(server):
    status, _, body = server.get("/v1/nonesuch")
    assert status == 404
    assert set(json.loads(body)["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("body", [b"{", b"[]", b"", b'{"model": "default"}', b"\xff\xfe", b"[" * 100_000])
def test_refuses_a_body_that_is_no_request(server, body):
    request = urllib.request.Request(
        server.url + "/v1/chat/completions", data=body, headers={"Content-Type": "application/json"}
    )
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request, timeout=30)
    assert error.value.code == 400
    assert json.loads(error.value.read())["error"]["type"] == "invalid_request_error"


def test_asks_for_a_key_when_there_are_keys(guarded_server):
    for key in ("sk-first", "sk-second"):
        assert guarded_server.client(api_key=key).chat.completions.create(**SHORT).choices
    for key in ("sk-firs", "sk-firstt", "wrong"):
        with pytest.raises(openai.AuthenticationError) as error:
            guarded_server.client(api_key=key).chat.completions.create(**SHORT)
        assert error.value.code == "invalid_api_key"
        with pytest.raises(openai.AuthenticationError):
            guarded_server.client(api_key=key).models.list()
    assert guarded_server.get("/health")[0] == 200, "a probe needs no key"


# An answer of this many tokens takes far longer than a short one is given to come.
LONG = {**SHORT, "max_tokens": 6000, "extra_body": {"ignore_eos": True}}
PATIENCE_SECONDS = 15


def test_frees_the_room_of_a_client_that_leaves(narrow_server):
    client = narrow_server.client()
    for _ in range(3):
        stream = client.chat.completions.create(**LONG, stream=True)
        for chunk in stream:
            if chunk.choices[0].delta.content:
                break
        stream.response.close()
        started = time.monotonic()
        answer = client.with_options(timeout=PATIENCE_SECONDS).chat.completions.create(**SHORT)
        assert answer.choices[0].message.content
        assert time.monotonic() - started < PATIENCE_SECONDS


def test_frees_the_place_of_a_client_that_leaves_the_queue(narrow_server):
    client = narrow_server.client()
    running = client.chat.completions.create(**LONG, stream=True)
    next(iter(running))
    for _ in range(3):
        # The only place to wait is taken and given back: the next one isn't told that it is full.
        with pytest.raises(openai.APITimeoutError):
            client.with_options(timeout=0.5).chat.completions.create(**SHORT)
        time.sleep(0.3)
    running.response.close()
    answer = client.with_options(timeout=PATIENCE_SECONDS).chat.completions.create(**SHORT)
    assert answer.choices[0].message.content


def test_says_when_to_come_back_when_the_queue_is_full(narrow_server):
    client = narrow_server.client()
    running = client.chat.completions.create(**LONG, stream=True)
    next(iter(running))

    def ask(_):
        try:
            return client.with_options(timeout=5).chat.completions.create(**LONG, stream=True)
        except openai.APITimeoutError:
            return None  # it waits: its answer's head would come with its turn
        except openai.RateLimitError as error:
            return error

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        outcomes = list(pool.map(ask, range(3)))
    for stream in [running, *outcomes]:
        if isinstance(stream, openai.Stream):
            stream.response.close()
    refused = [outcome for outcome in outcomes if isinstance(outcome, openai.RateLimitError)]
    assert len(refused) == 2, "one waits"
    for error in refused:
        assert float(error.response.headers["retry-after-ms"]) > 0
        assert int(error.response.headers["retry-after"]) >= 1
