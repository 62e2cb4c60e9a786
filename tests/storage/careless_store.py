"""A store that speaks S3 and ignores the condition of a write: the second of two writers overwrites the first."""

from __future__ import annotations

import re
import sys
import threading
from email.utils import formatdate
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

HOST: Final = "127.0.0.1"
INSTANT: Final = "2026-11-24T00:00:00.000Z"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    objects: dict[str, bytes]
    """By bucket and key."""

    def do_PUT(self) -> None:
        self.objects[self._key] = self._body()
        self._answer(200, etag=self.objects[self._key])

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        if "list-type" in query:
            self._answer(200, self._listing(*(query.get(name, [""])[0] for name in ("prefix", "start-after"))))
        elif (content := self.objects.get(self._key)) is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        elif wanted := re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "")):
            first, last = int(wanted[1]), min(int(wanted[2]), len(content) - 1)
            part = content[first : last + 1]
            self._answer(206, part, etag=content, range_=f"bytes {first}-{last}/{len(content)}")
        else:
            self._answer(200, content, etag=content)

    do_HEAD = do_GET  # noqa: N815 - a name of http.server

    def do_DELETE(self) -> None:
        self.objects.pop(self._key, None)
        self._answer(204)

    def do_POST(self) -> None:
        """Removes several."""
        for key in re.findall(r"<Key>(.*?)</Key>", self._body().decode()):
            self.objects.pop(f"{self._key}/{key}", None)
        self._answer(200, b"<DeleteResult/>")

    def log_message(self, *_: object) -> None:
        pass

    @property
    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).strip("/")

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _answer(self, status: int, body: bytes = b"", *, etag: bytes = b"", range_: str | None = None) -> None:
        self.send_response(status)
        self.send_header("ETag", f'"{md5(etag, usedforsecurity=False).hexdigest()}"')
        self.send_header("Last-Modified", formatdate(usegmt=True))
        if range_ is not None:
            self.send_header("Content-Range", range_)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _listing(self, prefix: str, after: str) -> bytes:
        """Delta asks for what comes after the version that it knows, and takes what is older for a damaged log."""
        bucket = self._key
        rows = "".join(
            f"<Contents><Key>{escape(name.removeprefix(f'{bucket}/'))}</Key><LastModified>{INSTANT}</LastModified>"
            f"<ETag>x</ETag><Size>{len(content)}</Size></Contents>"
            for name, content in sorted(self.objects.items())
            if name.startswith(f"{bucket}/{prefix}") and name > f"{bucket}/{after}"
        )
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>".encode()


def main() -> None:
    """Prints its URL, and serves until its input ends. Any bucket exists, and every request is permitted."""
    handler = type("Handler", (_Handler,), {"objects": {}})
    with ThreadingHTTPServer((HOST, 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"http://{HOST}:{server.server_address[1]}", flush=True)
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    main()
