import http.client, sys
host, port = sys.argv[1].split(":")
c = http.client.HTTPConnection(host, int(port), timeout=20)
def ask(method, path, body=None, headers={}):
    c.request(method, path, body=body, headers=headers, encode_chunked=True)
    r = c.getresponse()
    return r.status, r.read()
chunked = {"Transfer-Encoding": "chunked"}
assert ask("POST", "/", iter([b"ab", b"c" * 70000]), chunked) == (200, b"ab" + b"c" * 70000)
assert ask("POST", "/", b"x" * 1000000)[1] == b"x" * 1000000
assert ask("GET", "/a.txt", headers={"Range": "bytes=2-3"}) == (206, b"23")
assert ask("HEAD", "/a.txt") == (200, b"")
assert ask("GET", "/none")[0] == 404
try:
    assert ask("POST", "/", b"x" * 1048577)[0] == 413
except (BrokenPipeError, ConnectionResetError):
    pass  # it was still sending when it was told
