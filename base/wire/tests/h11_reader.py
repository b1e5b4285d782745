"""h11 as a server reads requests: a line of hexadecimal digits in, a line about it out.

`bad`; `more`, while the request is not whole; or `good METHOD TARGET VERSION BODY LEFT NAME=VALUE...`
with everything in hexadecimal digits (LEFT is the number of bytes behind the request).
"""

import sys

import h11


def digits(data):
    return bytes(data).hex() or "-"


def read(data):
    machine = h11.Connection(h11.SERVER)
    request, body = None, b""
    try:
        machine.receive_data(data)
        while True:
            event = machine.next_event()
            if type(event) is h11.Request:
                request = event
            elif type(event) is h11.Data:
                body += bytes(event.data)
            elif type(event) is h11.EndOfMessage:
                break
            else:
                return "more"
    except h11.RemoteProtocolError:
        return "bad"
    left = len(machine.trailing_data[0])
    words = [request.method, request.target, request.http_version, body]
    fields = [f"{digits(name)}={digits(value)}" for name, value in request.headers]
    return " ".join(["good", *map(digits, words), str(left), *fields])


for line in sys.stdin:
    print(read(bytes.fromhex(line.strip())), flush=False)
