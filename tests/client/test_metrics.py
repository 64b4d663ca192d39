"""What /metrics says, read by Prometheus's own client."""

import collections

import pytest
from prometheus_client.parser import text_string_to_metric_families

HELLO = [{"role": "user", "content": "Hello!"}]
SHORT = {"model": "default", "messages": HELLO, "max_tokens": 8, "temperature": 0, "extra_body": {"ignore_eos": True}}
CHAT = "/v1/chat/completions"
# Names that routers, autoscalers and dashboards look for, and ours with the same values.
ALIASES = {
    "vllm:num_requests_running": "remontoir_sequences_running",
    "vllm:num_requests_waiting": "remontoir_sequences_waiting",
    "vllm:kv_cache_usage_perc": "remontoir_kv_usage_ratio",
    "vllm:prompt_tokens": "remontoir_prompt_tokens",
    "vllm:generation_tokens": "remontoir_completion_tokens",
    "vllm:request_success": "remontoir_sequences_finished",
    "vllm:time_to_first_token_seconds": "remontoir_time_to_first_token_seconds",
    "vllm:inter_token_latency_seconds": "remontoir_inter_token_latency_seconds",
    "vllm:e2e_request_latency_seconds": "remontoir_request_seconds",
    "vllm:request_queue_time_seconds": "remontoir_queue_seconds",
    "vllm:request_prefill_time_seconds": "remontoir_prefill_seconds",
    "vllm:request_decode_time_seconds": "remontoir_decode_seconds",
}


def families(server):
    """The parsed page by family name; counters without their _total."""
    status, headers, body = server.get("/metrics")
    assert status == 200
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    parsed = list(text_string_to_metric_families(body.decode("utf-8")))
    names = collections.Counter(family.name for family in parsed)
    assert not [name for name, count in names.items() if count > 1], "a family stands once on the page"
    return {family.name: family for family in parsed}


def values(server):
    """Sample name and labels to value."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families(server).values()
        for sample in family.samples
    }


def test_is_what_prometheus_reads(server):
    page = families(server)
    assert len(page) > 30
    for family in page.values():
        assert family.documentation
        assert family.type in ("counter", "gauge", "histogram"), family.name
        if family.type != "histogram":
            continue
        buckets = [(float(s.labels["le"]), s.value) for s in family.samples if s.name.endswith("_bucket")]
        assert buckets == sorted(buckets), f"{family.name}: buckets are cumulative"
        count = next(s.value for s in family.samples if s.name.endswith("_count"))
        assert buckets[-1] == (float("inf"), count), family.name


def test_says_the_same_under_vllms_names(client, server):
    client.chat.completions.create(**SHORT)
    page = families(server)
    for alias, own in ALIASES.items():
        assert page[alias].type == page[own].type
        ours = [(s.name.removeprefix(own), s.labels, s.value) for s in page[own].samples]
        theirs = []
        for sample in page[alias].samples:
            labels = dict(sample.labels)
            assert labels.pop("model_name") == "SmolLM2-135M-Instruct.Q4_1"
            theirs.append((sample.name.removeprefix(alias), labels, sample.value))
        assert theirs == ours, alias
    assert "block_size" in page["vllm:cache_config_info"].samples[0].labels


@pytest.mark.parametrize("stream", [False, True])
def test_moves_by_what_was_asked(client, server, stream):
    before = values(server)
    prompt_tokens = completion_tokens = 0
    for _ in range(3):
        options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
        answer = client.chat.completions.create(**SHORT, **options)
        usage = [chunk.usage for chunk in answer][-1] if stream else answer.usage
        prompt_tokens += usage.prompt_tokens
        completion_tokens += usage.completion_tokens
    assert completion_tokens == 3 * 8
    after = values(server)

    def moved(name, **labels):
        key = (name, *sorted(labels.items()))
        return after[key] - before[key]

    assert moved("remontoir_http_requests_total", endpoint=CHAT, status="2xx") == 3
    assert moved("remontoir_http_requests_total", endpoint=CHAT, status="4xx") == 0
    assert moved("remontoir_prompt_tokens_total") == prompt_tokens
    assert moved("remontoir_completion_tokens_total") == completion_tokens
    assert moved("remontoir_generated_tokens_total") == completion_tokens
    assert moved("remontoir_time_to_first_token_seconds_count") == 3
    assert moved("remontoir_inter_token_latency_seconds_count") == completion_tokens - 3
    assert moved("remontoir_request_seconds_count") == 3
    assert moved("remontoir_queue_seconds_count") == 3
    assert moved("remontoir_sequences_finished_total", finished_reason="length") == 3
    assert moved("remontoir_heap_allocations_total") > 0
    assert 0 < moved("remontoir_time_to_first_token_seconds_sum") <= moved("remontoir_request_seconds_sum")


def test_needs_no_key(guarded_server):
    assert "remontoir_ready" in families(guarded_server)
