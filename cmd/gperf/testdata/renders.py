# A web server that computes for each request in render, and four clients.
import hashlib, http.server, threading, urllib.request


def render(path):
    text = path.encode()
    for _ in range(20000):
        text = hashlib.sha256(text).digest()
    return text.hex().encode()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        page = render(self.path)
        self.send_response(200)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_):
        pass


def ask(port):
    while True:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/page").read()


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
for _ in range(4):
    threading.Thread(target=ask, args=(server.server_port,), daemon=True).start()
server.serve_forever()
