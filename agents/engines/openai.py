"""Any endpoint with OpenAI's chat completions: agents are evaluated with it, nothing is trained."""

from __future__ import annotations

import os
import queue
import random
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphwrap.agents.engines.base import Sampling
from graphwrap.agents.engines.chat import Chat, Reply
from graphwrap.agents.engines.limits import RateLimit, Usage
from graphwrap.agents.prompts import Prompt, estimate_tokens

if TYPE_CHECKING:
    from graphwrap.agents.evaluation.settings import EndpointSettings

HIDDEN = "(key)"
"""What stands for the key where an endpoint repeats it in an error."""
FIRST_WAIT, LONGEST_BACKOFF = 1.0, 60.0  # seconds
_RETRIED = (408, 409, 425, 429)  # and all of 500 and above
_NO_CREDIT = "insufficient_quota"
_SHOWN = 500  # characters of an endpoint's own words


class EndpointError(RuntimeError):
    """The endpoint did not answer, and asking again does not help, or did not."""


class OpenAIEngine(Chat):
    """Asks an OpenAI-compatible endpoint, several requests at a time.

    Asked again, with waits that double and vary, is what was refused for now (429, 408, 409, 425, 5xx) or did not come
    through; where the endpoint says for how long (Retry-After), all requests wait. The key is read from the
    environment, and is in no error, log or file.

    Args:
        model: Its name there.
        settings: Of the endpoint.
        usage: Goes on counting there.

    Raises:
        ImportError: The package openai is missing.
        ValueError: The variable that has the key is not set, or holds what cannot be a key.
    """

    def __init__(self, model: str, settings: EndpointSettings, usage: Usage | None = None) -> None:
        try:
            import openai
        except ImportError:
            raise ImportError("engine.name=openai needs openai: pip install 'graphwrap[openai]'") from None
        self.model = model
        self.settings = settings
        self.usage = usage or Usage()
        self.limit = RateLimit(settings.requests_per_minute, settings.tokens_per_minute)
        self._key = read_key(settings.key_variable)
        self._openai = openai
        self._client = openai.OpenAI(
            api_key=self._key or "none",
            base_url=settings.base_url,
            timeout=settings.timeout,
            max_retries=0,  # its waits are each request's own, and at most some seconds
        )
        self._lock = threading.Lock()
        self._asked = 0

    def answer(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Reply]:
        """Answer every prompt, in this order.

        Args:
            prompts: Those of a `Prompter` without a tokenizer.
            sampling: The temperature and the longest answer. Seeds are sent where `settings.seed` says so.

        Raises:
            EndpointError: The endpoint refuses, or failed as often as it is asked again.
        """
        todo: queue.SimpleQueue[int] = queue.SimpleQueue()
        done: queue.SimpleQueue[tuple[int, Reply | BaseException]] = queue.SimpleQueue()
        stop = threading.Event()
        for place in range(len(prompts)):
            todo.put(place)

        def work() -> None:
            while not stop.is_set():
                try:
                    place = todo.get_nowait()
                except queue.Empty:
                    return
                seed = None if sampling.seeds is None else sampling.seeds[place]
                try:
                    reply = self._ask(prompts[place], sampling, seed, stop)
                except BaseException as error:
                    done.put((place, error))
                else:
                    done.put((place, reply))

        for _ in range(min(self.settings.concurrency, len(prompts))):
            # Daemons: an interrupted process does not wait for answers that nobody reads.
            threading.Thread(target=work, daemon=True, name="openai").start()
        replies: dict[int, Reply] = {}
        try:
            while len(replies) < len(prompts):
                place, said = done.get()
                if isinstance(said, BaseException):
                    raise said
                replies[place] = said
        finally:
            stop.set()
        return [replies[place] for place in range(len(prompts))]

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _ask(self, prompt: Prompt, sampling: Sampling, seed: int | None, stop: threading.Event) -> Reply:
        with self._lock:
            self._asked += 1
            jitter = random.Random(self._asked)
        thought = prompt.length + sampling.max_tokens
        for attempt in range(self.settings.retries + 1):
            ticket = self.limit.begin(thought, stop)
            if ticket is None:
                break
            try:
                completion = self._client.chat.completions.create(
                    model=self.model,
                    messages=[{"role": role, "content": content} for role, content in prompt.messages],  # type: ignore[arg-type,misc]
                    extra_body=self._fields(sampling, seed),
                )
                reply = self._reply(prompt, completion)
            except self._openai.APIError as error:
                self.limit.end(ticket, 0)
                wait = self._wait_after(error, attempt, jitter)
            except ValueError:  # of a JSON parser
                raise self._strange() from None
            else:
                self.limit.end(ticket, reply.prompt_tokens + reply.answer_tokens)
                return reply
            with self._lock:
                self.usage.retries += 1
            stop.wait(wait)
        raise EndpointError("the request was given up")

    def _fields(self, sampling: Sampling, seed: int | None) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "temperature": sampling.temperature,
            self.settings.length_field: sampling.max_tokens,
        }
        if self.settings.seed and seed is not None:
            fields["seed"] = seed
        fields.update(self.settings.options)
        return {name: value for name, value in fields.items() if value is not None}

    def _reply(self, prompt: Prompt, completion: Any) -> Reply:
        choices = getattr(completion, "choices", None)
        if not choices:
            raise self._strange()
        message, reason = choices[0].message, choices[0].finish_reason
        text = message.content or ""
        more = message.model_extra or {}
        thought = more.get("reasoning_content") or more.get("reasoning")
        if isinstance(thought, str):
            text = f"<think>{thought}</think>{text}"
        usage = completion.usage
        if usage is None:
            tokens = (prompt.length, estimate_tokens(text))
        else:
            tokens = (usage.prompt_tokens, usage.completion_tokens)
        with self._lock:
            self.usage.requests += 1
            self.usage.prompt_tokens += tokens[0]
            self.usage.answer_tokens += tokens[1]
            self.usage.estimated += usage is None
        return Reply((), np.zeros(0, np.float32), reason != "length", text, *tokens)

    def _wait_after(self, error: Any, attempt: int, jitter: random.Random) -> float:
        """Seconds to wait before the request is sent again; an error that is final is raised."""
        status = getattr(error, "status_code", None)
        is_passing = status is None or status in _RETRIED or status >= 500
        if isinstance(error, self._openai.APIResponseValidationError):
            is_passing = False
        if not is_passing or getattr(error, "code", None) == _NO_CREDIT:
            raise self._final(error, "") from None
        if attempt == self.settings.retries:
            times = f"after {attempt} more {'try' if attempt == 1 else 'tries'} (openai.retries)"
            raise self._final(error, times) from None
        backoff = min(FIRST_WAIT * 2**attempt, LONGEST_BACKOFF) * jitter.uniform(0.5, 1.0)
        asked_for = _retry_after(error)
        if asked_for is None:
            return backoff
        if asked_for > self.settings.longest_wait:
            told = f"it asks to wait for {asked_for:.0f} s, and openai.longest_wait is {self.settings.longest_wait:g}"
            raise self._final(error, told) from None
        self.limit.pause(asked_for)
        return 0.0 if asked_for else backoff

    def _final(self, error: Any, more: str) -> EndpointError:
        status = getattr(error, "status_code", None)
        if status is None:
            cause = error.__cause__
            kind = "no answer in time" if isinstance(error, self._openai.APITimeoutError) else "no connection"
            told = f"{kind}{f' ({cause})' if cause is not None and str(cause) else ''}"
        else:
            told = str(error.message)[:_SHOWN]
            told = told if str(status) in told else f"status {status}: {told}"
        whose = f"the key is that of the environment variable {self.settings.key_variable or '(none)'}"
        hints = {
            401: whose,
            403: whose,
            404: "check openai.base_url, what stands before /chat/completions, and model.path, the model's name",
            400: "openai.options adds fields to a request, and takes one out by null",
            None: f"check openai.base_url and openai.timeout, {self.settings.timeout:g} s",
        }
        parts = [f"the endpoint {self.settings.base_url} did not answer for {self.model}", told, more]
        parts.append(hints.get(status, ""))
        return EndpointError(self._hidden("; ".join(part for part in parts if part)))

    def _strange(self) -> EndpointError:
        return EndpointError(
            f"{self.settings.base_url} answers, but not with a chat completion: openai.base_url is what stands before "
            "/chat/completions, such as http://localhost:8000/v1"
        )

    def _hidden(self, text: str) -> str:
        return text.replace(self._key, HIDDEN) if self._key else text


def read_key(variable: str) -> str:
    """The key in an environment variable; "" where none is named.

    Raises:
        ValueError: It is not set, or holds what no header can have. The value is not shown.
    """
    if not variable:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ValueError(
            f"the endpoint's key is read from the environment variable {variable}, which is not set: export it, name "
            "another with openai.key_variable=NAME, or none with openai.key_variable= for an endpoint without keys"
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ValueError(
            f"the environment variable {variable} must hold a key in printable ASCII without spaces, and does not "
            "(its value is not shown)"
        )
    return key


def _retry_after(error: Any) -> float | None:
    """Seconds that the endpoint asks to wait for; None where it does not say."""
    from email.utils import parsedate_to_datetime

    response = getattr(error, "response", None)
    if response is None:
        return None
    for header, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = response.headers.get(header, "").strip()
        try:
            return max(0.0, float(value) / unit)
        except ValueError:
            continue
    try:
        from datetime import datetime, timezone

        when = parsedate_to_datetime(response.headers.get("retry-after", ""))
        return max(0.0, (when - datetime.now(timezone.utc)).total_seconds())
    except (TypeError, ValueError):
        return None
