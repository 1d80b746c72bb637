"""Rate limits of an endpoint, and what was asked of it."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class Usage:
    """What was asked of an endpoint, by all runs of an evaluation together."""

    requests: int = 0  # that were answered
    retries: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    estimated: int = 0  # requests whose answer did not tell its tokens, which were estimated

    def cost(self, prompt_price: float, answer_price: float) -> float:
        """In the currency of the prices, which are per million tokens."""
        return (self.prompt_tokens * prompt_price + self.answer_tokens * answer_price) / 1e6

    def as_dict(self) -> dict[str, Any]:
        """All numbers by name."""
        return asdict(self)


class _Ticket:
    """One request of the last period."""

    def __init__(self, began: float, tokens: int) -> None:
        self.began = began
        self.tokens = tokens


class RateLimit:
    """Lets requests begin so that no period of `period` seconds has more of them, or of their tokens, than allowed.

    Args:
        requests: In a period; 0: any number.
        tokens: Of prompts and answers in a period; 0: any number.
        period: Seconds.
    """

    def __init__(self, requests: int = 0, tokens: int = 0, period: float = 60.0) -> None:
        self.requests = requests
        self.tokens = tokens
        self.period = period
        self._lock = threading.Lock()
        self._recent: deque[_Ticket] = deque()
        self._not_before = -math.inf

    def begin(self, tokens: int, stop: threading.Event) -> _Ticket | None:
        """Wait until a request may begin.

        Args:
            tokens: That it is thought to take.
            stop: Ends the waiting.

        Returns:
            What `end` takes; None: it was stopped.

        Raises:
            ValueError: It takes more tokens than a period has.
        """
        if self.tokens and tokens > self.tokens:
            raise ValueError(
                f"a request takes about {tokens} tokens, and openai.tokens_per_minute is {self.tokens}: raise it, or "
                "lower rollout.max_tokens or the history"
            )
        while not stop.is_set():
            with self._lock:
                wait = self._wait(tokens, time.monotonic())
                if wait <= 0:
                    ticket = _Ticket(time.monotonic(), tokens)
                    self._recent.append(ticket)
                    return ticket
            stop.wait(wait)
        return None

    def end(self, ticket: _Ticket, tokens: int) -> None:
        """Put the tokens that a request took in the place of those that it was thought to take."""
        with self._lock:
            ticket.tokens = tokens

    def pause(self, seconds: float) -> None:
        """Let no request begin for so long."""
        with self._lock:
            self._not_before = max(self._not_before, time.monotonic() + seconds)

    def _wait(self, tokens: int, now: float) -> float:
        """Seconds until the next one may begin, at the least."""
        while self._recent and self._recent[0].began <= now - self.period:
            self._recent.popleft()
        waits = [self._not_before - now]
        if self.requests and len(self._recent) >= self.requests:
            waits.append(self._recent[-self.requests].began + self.period - now)
        if self.tokens:
            excess = sum(ticket.tokens for ticket in self._recent) + tokens - self.tokens
            for ticket in self._recent:
                if excess <= 0:
                    break
                excess -= ticket.tokens
                waits.append(ticket.began + self.period - now)
        return max(waits)
