"""A stub of what GitHub and GitLab answer about comments: it keeps them in memory."""

from __future__ import annotations

import http.server
import json
import re
import threading
from typing import Any, Dict, List, Tuple

PATHS = r"/repos/team/models/issues/(?:7/)?comments(?:/(\d+))?", r"/projects/5/merge_requests/7/notes(?:/(\d+))?"


class Forge:
    def __init__(self) -> None:
        self.comments: List[Dict[str, Any]] = []
        self.calls: List[Tuple[str, str, Dict[str, str]]] = []
        self.status = 0
        forge = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                forge.calls.append((self.command, self.path, {name.lower(): value for name, value in self.headers.items()}))
                path, _, query = self.path.partition("?")
                found = next((one for pattern in PATHS if (one := re.fullmatch(pattern, path))), None)
                if forge.status or found is None:
                    return self.send(forge.status or 404, {"message": "no"})
                if self.command == "GET":
                    page = int(re.findall(r"\bpage=(\d+)", query)[0])
                    return self.send(200, forge.comments[100 * (page - 1) : 100 * page])
                text = json.loads(body)["body"]
                if self.command == "POST":
                    forge.comments.append({"id": 1000 + len(forge.comments), "body": text})
                    return self.send(201, forge.comments[-1])
                (comment,) = (one for one in forge.comments if one["id"] == int(found[1]))
                comment["body"] = text
                return self.send(200, comment)

            def send(self, status: int, value: Any) -> None:
                sent = json.dumps(value).encode()
                self.send_response(status)
                if status == 302:
                    self.send_header("location", f"{forge.url}/elsewhere")
                self.send_header("content-length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            do_GET = do_POST = do_PATCH = do_PUT = answer

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
