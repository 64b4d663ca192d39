"""Chat completions as the official client uses them: whole and streamed."""

import concurrent.futures

import pytest

QUESTION = [{"role": "user", "content": "Write one sentence about clocks."}]
GREEDY = {"model": "default", "messages": QUESTION, "temperature": 0, "max_tokens": 32}


def streamed_text(chunks, index=0):
    return "".join(
        choice.delta.content or "" for chunk in chunks for choice in chunk.choices if choice.index == index
    )


@pytest.fixture(scope="module")
def whole(client):
    return client.chat.completions.create(**GREEDY)


def test_answers_whole(whole):
    assert whole.object == "chat.completion"
    assert whole.id
    assert whole.created > 1_700_000_000
    (choice,) = whole.choices
    assert choice.index == 0
    assert choice.message.role == "assistant"
    assert choice.message.content.strip()
    assert choice.finish_reason in ("stop", "length")
    assert whole.usage.prompt_tokens > 5
    assert 0 < whole.usage.completion_tokens <= 32
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens


def test_streams_the_same_text_in_the_documented_order(client, whole):
    chunks = list(client.chat.completions.create(**GREEDY, stream=True))
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk.id for chunk in chunks}) == 1
    assert len({chunk.created for chunk in chunks}) == 1
    first, *middle, last = chunks
    assert first.choices[0].delta.role == "assistant"
    assert first.choices[0].delta.content == ""
    assert first.choices[0].finish_reason is None
    assert all(chunk.choices[0].delta.role is None for chunk in middle)
    assert all(chunk.choices[0].finish_reason is None for chunk in middle)
    assert not last.choices[0].delta.content
    assert last.choices[0].finish_reason == whole.choices[0].finish_reason
    assert streamed_text(chunks) == whole.choices[0].message.content
    assert len(middle) > 3, "an answer of many tokens comes in many pieces"


def test_streams_usage_last_when_asked(client, whole):
    chunks = list(client.chat.completions.create(**GREEDY, stream=True, stream_options={"include_usage": True}))
    *others, last = chunks
    assert last.choices == []
    assert last.usage.prompt_tokens == whole.usage.prompt_tokens
    assert last.usage.completion_tokens == whole.usage.completion_tokens
    assert all(chunk.usage is None for chunk in others)


@pytest.mark.parametrize("stream", [False, True])
def test_ends_before_a_stop_string(client, whole, stream):
    text = whole.choices[0].message.content
    stop = text[len(text) // 2 : len(text) // 2 + 5]
    answer = client.chat.completions.create(**GREEDY, stop=["never in there", stop], stream=stream)
    if stream:
        chunks = list(answer)
        got, reason = streamed_text(chunks), chunks[-1].choices[0].finish_reason
    else:
        got, reason = answer.choices[0].message.content, answer.choices[0].finish_reason
    assert got == text[: text.index(stop)]
    assert reason == "stop"


def test_ends_at_max_tokens(client):
    for field in ("max_tokens", "max_completion_tokens"):
        request = {**GREEDY, "max_tokens": None, field: 3}
        answer = client.chat.completions.create(**request)
        assert answer.choices[0].finish_reason == "length"
        assert answer.usage.completion_tokens == 3


def test_repeats_itself_with_a_seed(client):
    def answer(seed):
        request = {**GREEDY, "temperature": 1.2, "seed": seed}
        return client.chat.completions.create(**request).choices[0].message.content

    assert answer(7) == answer(7)
    assert len({answer(seed) for seed in range(4)}) > 1


@pytest.mark.parametrize("stream", [False, True])
def test_gives_n_answers(client, stream):
    request = {**GREEDY, "temperature": 1.2, "seed": 3, "n": 2, "max_tokens": 16}

    def texts():
        answer = client.chat.completions.create(**request, stream=stream)
        if stream:
            chunks = list(answer)
            ended = [c.index for chunk in chunks for c in chunk.choices if c.finish_reason]
            assert sorted(ended) == [0, 1]
            return [streamed_text(chunks, 0), streamed_text(chunks, 1)]
        assert sorted(choice.index for choice in answer.choices) == [0, 1]
        return [choice.message.content for choice in sorted(answer.choices, key=lambda c: c.index)]

    first = texts()
    assert first == texts()
    assert first[0] != first[1]


@pytest.mark.parametrize("stream", [False, True])
def test_gives_logprobs(client, whole, stream):
    answer = client.chat.completions.create(**GREEDY, logprobs=True, top_logprobs=3, stream=stream)
    if stream:
        entries = [e for c in answer for choice in c.choices if choice.logprobs for e in choice.logprobs.content]
    else:
        entries = answer.choices[0].logprobs.content
    spelled = b"".join(bytes(entry.bytes) for entry in entries)
    assert whole.choices[0].message.content.encode() in (spelled, spelled.replace(b"<|im_end|>", b""))
    for entry in entries:
        assert entry.logprob <= 0
        assert len(entry.top_logprobs) == 3
        ordered = [top.logprob for top in entry.top_logprobs]
        assert ordered == sorted(ordered, reverse=True)
        assert entry.top_logprobs[0].token == entry.token, "greedy takes the likeliest"
        assert entry.top_logprobs[0].logprob == pytest.approx(entry.logprob, abs=1e-5)


def test_goes_on_when_told_to_ignore_the_end(client):
    request = {**GREEDY, "messages": [{"role": "user", "content": "Say only: yes"}], "max_tokens": 96}
    answer = client.chat.completions.create(**request, extra_body={"ignore_eos": True})
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 96


def test_takes_content_in_parts_and_every_role(client):
    answer = client.chat.completions.create(
        model="smol",
        messages=[
            {"role": "system", "content": "You are brief."},
            {"role": "user", "content": [{"type": "text", "text": "Name a "}, {"type": "text", "text": "colour."}]},
            {"role": "assistant", "content": "Red."},
            {"role": "user", "content": "Another one."},
        ],
        temperature=0,
        max_tokens=8,
        stop=None,
    )
    assert answer.choices[0].message.content


def test_gives_each_of_eight_streams_what_it_gets_alone(client):
    def ask(number):
        request = {
            **GREEDY,
            "messages": [{"role": "user", "content": f"Tell me a fact about the number {number}."}],
            "temperature": 0 if number % 2 else 1.1,
            "seed": number,
        }
        return streamed_text(client.chat.completions.create(**request, stream=True))

    alone = [ask(number) for number in range(8)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        together = list(pool.map(ask, range(8)))
    assert together == alone
