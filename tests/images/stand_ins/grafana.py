"""A stand-in for Grafana: reads its provisioning, lists the dashboards, and passes queries to the data source."""

import http.server
import json
import pathlib
import urllib.request
from typing import Any

import yaml

PROVISIONING = pathlib.Path("/etc/grafana/provisioning")


def read(kind: str) -> Any:
    (path,) = (PROVISIONING / kind).glob("*.yaml")
    return yaml.safe_load(path.read_text())


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        (source,) = read("datasources")["datasources"]
        (provider,) = read("dashboards")["providers"]
        if self.path == "/api/search":
            folder = pathlib.Path(provider["options"]["path"])
            found = [json.loads(path.read_text())["title"] for path in sorted(folder.glob("*.json"))]
            body = json.dumps(found).encode()
        else:
            path = self.path.removeprefix(f"/api/datasources/proxy/{source['name']}")
            with urllib.request.urlopen(source["url"] + path, timeout=10) as response:
                body = response.read()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)


http.server.ThreadingHTTPServer(("", 3000), Handler).serve_forever()
