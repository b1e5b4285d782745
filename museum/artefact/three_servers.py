"""Three web servers of a networks course, with their flaws and without.

    python3 three_servers.py single  --port 8000                       # as it should be
    python3 three_servers.py process --port 8000 --backlog 5 --join --bare --keep --print
    python3 three_servers.py thread  --port 8000 --backlog 5 --join --bare --print

The report that this is about has a server that serves one connection after the other, one with a
process for each and one with a thread for each. Each flaw of its listings is a flag here, so that
one can be taken away at a time:

--join   wait for the worker right after starting it: one connection after the other again
--bare   a status line without the blank line after it and without a length: no valid reply
--keep   the parent keeps its copy of every connection, so that no peer ever sees its end
--print  print every connection and every request, inside the timed path
"""

import argparse
import multiprocessing
import os
import socket
import threading

REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nOK"
STATUS = b"HTTP/1.1 200 OK\r\n"
HEAD_MAX = 65536


def head_of(client):
    """Reads until the blank line after the head, or the end."""
    head = b""
    while b"\r\n\r\n" not in head and len(head) < HEAD_MAX:
        part = client.recv(4096)
        if not part:
            break
        head += part
    return head


def answer(client, flags):
    """Serves one connection and closes it."""
    with client:
        try:
            if flags.bare:
                request = client.recv(1024)
                if flags.print:
                    print("[client {}] {}".format(os.getpid(), request.decode()))
                client.send(STATUS)
                if flags.kind != "process":
                    client.send(request)
            else:
                request = head_of(client)
                if flags.print:
                    print("[client {}] {}".format(os.getpid(), request.decode()))
                if request:
                    client.sendall(REPLY)
        except OSError:
            pass  # The peer has gone.


def work(client, listener, flags):
    """A process's part: the listener is its parent's."""
    listener.close()
    answer(client, flags)


def serve(flags):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", flags.port))
    listener.listen(flags.backlog)
    # Newer versions start processes otherwise by default, and then no descriptor goes along.
    fork = multiprocessing.get_context("fork")
    kept = []
    while True:
        client, address = listener.accept()
        if flags.print:
            print("accept client from", address)
        if flags.kind == "single":
            answer(client, flags)
        elif flags.kind == "thread":
            worker = threading.Thread(target=answer, args=(client, flags), daemon=True)
            worker.start()
            if flags.join:
                worker.join()
        else:
            worker = fork.Process(target=work, args=(client, listener, flags))
            worker.start()
            if flags.keep:
                kept.append(client)
            else:
                client.close()
            if flags.join:
                worker.join()
            else:
                multiprocessing.active_children()  # Asks after those that have ended.


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=["single", "process", "thread"])
    parser.add_argument("-p", "--port", type=int, default=8000)
    parser.add_argument("--backlog", type=int, default=4096)
    for flaw in ["join", "bare", "keep", "print"]:
        parser.add_argument("--" + flaw, action="store_true")
    serve(parser.parse_args())


if __name__ == "__main__":
    main()
