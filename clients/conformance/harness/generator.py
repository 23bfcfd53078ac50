"""A stub language model behind OpenAI's chat completions: it says the second half of a text first."""

import contextlib
import http.server
import json
import re
import threading


def rewritten(text):
    words = text.rstrip(".").split()
    half = len(words) // 2
    return " ".join([*words[half:], "and", *words[:half]]).capitalize() + "."


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        asked = body["messages"][-1]["content"]
        found = re.search(r"<text>\n(.*)\n</text>", asked, re.S)
        answer = rewritten(found[1] if found else asked)
        choice = {"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
        sent = json.dumps({"id": "1", "object": "chat.completion", "model": "stub", "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(sent)))
        self.end_headers()
        # A run that is cancelled does not wait for its texts.
        with contextlib.suppress(ConnectionError):
            self.wfile.write(sent)

    def log_message(self, *_):
        pass


def serve():
    """The server, and its base URL."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_address[1]}/v1"
