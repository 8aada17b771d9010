#!/usr/bin/env python3
"""A model hub on the loopback interface for the tests of `lockstep pull`: Hugging Face's paths, ranges, redirects, faults.

    pull_server.py LOG    prints its port, serves until standard input closes, appends one line per request to LOG

Repositories: acme/tiny (works), acme/cut (cuts each answer short), acme/bad (wrong bytes), acme/norange (ignores ranges),
acme/gated (needs the token "secret"), acme/escape (a file name that leaves its folder), acme/ggufs (several GGUF files).
"""
import hashlib
import http.server
import json
import random
import sys
import threading

COMMIT = "0123456789abcdef0123456789abcdef01234567"
BIG = random.Random(7).randbytes(300_000)
SMALL = {"config.json": b'{"model_type": "llama"}\n', "tokenizer.json": b"{}\n", "README.md": b"# tiny\n", "onnx/model.json": b"{}"}
FILES = dict(SMALL, **{"model.safetensors": BIG})
REPOS = {
    "acme/tiny": FILES, "acme/cut": FILES, "acme/bad": FILES, "acme/norange": FILES, "acme/gated": FILES,
    "acme/escape": {"../../evil.json": b"{}"},
    "acme/ggufs": {"a-Q4.gguf": b"GGUF a", "b-Q8.gguf": b"GGUF b", "config.json": b"{}"},
}


def git_id(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, headers=(), body=b"", cut=None):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body if cut is None else body[:cut])
        if cut is not None:
            self.close_connection = True

    def handle_path(self):
        token = self.headers.get("Authorization", "-")
        with open(LOG, "a", encoding="utf-8") as log:
            print(self.command, self.path, self.headers.get("Range", "-"), token, file=log)
        parts = self.path.lstrip("/").split("/")
        if parts[:2] == ["api", "models"]:
            repo = "/".join(parts[2:4])
            if repo not in REPOS:
                return self.answer(404)
            index = {"sha": COMMIT, "siblings": [{"rfilename": f} for f in REPOS[repo]]}
            return self.answer(200, [("Content-Type", "application/json")], json.dumps(index).encode())
        if parts[0] == "cdn":
            return self.blob("/".join(parts[1:3]), "/".join(parts[3:]))
        repo, name = "/".join(parts[:2]), "/".join(parts[4:])
        if repo == "acme/gated" and token != "Bearer secret":
            return self.answer(401)
        data = REPOS.get(repo, {}).get(name)
        if parts[2] != "resolve" or data is None:
            return self.answer(404)
        if data is BIG:  # large files live elsewhere; the linked headers describe them
            other = f"http://localhost:{self.server.server_port}/cdn/{repo}/{name}"
            linked = [("X-Linked-Etag", f'"{hashlib.sha256(BIG).hexdigest()}"'), ("X-Linked-Size", str(len(BIG))), ("Location", other)]
            return self.answer(302, linked + [("X-Repo-Commit", COMMIT)])
        return self.answer(200, [("ETag", f'W/"{git_id(data)}"'), ("X-Repo-Commit", COMMIT)], data)

    def blob(self, repo, name):
        data = REPOS[repo][name]
        if repo == "acme/bad":
            data = data[:-1] + bytes([data[-1] ^ 1])
        begin, status = 0, 200
        asked = self.headers.get("Range")
        if asked and repo != "acme/norange":
            begin, status = int(asked.removeprefix("bytes=").split("-")[0]), 206
            if begin >= len(data):
                return self.answer(416)
        headers = [("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")] if status == 206 else []
        return self.answer(status, headers, data[begin:], 90_000 if repo == "acme/cut" else None)

    do_GET = do_HEAD = handle_path


if __name__ == "__main__":
    LOG = sys.argv[1]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()
