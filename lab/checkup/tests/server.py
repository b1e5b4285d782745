"""A sound little server of HTTP/1.1, an event loop. Words after the port plant a fault each; `big`,
`slow` and `late` (large replies, 50 ms of work, slow accepts) are none, and stand in twins too."""

import errno
import selectors
import signal
import socket
import sys
import threading
import time

port, faults = int(sys.argv[1]), set(sys.argv[2:])
HEAD_MAX = 1 << 30 if "no-head-limit" in faults else 16384
BODY = b"a" * (300_000 if "big" in faults else 20)
EMPTY = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
poll = selectors.DefaultSelector()
clients = {}
leaked = []
stopping = False
count = 0


def parse(client):
    """The next reply, whether the connection ends, or None for more bytes."""
    global count
    data = client["in"]
    while data.startswith(b"\r\n"):
        del data[:2]
    end = data.find(b"\r\n\r\n", client["seen"])
    if end < 0:
        client["seen"] = max(0, len(data) - 3)
        return (EMPTY, True) if len(data) > HEAD_MAX else None
    head, fields = bytes(data[:end]), {}
    lines = head.split(b"\r\n")
    words = lines[0].split(b" ")
    bad = len(words) != 3 or b"\0" in head
    for line in lines[1:]:
        name, _, value = line.partition(b":")
        name = name.lower()
        bad |= name != name.strip() or (name in fields and name in (b"host", b"content-length"))
        fields[name] = value.strip()
    length, coding = fields.get(b"content-length", b"0"), fields.get(b"transfer-encoding")
    bad |= b"host" not in fields and words[-1] == b"HTTP/1.1"
    bad |= not length.isdigit()
    if "both" not in faults:
        bad |= coding is not None and (b"content-length" in fields or words[-1] == b"HTTP/1.0")
    bad |= coding not in (None, b"chunked")
    if bad:
        return EMPTY, True
    need = end + 4 + (0 if coding else int(length))
    if coding:
        stop = data.find(b"0\r\n\r\n", end)
        if stop < 0 or (data[end + 4 : end + 5] != b"0" and b"\r\n" not in data[end + 4 :]):
            return None
        size = bytes(data[end + 4 : data.find(b"\r\n", end + 4)])
        if not size.isalnum() or size.startswith(b"0x") or len(size) > 8:
            return EMPTY, True
        need = stop + 5
    if len(data) < need:
        if fields.get(b"expect"):
            client["out"] += b"HTTP/1.1 100 Continue\r\n\r\n"
        if int(length) > 1 << 20:
            return EMPTY, True
        return None
    del data[:need]
    client["seen"] = 0
    count += 1
    if "sleeps" in faults and count % 200 == 0:
        time.sleep(0.05)
    close = fields.get(b"connection") == b"close" or words[-1] == b"HTTP/1.0" or stopping
    reply = b"HTTP/1.1 200 OK\r\nServer: sound\r\nDate: Fri, 27 Nov 2026 06:00:00 GMT\r\n"
    reply += b"Content-Length: %d\r\n" % len(BODY) + (b"Connection: close\r\n" if close else b"")
    return reply + b"\r\n" + (b"" if words[0] == b"HEAD" else BODY), close


def leave(sock, reset=False):
    poll.unregister(sock)
    clients.pop(sock)
    if reset and "leaks" in faults:
        leaked.append(sock)
    else:
        sock.close()


def work(sock, mask):
    client = clients[sock]
    try:
        if mask & selectors.EVENT_READ:
            part = sock.recv(65536)
            if not part:
                return leave(sock)
            client["in"] += part
        while not client["end"] and len(client["out"]) < 1 << 20:
            found = parse(client)
            if found is None:
                break
            if "slow" in faults:
                client["due"] = time.monotonic() + 0.05
            client["out"] += found[0]
            client["end"] = found[1]
        if client["due"] > time.monotonic():
            return
        if "two-writes" in faults and b"\r\n\r\n" in client["out"]:
            cut = client["out"].find(b"\r\n\r\n") + 4
            sock.send(client["out"][:cut])
            del client["out"][:cut]
        if client["out"]:
            del client["out"][: sock.send(client["out"][: 1 << 18])]
        if client["end"] and not client["out"]:
            sock.shutdown(socket.SHUT_WR)
            client["end"] = False
            client["in"] = bytearray()
            return leave(sock)
        events = selectors.EVENT_READ if len(client["out"]) < 1 << 20 else 0
        poll.modify(sock, events | (selectors.EVENT_WRITE if client["out"] else 0) or 1)
    except BlockingIOError:
        poll.modify(sock, selectors.EVENT_WRITE)
    except OSError:
        leave(sock, True)


def accept(listener):
    try:
        sock, _ = listener.accept()
    except OSError as error:
        if error.errno == errno.EMFILE and "spins" not in faults:
            poll.unregister(listener)
            return False
        return True
    sock.setblocking(False)
    if "two-writes" not in faults:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    clients[sock] = {"in": bytearray(), "out": bytearray(), "end": False, "seen": 0, "due": 0}
    poll.register(sock, selectors.EVENT_READ)
    return True


def stop(*_):
    global stopping
    stopping = True


def pool(listener):
    """Four threads that write without a limit."""
    while True:
        sock, _ = listener.accept()
        try:
            rest = b""
            while True:
                while b"\r\n\r\n" not in rest:
                    part = sock.recv(65536)
                    if not part:
                        raise OSError
                    rest += part
                rest = rest.partition(b"\r\n\r\n")[2]
                sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY)
        except OSError:
            sock.close()


listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", port))
listener.listen(1 if "backlog" in faults else 1024)
if "pool" in faults:
    for _ in range(4):
        threading.Thread(target=pool, args=(listener,), daemon=True).start()
    signal.pause()
if "dies" not in faults:
    signal.signal(signal.SIGTERM, stop)
listener.setblocking(False)
poll.register(listener, selectors.EVENT_READ)
accepts, grace = True, None
while True:
    for key, mask in poll.select(0.01):
        if key.fileobj is listener:
            if "late" in faults:
                time.sleep(0.005)
            accepts = accept(listener)
        elif key.fileobj in clients:
            work(key.fileobj, mask)
    if "slow" in faults:
        for sock in [it for it in clients if clients[it]["due"]]:
            if clients[sock]["due"] <= time.monotonic():
                clients[sock]["due"] = 0
                work(sock, 0)
    if stopping and grace is None:
        if accepts:
            poll.unregister(listener)
        accepts = False
        listener.close()
        grace = time.monotonic() + 2
    if stopping and (time.monotonic() > grace or not clients):
        sys.exit(0)
    if not accepts and not stopping and len(clients) < 7:
        poll.register(listener, selectors.EVENT_READ)
        accepts = True
