"""A small server of chat completions that says what a test tells it to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-do-not-tell-0123456789"


@dataclass
class Request:
    """What a client sent."""

    time: float  # seconds
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def said(self) -> str:
        return self.body["messages"][-1]["content"]


@dataclass
class Response:
    """What it is told."""

    body: Any = ""  # str: as it is; else JSON
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0  # seconds before it


def completion(
    text: str | None, finish: str = "stop", usage: tuple[int, int] | None = (10, 3), **more: Any
) -> Response:
    """An answer."""
    message = {"role": "assistant", "content": text, **more}
    body: dict[str, Any] = {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }
    if usage is not None:
        body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return Response(body)


def failure(status: int, message: str = "no", code: str | None = None, **headers: str) -> Response:
    """An error as OpenAI's endpoint tells it."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response({"error": {"message": message, "code": code}}, status, named)


Script = Callable[[int, Request], Response]
"""(number of the request, request) -> response."""


class Endpoint:
    """A server on a free port of this machine."""

    def __init__(self, script: Script) -> None:
        self.requests: list[Request] = []
        self.running = self.most_running = 0
        lock, endpoint, stopped = threading.Lock(), self, threading.Event()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                headers = {name.lower(): value for name, value in self.headers.items()}
                with lock:
                    number = len(endpoint.requests)
                    request = Request(time.monotonic(), self.path, headers, body)
                    endpoint.requests.append(request)
                    endpoint.running += 1
                    endpoint.most_running = max(endpoint.most_running, endpoint.running)
                response = script(number, request)
                stopped.wait(response.delay)
                with lock:
                    endpoint.running -= 1
                is_text = isinstance(response.body, str)
                data = (response.body if is_text else json.dumps(response.body)).encode()
                kind = "text/html" if is_text else "application/json"
                try:
                    self.send_response(response.status)
                    for name, value in {"content-type": kind, **response.headers}.items():
                        self.send_header(name, value)
                    self.send_header("content-length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:  # the client has gone
                    self.close_connection = True

            def log_message(self, *_: Any) -> None:
                pass

        self._stopped = stopped
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def serving(script: Script) -> Iterator[Endpoint]:
    endpoint = Endpoint(script)
    try:
        yield endpoint
    finally:
        endpoint.close()
