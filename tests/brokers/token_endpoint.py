"""A token endpoint on the loopback: unsecured tokens, as a broker without an identity provider takes them."""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import parse_qs

CLIENT_ID, CLIENT_SECRET = "exporter", "0auth-c4nary"


class TokenEndpoint:
    """`with TokenEndpoint() as endpoint:` answers the client credentials grant at `endpoint.url`, to one client."""

    def __init__(self, *, life_s: float = 3600, pair: str = f"{CLIENT_ID}:{CLIENT_SECRET}") -> None:
        """`pair` is what the client must send, as it stands before base64."""
        self.life_s = life_s
        self._pair = pair
        self.tokens: list[str] = []
        self.failing: int | None = None
        """An HTTP status to answer instead."""
        self.body: bytes | None = None
        """An answer to give instead of a token."""
        self.asked: list[dict[str, str]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                endpoint.asked.append({key: values[0] for key, values in form.items()})
                status, body = endpoint.answer(self.headers.get("Authorization", ""))
                self.send_response(status)
                if status in {301, 307}:
                    self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing: pytest shows the exporter's own log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def issued(self) -> int:
        """Tokens so far."""
        return len(self.tokens)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/token"

    def answer(self, authorization: str) -> tuple[int, bytes]:
        wanted = "Basic " + base64.b64encode(self._pair.encode()).decode()
        if authorization != wanted:
            return 401, b'{"error": "invalid_client"}'
        if self.failing is not None:
            return self.failing, b"no"
        if self.body is not None:
            return 200, self.body
        token = unsecured_token("watcher", self.life_s)
        self.tokens.append(token)
        return 200, json.dumps({"access_token": token, "expires_in": self.life_s, "token_type": "Bearer"}).encode()

    def __enter__(self) -> TokenEndpoint:
        self._thread.start()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


def unsecured_token(subject: str, life_s: float) -> str:
    """A JWT without a signature (RFC 7519, section 6)."""
    now = time.time()
    parts = ({"alg": "none"}, {"sub": subject, "iat": now, "exp": now + life_s})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
    return ".".join([*encoded, ""])
