"""Text completions as the official client uses them: text or token ids, echo and scores."""

import pytest

GREEDY = {"model": "default", "prompt": "The capital of France is", "temperature": 0, "max_tokens": 12}


@pytest.fixture(scope="module")
def whole(client):
    return client.completions.create(**GREEDY)


def test_answers_whole(whole):
    assert whole.object == "text_completion"
    (choice,) = whole.choices
    assert "Paris" in choice.text
    assert choice.finish_reason in ("stop", "length")
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens


def test_streams_the_same_text(client, whole):
    chunks = list(client.completions.create(**GREEDY, stream=True, stream_options={"include_usage": True}))
    assert len({chunk.id for chunk in chunks}) == 1
    assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == whole.choices[0].text
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices]
    assert reasons[-1] == whole.choices[0].finish_reason
    assert set(reasons[:-1]) <= {None}
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_generates_sixteen_tokens_when_not_told(client):
    answer = client.completions.create(
        model="default", prompt="One, two, three,", temperature=0, extra_body={"ignore_eos": True}
    )
    assert answer.usage.completion_tokens == 16


def test_echoes_the_prompt(client, whole):
    answer = client.completions.create(**GREEDY, echo=True)
    assert answer.choices[0].text == GREEDY["prompt"] + whole.choices[0].text


def test_scores_a_prompt_without_generating(client):
    answer = client.completions.create(
        model="default", prompt=GREEDY["prompt"], echo=True, logprobs=2, max_tokens=0, temperature=0
    )
    (choice,) = answer.choices
    logprobs = choice.logprobs
    assert choice.text == GREEDY["prompt"]
    assert answer.usage.completion_tokens == 0
    assert len(logprobs.tokens) == answer.usage.prompt_tokens
    assert len(logprobs.token_logprobs) == answer.usage.prompt_tokens
    assert "".join(logprobs.tokens) == GREEDY["prompt"]
    assert logprobs.token_logprobs[0] is None
    assert all(value <= 0 for value in logprobs.token_logprobs[1:])
    assert all(2 <= len(top) <= 3 for top in logprobs.top_logprobs[1:])


def test_scores_what_it_generated_as_it_generated_it(client):
    generated = client.completions.create(**GREEDY, logprobs=0)
    prompt_and_answer = GREEDY["prompt"] + generated.choices[0].text
    scored = client.completions.create(
        model="default", prompt=prompt_and_answer, echo=True, logprobs=0, max_tokens=0
    )
    count = generated.usage.completion_tokens
    if scored.usage.prompt_tokens == generated.usage.prompt_tokens + count:
        assert scored.choices[0].logprobs.token_logprobs[-count:] == generated.choices[0].logprobs.token_logprobs
    else:
        assert scored.usage.prompt_tokens < generated.usage.prompt_tokens + count, "tokens merge, never split"


def test_takes_token_ids(client):
    # Byte-level BPE: a text of its own tokens' spellings comes back from echo.
    answer = client.completions.create(model="default", prompt=[504, 3575], echo=True, max_tokens=1, temperature=0)
    assert answer.usage.prompt_tokens == 2
    assert answer.usage.completion_tokens == 1


def test_answers_each_prompt_of_a_list(client, whole):
    request = {**GREEDY, "prompt": [GREEDY["prompt"], "Two plus two is"]}
    answer = client.completions.create(**request)
    texts = {choice.index: choice.text for choice in answer.choices}
    assert sorted(texts) == [0, 1]
    assert texts[0] == whole.choices[0].text


def test_ends_before_a_stop_string(client, whole):
    answer = client.completions.create(**GREEDY, stop="Paris")
    assert answer.choices[0].text == whole.choices[0].text.split("Paris")[0]
    assert answer.choices[0].finish_reason == "stop"
