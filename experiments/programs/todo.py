"""A list of things to do with a login: the service of the library's example `todo`, in Python.

usage: todo.py PORT, then
roundhouse load http://127.0.0.1:PORT --flow runtime/roundhouse/examples/todo.toml
"""
import http.server
import itertools
import json
import sys

todos, ids = {}, itertools.count(1)


class Todo(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body leave in one write, at once.
    wbufsize, disable_nagle_algorithm = -1, True

    def reply(self, status, value=None, cookie=None):
        body = b"" if status == 204 else json.dumps(value).encode()
        self.send_response(status)
        if cookie:
            self.send_header("Set-Cookie", f"token={cookie}; Path=/; HttpOnly")
        if status != 204:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer(self):
        length = int(self.headers.get("Content-Length", 0))
        sent = json.loads(self.rfile.read(length)) if length else {}
        if (self.command, self.path) == ("POST", "/login"):
            known = sent.get("password") == "sesame"
            return self.reply(200, {"token": "open-sesame"}, "open-sesame") if known else self.reply(401)
        shown = self.headers.get("Authorization", "") + self.headers.get("Cookie", "")
        if "open-sesame" not in shown:
            return self.reply(401)
        _, place, *rest = self.path.split("/")
        number = int(rest[0]) if rest and rest[0].isdigit() else None
        match self.command, place, number:
            case "GET", "todo", None:
                self.reply(200, list(todos.copy().values())[-100:])
            case "POST", "todo", None:
                new = {"id": next(ids), "text": sent["text"]}
                todos[new["id"]] = new
                self.reply(201, new)
            case "GET", "todo", _ if number in todos:
                self.reply(200, todos[number])
            case "DELETE", "todo", _ if todos.pop(number, None):
                self.reply(204)
            case _:
                self.reply(404)

    do_GET = do_POST = do_DELETE = answer

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Todo).serve_forever()
