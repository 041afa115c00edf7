# The third link of the chain (load.sh): a server that asks the next one, and does some work on the answer.
import http.client
import http.server
import sys
import threading

local = threading.local()


def ask(path):
    if not hasattr(local, "connection"):
        local.connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[2]))
    local.connection.request("GET", path)
    return local.connection.getresponse().read().decode()


def capitalize(line):
    return " ".join(word[:1].upper() + word[1:] for word in line.split())


def transform(text):
    return "\n".join(sorted(capitalize(line) for line in text.splitlines()))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = transform(ask(self.path)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
