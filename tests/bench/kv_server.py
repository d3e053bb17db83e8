"""The peer of the http benchmark: a key-value store of the shape that Horovod's launcher has. Python's
own HTTP server with a thread for each connection, a dictionary of scopes and a lock. Prints its port,
and serves until its stdin ends."""

import http.server
import sys
import threading


class Store(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.scopes = {}

    def handle_error(self, request, client_address):
        pass  # a client that stopped at the end of its time


class Handler(http.server.BaseHTTPRequestHandler):
    timeout = 3

    def answer(self, status, value=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(value)))
        self.end_headers()
        self.wfile.write(value)

    def place(self):
        _, scope, key = self.path.split("/")
        return scope, key

    def do_GET(self):
        scope, key = self.place()
        with self.server.lock:
            value = self.server.scopes.get(scope, {}).get(key)
        if value is None:
            self.answer(404)
        else:
            self.answer(200, value)

    def do_PUT(self):
        scope, key = self.place()
        value = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self.server.scopes.setdefault(scope, {})[key] = value
        self.answer(200)

    def log_message(self, *_):
        pass


def main():
    server = Store()
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
