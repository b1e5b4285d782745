"""A sound little server of HTTP/2 alone, without TLS, a thread a connection: each request gets 200.
Words after the port plant a fault each: a check that is left out. `grpc` is none: each request gets
the status of gRPC that a server gives for a method that it lacks."""

import socket
import sys
import threading

port, faults = int(sys.argv[1]), set(sys.argv[2:])
DATA, HEADERS, RESET, SETTINGS, PING, AWAY, WINDOW, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
PROTOCOL, FLOW_CONTROL, STREAM_CLOSED, FRAME_SIZE, CALM = 1, 3, 5, 6, 11
LONGEST = 16384
BODY = b"a" * 20
UNKNOWN = b"\x88\0\x0ccontent-type\x10application/grpc\0\x0bgrpc-status\x0212"


class Wrong(Exception):
    """An error of the connection, with its code."""


def need(fault, holds, code):
    if not holds and fault not in faults:
        raise Wrong(code)


def frame(kind, flags, stream, payload=b""):
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags])
    return head + stream.to_bytes(4, "big") + payload


def frames(sock):
    """The frames of a client, after its preface."""
    data = sock.makefile("rb")
    if data.read(24) != b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":
        raise Wrong(PROTOCOL)
    while len(head := data.read(9)) == 9:
        size = int.from_bytes(head[:3], "big")
        need("long-frame", size <= LONGEST, FRAME_SIZE)
        yield head[3], head[4], int.from_bytes(head[5:], "big"), data.read(size)


def talk(sock):
    last, resets, window, head, open_streams = 0, 0, 65535, None, set()
    sock.sendall(frame(SETTINGS, 0, 0))
    for kind, flags, stream, payload in frames(sock):
        need("interrupted", (head is None) == (kind != CONTINUATION), PROTOCOL)
        is_whole = False
        if kind == SETTINGS and not flags & 1:
            need("settings-length", len(payload) % 6 == 0, FRAME_SIZE)
            need("settings-on-stream", stream == 0, PROTOCOL)
            for at in range(0, len(payload) - 5, 6):
                value = int.from_bytes(payload[at + 2 : at + 6], "big")
                need("wide", payload[at + 1] != 4 or value < 1 << 31, FLOW_CONTROL)
            sock.sendall(frame(SETTINGS, 1, 0))
        elif kind == PING and not flags & 1:
            sock.sendall(frame(PING, 1, 0, payload))
        elif kind == WINDOW:
            step = int.from_bytes(payload, "big")
            need("nothing", step > 0, PROTOCOL)
            window += step if stream == 0 else 0
            need("overflow", window < 1 << 31, FLOW_CONTROL)
        elif kind == RESET:
            need("idle", stream <= last, PROTOCOL)
            resets += 1
            need("resets", resets < 200, CALM)
        elif kind == HEADERS:
            need("back", stream > last, PROTOCOL)
            last, head, is_last = stream, bytearray(payload), flags & 1
        elif kind == CONTINUATION and head is not None:
            if "drops" not in faults or len(head) < LONGEST:
                head += payload
            need("keeps", len(head) < LONGEST or "drops" in faults, CALM)
        elif kind == DATA:
            need("closed", stream in open_streams, STREAM_CLOSED)
            is_whole = flags & 1 and stream in open_streams
        if kind in (HEADERS, CONTINUATION) and flags & 4 and head is not None:
            head, is_whole = None, is_last
            open_streams.add(stream)
        if is_whole:
            open_streams.remove(stream)
            window -= len(BODY)
            reply = frame(HEADERS, 4, stream, b"\x88") + frame(DATA, 1, stream, BODY)
            sock.sendall(frame(HEADERS, 5, stream, UNKNOWN) if "grpc" in faults else reply)


def serve(sock):
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        talk(sock)
    except Wrong as wrong:
        sock.sendall(frame(AWAY, 0, 0, bytes(4) + wrong.args[0].to_bytes(4, "big")))
    sock.close()


listener = socket.create_server(("127.0.0.1", port), backlog=1024)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
