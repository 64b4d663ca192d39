"""A request's turn: what a client may ask for, what replies tell, and how what comes too late is refused."""

import concurrent.futures
import json
import re
import time

import openai
import pytest

from conftest import running_server

CHAT = {"model": "default", "messages": [{"role": "user", "content": "Hello!"}], "temperature": 0, "max_tokens": 8}
COMPLETION = {"model": "default", "prompt": "The escapement lets the train", "temperature": 0, "max_tokens": 8}
LONG = "The escapement lets the train of wheels turn by one tooth at each swing of the pendulum. " * 60
SCHEDULE_HEADERS = ("x-batch-size", "x-batch-window-ms", "x-batch-policy", "x-batch-wait-ms", "x-queue-ms")
TIMINGS = {"X-Timings": "true"}
MEASURED = ("ttft_ms", "ttft_predicted_ms", "prefill_time_ms", "decode_step_0_latency_ms", "queue_ms")


def endpoints(client):
    return ((client.chat.completions, CHAT), (client.completions, COMPLETION))


@pytest.mark.parametrize("stream", [False, True])
def test_every_reply_tells_its_turn(client, stream):
    for endpoint, request in endpoints(client):
        raw = endpoint.with_raw_response.create(**request, stream=stream)
        headers = raw.headers
        answer = raw.parse()
        assert list(answer) if stream else answer.choices
        assert int(headers["x-ttft-predicted-ms"]) > 0
        assert 1 <= int(headers["x-batch-size"]) <= 8
        assert 50 <= int(headers["x-batch-window-ms"]) <= 120
        assert headers["x-batch-policy"] == "adaptive"
        assert headers["x-batch-wait-ms"] == "0"
        assert int(headers["x-queue-ms"]) >= 0


def test_stream_headers_come_before_the_first_token(client):
    """The prompt takes some rounds: its headers are there when the last of them begins, before any event."""
    begin = time.monotonic()
    with client.completions.with_streaming_response.create(
        **{**COMPLETION, "prompt": LONG}, stream=True, extra_headers={"Cache-Control": "no-cache"}
    ) as response:
        headers_after = time.monotonic() - begin
        # On a machine so busy that the prompt takes longer, the headers leave without them.
        assert all(name in response.headers for name in SCHEDULE_HEADERS) or headers_after >= 5
        first = next(line for line in response.iter_lines() if line)
        first_after = time.monotonic() - begin
        assert first.startswith("data: {")
    assert headers_after < first_after


@pytest.mark.parametrize("policy, window, waits", [("fixed", "200", True), ("immediate", "120", False)])
def test_policy_is_told(tmp_path, policy, window, waits):
    with running_server(tmp_path / "log", "--set", f"dynamic_batching.policy={policy}") as server:
        headers = server.client().completions.with_raw_response.create(**COMPLETION).headers
    assert headers["x-batch-policy"] == policy
    assert headers["x-batch-window-ms"] == window
    assert (int(headers["x-batch-wait-ms"]) > 0) == waits


def test_disabled_batching_is_immediate(tmp_path):
    with running_server(tmp_path / "log", "--set", "dynamic_batching.enabled=false") as server:
        headers = server.client().completions.with_raw_response.create(**COMPLETION).headers
    assert headers["x-batch-policy"] == "immediate"


def check_timings(timings, headers):
    assert all(timings[name] >= 0 for name in MEASURED), timings
    assert timings["ttft_ms"] >= timings["prefill_time_ms"] > 0
    assert timings["decode_step_0_latency_ms"] > 0
    assert str(timings["batch_size"]) == headers["x-batch-size"]
    assert str(timings["batch_window_ms"]) == headers["x-batch-window-ms"]
    assert timings["batch_policy"] == headers["x-batch-policy"]
    assert timings["batch_wait_ms"] == 0
    assert timings["cached_tokens"] >= 0
    assert timings["kv_strategy"] == headers["x-kv-cache-strategy"]
    assert str(timings["kv_bucket"]) == headers["x-kv-bucket"]
    assert str(timings["kv_init_us"]) == headers["x-kv-init-us"]


def test_whole_replies_carry_timings_for_who_asks(client):
    for endpoint, request in endpoints(client):
        raw = endpoint.with_raw_response.create(**request, extra_headers=TIMINGS)
        check_timings(raw.parse().remontoir, raw.headers)
        assert not hasattr(endpoint.create(**request), "remontoir")


@pytest.mark.parametrize("options", [{}, {"stream_options": {"include_usage": True}}])
def test_last_chunk_carries_timings_for_who_asks(client, options):
    for endpoint, request in endpoints(client):
        raw = endpoint.with_raw_response.create(**request, **options, stream=True, extra_headers=TIMINGS)
        chunks = list(raw.parse())
        assert [hasattr(chunk, "remontoir") for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
        check_timings(chunks[-1].remontoir, raw.headers)
        assert (chunks[-1].usage is not None) == bool(options)


@pytest.mark.parametrize("stream", [False, True])
def test_alone_or_urgent_the_bytes_are_the_same(client, stream):
    def text(**options):
        answer = client.completions.create(**COMPLETION, stream=stream, **options)
        return "".join(part.choices[0].text for part in (answer if stream else [answer]))

    plain = text()
    assert text(extra_headers={"X-No-Batch": "true"}) == plain
    assert text(extra_headers={"X-Priority": "-5"}) == plain
    assert text(extra_body={"priority": 100}) == plain


def test_alone_is_alone_while_others_run(client):
    running = client.completions.create(
        **{**COMPLETION, "max_tokens": 400}, stream=True, extra_body={"ignore_eos": True}
    )
    next(iter(running))
    alone = client.completions.with_raw_response.create(**COMPLETION, extra_headers={"X-No-Batch": "true"})
    shared = client.completions.with_raw_response.create(**COMPLETION)
    running.close()
    assert alone.headers["x-batch-size"] == "1"
    assert shared.headers["x-batch-size"] == "2"


def test_single_when_not_streaming(tmp_path):
    with running_server(tmp_path / "log", "--set", "engine.single_when_not_streaming=true") as server:
        client = server.client()
        running = client.completions.create(
            **{**COMPLETION, "max_tokens": 400}, stream=True, extra_body={"ignore_eos": True}
        )
        next(iter(running))
        whole = client.completions.with_raw_response.create(**COMPLETION)
        streamed = client.completions.with_raw_response.create(**COMPLETION, stream=True)
        list(streamed.parse())
        running.close()
    assert whole.headers["x-batch-size"] == "1"
    assert streamed.headers["x-batch-size"] == "2"


@pytest.mark.parametrize(
    "extra, param",
    [
        ({"extra_headers": {"X-Priority": "high"}}, "X-Priority"),
        ({"extra_headers": {"X-Priority": "101"}}, "X-Priority"),
        ({"extra_headers": {"X-No-Batch": "maybe"}}, "X-No-Batch"),
        ({"extra_headers": {"X-Timings": "1"}}, "X-Timings"),
        ({"extra_headers": {"x-slo-ttft-ms": "0"}}, "x-slo-ttft-ms"),
        ({"extra_headers": {"x-slo-ttft-ms": "soon"}}, "x-slo-ttft-ms"),
        ({"extra_body": {"priority": 101}}, "priority"),
        ({"extra_body": {"priority": "high"}}, "priority"),
    ],
)
def test_errors_name_what_is_wrong(client, extra, param):
    for endpoint, request in endpoints(client):
        with pytest.raises(openai.BadRequestError) as caught:
            endpoint.create(**request, **extra)
        assert caught.value.param == param
        assert not any(name in caught.value.response.headers for name in SCHEDULE_HEADERS)


def refused_by(server):
    """Refusals by reason."""
    page = server.get("/metrics")[2].decode()
    pattern = r'^remontoir_requests_refused_total{reason="(\w+)"} (\S+)$'
    return {reason: float(count) for reason, count in re.findall(pattern, page, re.M)}


def waiting_now(server):
    return float(re.search(r"^remontoir_sequences_waiting (\S+)$", server.get("/metrics")[2].decode(), re.M)[1])


@pytest.mark.parametrize("prompt", ["Hi", LONG])
def test_deadline_that_cant_be_met_is_refused_with_the_prediction(client, server, prompt):
    """A millisecond is too short for any prompt, 60 are for this long one unless it is cached."""
    deadline = "1" if prompt == "Hi" else "60"
    before = refused_by(server)["deadline"]
    with pytest.raises(openai.RateLimitError) as caught:
        client.completions.create(
            **{**COMPLETION, "prompt": prompt},
            extra_headers={"x-slo-ttft-ms": deadline, "Cache-Control": "no-cache"},
        )
    error = caught.value
    assert error.code == "deadline_unmet"
    assert error.body["ttft_slo_ms"] == int(deadline)
    assert error.body["ttft_predicted_ms"] > int(deadline)
    assert f"{error.body['ttft_predicted_ms']} ms" in error.message
    headers = error.response.headers
    assert int(headers["x-ttft-predicted-ms"]) == error.body["ttft_predicted_ms"]
    retry_ms = int(headers["retry-after-ms"])
    assert 300 <= retry_ms <= 120_000
    assert int(headers["retry-after"]) == -(-retry_ms // 1000)
    assert refused_by(server)["deadline"] == before + 1


def test_deadline_of_the_configuration(tmp_path):
    with running_server(tmp_path / "log", "--set", "engine.ttft_slo_ms=1") as server:
        client = server.client()
        with pytest.raises(openai.RateLimitError):
            client.completions.create(**COMPLETION)
        assert client.completions.create(**COMPLETION, extra_headers={"x-slo-ttft-ms": "60000"}).choices


def test_official_client_heeds_the_advice_to_retry(narrow_server):
    """Refused while the queue is full, it comes again after no less than was advised, and is served."""
    endless = {**COMPLETION, "max_tokens": 300, "stream": True, "extra_body": {"ignore_eos": True}}
    running = narrow_server.client().completions.create(**endless)
    next(iter(running))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(lambda: list(narrow_server.client().completions.create(**endless)))
        while waiting_now(narrow_server) == 0:
            time.sleep(0.01)
        begin = time.monotonic()
        client = narrow_server.client(max_retries=100)
        answer = pool.submit(lambda: client.completions.with_raw_response.create(**COMPLETION))
        while refused_by(narrow_server)["queue_full"] == 0:
            time.sleep(0.01)
        running.close()  # who waits runs now, and its place is free
        served = answer.result()
        took = time.monotonic() - begin
        waiting.result()
    assert served.parse().choices
    assert served.retries_taken >= 1
    assert took >= 0.3 * served.retries_taken


def test_log_says_how_every_request_went(tmp_path):
    with running_server(tmp_path / "log") as server:
        client = server.client()
        raw = client.completions.with_raw_response.create(
            **COMPLETION, extra_headers={**TIMINGS, "X-Client-Request-Id": "mine-1"}
        )
        told = raw.parse()
        list(client.chat.completions.create(**CHAT, stream=True))
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines() if line.startswith("{")]
    assert [line["event"] for line in lines] == ["request", "request"]
    assert [line["stream"] for line in lines] == [False, True]
    first = lines[0]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["time"])
    assert (first["level"], first["request_id"], first["id"]) == ("info", "mine-1", told.id)
    assert first["prompt_tokens"] == told.usage.prompt_tokens
    assert first["completion_tokens"] == told.usage.completion_tokens
    assert {name: first[name] for name in told.remontoir} == told.remontoir


def test_arrival_log_holds_times_and_counts_alone(tmp_path):
    path = tmp_path / "arrivals.csv"
    begin = time.time()
    with running_server(tmp_path / "log", "--set", f"telemetry.arrival_log={path}") as server:
        client = server.client()
        whole = client.completions.create(**COMPLETION)
        list(client.completions.create(**COMPLETION, stream=True))
    names, *lines = path.read_text().splitlines()
    assert names == "t_us,prompt_tokens,output_tokens,client_cell,device"
    rows = [[int(field) for field in line.rstrip(",").split(",")] for line in lines]
    assert len(rows) == 2
    assert [row[1:3] for row in rows] == [[whole.usage.prompt_tokens, whole.usage.completion_tokens]] * 2
    assert begin - 2 < rows[0][0] / 1e6 < rows[1][0] / 1e6 < time.time() + 2
    assert rows[0][3] == rows[1][3]
    assert 0 <= rows[0][3] < 64
