"""Python's own client against servers of ours: FILE, then NAME=HOST:PORT for each of them.

It prints `NAME: good` for each, or ends with what it did not expect.
"""

import http.client
import sys


class Talk:
    """One server, one connection."""

    def __init__(self, address):
        host, port = address.split(":")
        self.connection = http.client.HTTPConnection(host, int(port), timeout=30)

    def ask(self, method, path, body=None, **fields):
        fields = {name.replace("_", "-"): value for name, value in fields.items()}
        chunked = fields.get("Transfer-Encoding") == "chunked"
        self.connection.request(method, path, body, fields, encode_chunked=chunked)
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def expect(self, wanted, *words, **fields):
        found = self.ask(*words, **fields)
        if found != wanted:
            sys.exit(f"{words[:2]}: expected {str(wanted)[:200]}, found {str(found)[:200]}")


def check(address, great):
    talk = Talk(address)
    first = None
    for _ in range(3):
        talk.expect((200, b"Hello, World!"), "GET", "/plaintext")
        # The connection is the same all the time.
        first = first or talk.connection.sock.getsockname()
        assert talk.connection.sock.getsockname() == first
    talk.expect((200, b'{"message":"Hello, World!"}'), "GET", "/json")
    talk.expect((200, great), "GET", "/great")
    talk.expect((206, great[70_000:140_001]), "GET", "/great", Range="bytes=70000-140000")
    talk.expect((200, b""), "HEAD", "/great")
    talk.expect((204, b""), "OPTIONS", "/")
    pieces = [b"ab", b"c" * 70_000, b"d"]
    whole = b"".join(pieces)
    talk.expect((200, whole), "POST", "/", iter(pieces), Transfer_Encoding="chunked")
    talk.expect((200, great[: 1 << 20]), "POST", "/", great[: 1 << 20])
    talk.expect((200, b"a=b\nc=d\n"), "GET", "/cookie", Cookie="a=b; c=d")
    assert talk.ask("GET", "/none")[0] == 404
    assert talk.ask("PUT", "/", b"abc")[0] == 405
    talk.expect((200, b"OK"), "GET", "/")
    assert talk.connection.sock.getsockname() == first
    try:
        assert talk.ask("POST", "/", great[: (1 << 20) + 1])[0] == 413
    except (BrokenPipeError, ConnectionResetError):
        pass  # It was still sending when it was told.


def main():
    with open(sys.argv[1], "rb") as file:
        great = file.read()
    for word in sys.argv[2:]:
        name, address = word.split("=")
        check(address, great)
        print(f"{name}: good")


main()
