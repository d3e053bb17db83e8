"""Serves the files of a folder on a loopback port, prints the port, then a line for each request.
Goes on in the middle of a file where asked to; `no-ranges` as the second argument: does not."""
import http.server
import os
import re
import sys

folder = sys.argv[1]
ranges = sys.argv[2:] != ["no-ranges"]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")) if ranges else None
        start = int(wanted.group(1)) if wanted else 0
        print(f"GET {self.path} from {start}", flush=True)
        try:
            with open(folder + "/" + os.path.basename(self.path), "rb") as file:
                content = file.read()
        except FileNotFoundError:
            return self.send_error(404)
        if start > 0 and start >= len(content):
            return self.send_error(416)
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start:])

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(f"port {server.server_port} ", flush=True)
server.serve_forever()
