"""An OpenAI-compatible endpoint as an engine, over a real socket: answers, retries, limits, and a secret key."""

from __future__ import annotations

import itertools
import logging
import os
import signal
import threading
import time
import traceback
from contextlib import contextmanager
from email.utils import formatdate

import pytest

from graphwrap.agents.engines import Sampling
from graphwrap.agents.engines import openai as module
from graphwrap.agents.engines.limits import RateLimit, Usage
from graphwrap.agents.engines.openai import EndpointError, OpenAIEngine
from graphwrap.agents.evaluation.settings import EndpointSettings
from graphwrap.agents.prompts import Prompt
from tests.agents.endpoint import KEY, Script, completion, failure, serving

pytestmark = pytest.mark.llm  # their environment has the package openai


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_WAIT", 0.05)
    monkeypatch.setenv("TEST_KEY", KEY)


@contextmanager
def asking(script: Script, usage: Usage | None = None, **settings):
    with serving(script) as endpoint:
        chosen = {"base_url": endpoint.url, "key_variable": "TEST_KEY", **settings}
        engine = OpenAIEngine("small-model", EndpointSettings(**chosen), usage)
        try:
            yield engine, endpoint
        finally:
            engine.close()


def prompts(*texts: str) -> list[Prompt]:
    return [Prompt((), text, messages=(("system", "be brief"), ("user", text))) for text in texts]


def echo(number, request):
    return completion(f"re: {request.said}")


def test_answers_come_in_the_order_of_the_prompts_whatever_is_quicker():
    def script(number, request):
        answer = completion(f"re: {request.said}", "length" if request.said == "b" else "stop", (7, 2))
        answer.delay = {"a": 1.5, "b": 1.0, "c": 0.5}[request.said]
        return answer

    with asking(script, concurrency=3) as (engine, endpoint):
        replies = engine.answer(prompts("a", "b", "c"), Sampling(0.4, 99))
    assert [reply.text for reply in replies] == ["re: a", "re: b", "re: c"]
    assert [reply.finished for reply in replies] == [True, False, True]
    assert [(reply.prompt_tokens, reply.answer_tokens) for reply in replies] == [(7, 2)] * 3
    assert engine.usage == Usage(3, 0, 21, 6)
    assert endpoint.most_running == 3
    (request,) = (request for request in endpoint.requests if request.said == "a")
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "small-model",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "a"}],
        "temperature": 0.4,
        "max_tokens": 99,
    }


def test_no_more_requests_at_a_time_than_asked_for():
    def script(number, request):
        answer = completion("x")
        answer.delay = 0.05
        return answer

    with asking(script, concurrency=2) as (engine, endpoint):
        engine.answer(prompts(*"abcdef"), Sampling())
    assert endpoint.most_running == 2
    assert len(endpoint.requests) == 6


def test_options_add_replace_and_take_out_fields_and_seeds_are_sent_where_wanted():
    options = {"top_p": 0.9, "temperature": None, "reasoning_effort": "low"}
    changes = {"options": options, "length_field": "max_completion_tokens", "seed": True, "concurrency": 1}
    with asking(echo, **changes) as (engine, endpoint):
        engine.answer(prompts("a", "b"), Sampling(0.4, 99, seeds=(5, 6)))
    first, second = (request.body for request in endpoint.requests)
    assert first.keys() == {"model", "messages", "top_p", "reasoning_effort", "max_completion_tokens", "seed"}
    assert (first["top_p"], first["max_completion_tokens"], first["seed"]) == (0.9, 99, 5)
    assert second["seed"] == 6


def test_tokens_that_are_not_told_are_estimated_and_reasoning_is_thought():
    def script(number, request):
        return completion("<action>up</action>", usage=None, reasoning_content="hm")

    with asking(script, Usage(5, 1, 100, 50, 2)) as (engine, _):
        (reply,) = engine.answer(prompts("seven c"), Sampling())
    assert reply.text == "<think>hm</think><action>up</action>"
    assert (reply.prompt_tokens, reply.answer_tokens) == (2, 11)  # 7 and 36 characters
    assert engine.usage == Usage(6, 1, 102, 61, 3)
    assert engine.usage.cost(2.0, 10.0) == pytest.approx((102 * 2 + 61 * 10) / 1e6)


def test_an_answer_without_text_is_empty():
    with asking(lambda number, request: completion(None, "content_filter")) as (engine, _):
        (reply,) = engine.answer(prompts("a"), Sampling())
    assert (reply.text, reply.finished) == ("", True)


@pytest.mark.parametrize("status", [500, 503, 429, 408, 409])
def test_what_is_refused_for_now_is_asked_again_with_waits_that_double(status):
    def script(number, request):
        return failure(status) if number < 3 else completion("at last")

    with asking(script, retries=3) as (engine, endpoint):
        (reply,) = engine.answer(prompts("a"), Sampling())
    assert reply.text == "at last"
    assert engine.usage == Usage(1, 3, 10, 3)
    times = [request.time for request in endpoint.requests]
    waits = [later - earlier for earlier, later in itertools.pairwise(times)]
    for attempt, wait in enumerate(waits):
        assert wait >= 0.05 * 2**attempt * 0.5
    assert waits[2] < 5


@pytest.mark.parametrize("as_date", [False, True])
def test_retry_after_makes_all_requests_wait(as_date):
    until = []

    def script(number, request):
        if number == 0:
            if as_date:  # whole seconds
                until.append(time.monotonic() + 0.9)
                return failure(429, retry_after=formatdate(time.time() + 2, usegmt=True))
            until.append(time.monotonic() + 0.5)
            return failure(429, retry_after="0.5")
        return completion("x")

    with asking(script, concurrency=1) as (engine, endpoint):
        assert len(engine.answer(prompts("a", "b"), Sampling())) == 2
    assert len(endpoint.requests) == 3
    assert all(request.time >= until[0] for request in endpoint.requests[1:])


def test_retry_after_holds_for_the_requests_beside_it_too():
    arrived = threading.Event()

    def script(number, request):
        if number == 0:
            arrived.set()
            return failure(429, retry_after="0.6")
        return completion("x")

    with asking(script, concurrency=2) as (engine, endpoint):
        first = threading.Thread(target=engine.answer, args=(prompts("a"), Sampling()))
        first.start()
        arrived.wait()
        time.sleep(0.2)  # the refusal has come through
        engine.answer(prompts("b"), Sampling())
        first.join()
    assert all(request.time - endpoint.requests[0].time >= 0.6 for request in endpoint.requests[1:])


def told_by(engine, *texts: str) -> str:
    """The error of a call, with everything that a traceback shows of it."""
    with pytest.raises(EndpointError) as caught:
        engine.answer(prompts(*(texts or ("a",))), Sampling())
    return "".join(traceback.format_exception(caught.value))


def test_after_the_last_retry_the_last_error_is_told():
    with asking(lambda number, request: failure(503, "we are full"), retries=2) as (engine, endpoint):
        told = told_by(engine)
    assert len(endpoint.requests) == 3
    assert "503" in told
    assert "we are full" in told
    assert "after 2 more tries (openai.retries)" in told


@pytest.mark.parametrize(
    ("status", "code", "hint"),
    [
        (400, None, "openai.options"),
        (401, None, "the environment variable TEST_KEY"),
        (404, None, "openai.base_url"),
        (429, "insufficient_quota", "429"),
    ],
)
def test_what_does_not_pass_is_not_asked_again(status, code, hint):
    with asking(lambda number, request: failure(status, code=code)) as (engine, endpoint):
        told = told_by(engine)
    assert len(endpoint.requests) == 1
    assert hint in told


def test_an_endpoint_that_wants_to_be_left_alone_for_long_ends_it():
    with asking(lambda n, request: failure(429, retry_after="3600"), longest_wait=5) as (engine, endpoint):
        told = told_by(engine)
    assert len(endpoint.requests) == 1
    assert "it asks to wait for 3600 s, and openai.longest_wait is 5" in told


def test_a_late_answer_is_asked_for_again():
    def script(number, request):
        answer = completion("x")
        answer.delay = 5.0 if number < 1 else 0.0
        return answer

    with asking(script, timeout=0.3) as (engine, endpoint):
        began = time.monotonic()
        assert engine.answer(prompts("a"), Sampling())[0].text == "x"
    assert time.monotonic() - began < 4
    assert len(endpoint.requests) == 2


def test_no_answer_in_time_and_no_connection_are_told():
    def script(number, request):
        answer = completion("x")
        answer.delay = 5.0
        return answer

    with asking(script, timeout=0.2, retries=1) as (engine, endpoint):
        told = told_by(engine)
    assert "no answer in time" in told
    assert "openai.timeout, 0.2 s" in told
    settings = EndpointSettings(base_url=endpoint.url, key_variable="", retries=1)
    gone = OpenAIEngine("m", settings)  # the server has ended
    assert "no connection" in told_by(gone)
    gone.close()


@pytest.mark.parametrize("body", ["<html>hello</html>", {"choices": []}, {"hello": 1}])
def test_what_is_no_chat_completion_is_told(body):
    def script(number, request):
        answer = completion("x")
        answer.body = body
        return answer

    with asking(script) as (engine, endpoint):
        told = told_by(engine)
    assert "not with a chat completion" in told
    assert len(endpoint.requests) == 1


def test_broken_json_is_told():
    def script(number, request):
        answer = completion("x")
        answer.body, answer.headers = '{"choices": [', {"content-type": "application/json"}
        return answer

    with asking(script) as (engine, _):
        assert "not with a chat completion" in told_by(engine)


def test_the_key_is_in_no_error_log_or_repr(caplog: pytest.LogCaptureFixture):
    def script(number, request):
        header = request.headers["authorization"]
        return failure(401, f"the header {header} has a wrong key")

    with caplog.at_level(logging.DEBUG), asking(script) as (engine, endpoint):
        told = told_by(engine)
        shown = repr(engine) + repr(engine.settings) + repr(engine.usage)
    assert endpoint.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert "the header Bearer (key) has a wrong key" in told
    assert KEY not in told + shown + caplog.text + "".join(str(record.__dict__) for record in caplog.records)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "which is not set"),
        ("  ", "which is not set"),
        ("sk secret", "printable"),
        ("sk-\u20acret", "printable"),
    ],
)
def test_a_key_that_cannot_be_is_refused_unseen(value, told, monkeypatch):
    if value is None:
        monkeypatch.delenv("TEST_KEY")
    else:
        monkeypatch.setenv("TEST_KEY", value)
    with pytest.raises(ValueError, match=told) as caught:
        OpenAIEngine("m", EndpointSettings(key_variable="TEST_KEY"))
    assert "TEST_KEY" in str(caught.value)
    assert "cret" not in "".join(traceback.format_exception(caught.value))


def test_without_a_key_a_placeholder_is_sent(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)  # which the client would take by itself
    with asking(echo, key_variable="") as (engine, endpoint):
        engine.answer(prompts("a"), Sampling())
    assert endpoint.requests[0].headers["authorization"] == "Bearer none"


def test_requests_per_period_are_limited():
    with asking(echo, concurrency=8) as (engine, endpoint):
        engine.limit = RateLimit(requests=3, period=0.5)
        engine.answer(prompts(*"abcdefgh"), Sampling())
    times = [request.time for request in endpoint.requests]
    # The server sees a request a little after it began.
    assert all(later - earlier > 0.4 for earlier, later in zip(times, times[3:]))


def test_tokens_per_period_are_limited_and_corrected_by_what_was_taken():
    stop = threading.Event()
    limit = RateLimit(tokens=100, period=0.5)
    began = time.monotonic()
    first = limit.begin(80, stop)
    limit.end(first, 30)  # it took less than was thought
    limit.begin(60, stop)
    assert time.monotonic() - began < 0.4
    limit.begin(40, stop)  # 30 + 60 + 40: when the first has left the period
    assert 0.5 <= time.monotonic() - began < 0.9
    with pytest.raises(ValueError, match=r"takes about 101 tokens, and openai\.tokens_per_minute is 100"):
        limit.begin(101, stop)


def test_a_stop_ends_the_waiting():
    stop = threading.Event()
    limit = RateLimit(requests=1, period=600)
    assert limit.begin(1, stop) is not None
    threading.Timer(0.1, stop.set).start()
    began = time.monotonic()
    assert limit.begin(1, stop) is None
    assert time.monotonic() - began < 5


def test_ctrl_c_does_not_wait_for_the_endpoint():
    def script(number, request):
        answer = completion("x")
        answer.delay = 60
        return answer

    with asking(script) as (engine, _endpoint):
        # A shell's background jobs, such as a test run, ignore the signal.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            began = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                engine.answer(prompts("a", "b"), Sampling())
            assert time.monotonic() - began < 10
        finally:
            signal.signal(signal.SIGINT, before)


def test_an_error_stops_the_other_requests():
    def script(number, request):
        answer = failure(400) if request.said == "bad" else completion("x")
        answer.delay = 0.0 if request.said == "bad" else 0.2
        return answer

    with asking(script, concurrency=2) as (engine, endpoint):
        told_by(engine, "good", "bad", *["later"] * 20)
        time.sleep(0.5)
        assert len(endpoint.requests) <= 4
