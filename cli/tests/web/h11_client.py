"""h11 as a client of servers of ours: FILE, then NAME=HOST:PORT for each of them.

h11 is a state machine that refuses what RFC 9112 does not allow, so whatever it says about an
answer is said by a second author. It prints `NAME: good` for each, or ends with a complaint.
"""

import socket
import sys

import h11


class Talk:
    """One server, one connection."""

    def __init__(self, address):
        host, port = address.split(":")
        self.host = host
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        self.machine = h11.Connection(h11.CLIENT)
        self.before = []

    def say(self, event):
        data = self.machine.send(event)
        if data:
            self.socket.sendall(data)

    def hear(self):
        while True:
            event = self.machine.next_event()
            if event is not h11.NEED_DATA:
                return event
            self.machine.receive_data(self.socket.recv(1 << 16))

    def ask(self, method, target, pieces=(), fields=()):
        fields = [("Host", self.host), *fields]
        self.say(h11.Request(method=method, target=target, headers=fields))
        waits = ("Expect", "100-continue") in fields
        if waits:
            event = self.hear()
            assert type(event) is h11.InformationalResponse, event
            assert event.status_code == 100, event
        for piece in pieces:
            self.say(h11.Data(data=piece))
        self.say(h11.EndOfMessage())
        head, body = None, []
        while True:
            event = self.hear()
            if type(event) is h11.Response:
                head = event
            elif type(event) is h11.Data:
                body.append(bytes(event.data))
            elif type(event) is h11.EndOfMessage:
                break
            else:
                sys.exit(f"{method} {target}: found {event}")
        if self.machine.our_state is h11.DONE and self.machine.their_state is h11.DONE:
            self.machine.start_next_cycle()
        return head.status_code, b"".join(body), dict(head.headers)

    def expect(self, wanted, *words, **more):
        status, body, _ = self.ask(*words, **more)
        if (status, body) != wanted:
            found = str((status, body))[:200]
            sys.exit(f"{words[:2]}: expected {str(wanted)[:200]}, found {found}")


def check(address, great):
    talk = Talk(address)
    chunked = ("Transfer-Encoding", "chunked")
    length = ("Content-Length", "5")
    waits = ("Expect", "100-continue")
    talk.expect((200, b"Hello, World!"), "GET", "/plaintext")
    talk.expect((200, great), "GET", "/great")
    talk.expect((200, b""), "HEAD", "/great")
    talk.expect((206, b"789"), "GET", "/a.txt", fields=[("Range", "bytes=-3")])
    pieces = [b"a", b"b" * 70_000, b"c"]
    talk.expect((200, b"".join(pieces)), "POST", "/", pieces, [chunked])
    talk.expect((200, b"".join(pieces)), "POST", "/", pieces, [chunked, waits])
    talk.expect((200, b"hello"), "POST", "/", [b"hello"], [length, waits])
    status, body, fields = talk.ask("GET", "/a.txt")
    assert (status, body) == (200, b"0123456789"), (status, body)
    known = [("If-None-Match", fields[b"etag"].decode())]
    talk.expect((304, b""), "GET", "/a.txt", fields=known)
    status, _, fields = talk.ask("GET", "/a.txt", fields=[("Range", "bytes=10-")])
    assert status == 416 and fields[b"content-range"] == b"bytes */10", fields
    talk.expect((204, b""), "OPTIONS", "*")
    # The last answer ends the connection, and says so before.
    status, _, fields = talk.ask("GET", "/plaintext", fields=[("Connection", "close")])
    assert status == 200 and fields[b"connection"].lower() == b"close", fields
    assert talk.machine.their_state is h11.MUST_CLOSE, talk.machine.states
    assert talk.socket.recv(1) == b""


def main():
    with open(sys.argv[1], "rb") as file:
        great = file.read()
    for word in sys.argv[2:]:
        name, address = word.split("=")
        check(address, great)
        print(f"{name}: good")


main()
