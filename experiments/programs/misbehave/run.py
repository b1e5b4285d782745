#!/usr/bin/env python3
"""Check-ups of servers with their default settings, and their faults of HTTP seen by hand.

    python3 run.py ROUNDHOUSE [NAME…]   checks each up for a minute; writes NAME.json and NAME.html
    python3 run.py --by-hand [NAME…]    sends each server the requests of a fault and prints its replies

Needs nginx, apache2, lighttpd, haproxy, redis, go, node, javac, and gunicorn and uvicorn of Python.
"""
import glob, os, shutil, signal, socket, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = '/usr/bin/python3'
GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
SERVERS = {
    'nginx': 'sh nginx.sh {port} ""', 'apache-prefork': 'sh apache.sh {port} prefork', 'apache-worker': 'sh apache.sh {port} worker',
    'apache-event': 'sh apache.sh {port} event', 'lighttpd': 'sh lighttpd.sh {port}', 'haproxy': 'sh haproxy.sh {port} none',
    'go': './server {port} http', 'node': 'node server.js {port}', 'python': 'python3 -m http.server {port} --bind 127.0.0.1 -d www',
    'gunicorn': 'gunicorn -w 2 -b 127.0.0.1:{port} app:app', 'uvicorn': PYTHON + ' -m uvicorn --port {port} app:asgi --no-access-log',
    'java': 'java -cp . Server {port}', 'redis': 'redis-server --port {port} --save ""',
    'roundhouse': 'ROUNDHOUSE serve http www --port {port} --engine epoll',
}
BY_HAND = {
    'no-host': 'GET / HTTP/1.1\r\n\r\n',
    'two-hosts': 'GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n',
    'blank-before-colon': 'GET / HTTP/1.1\r\nHost: a\r\nX-A : b\r\n\r\n',
    'absolute-form': 'GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n',
    'nul-in-field': 'GET / HTTP/1.1\r\nHost: a\r\nX-A: b\0c\r\n\r\n',
    'empty-line-first': '\r\n' + GET,
    'length-with-sign': 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc',
    'chunked-and-length': 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n' + GET,
    'chunked-in-1.0': 'POST / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n' + GET,
    'chunk-size-overflow': 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc\r\n0\r\n\r\n',
    'chunked-not-last': 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n',
    'head': 'HEAD / HTTP/1.1\r\nHost: a\r\n\r\n',
    'date': GET,
}


def prepare():
    """Builds the servers in a temporary folder."""
    folder = tempfile.mkdtemp()
    for path in glob.glob(HERE + '/../fifty/*') + glob.glob(HERE + '/*'):
        if os.path.isfile(path):
            shutil.copy(path, folder)
    os.mkdir(folder + '/www')
    os.chmod(folder, 0o755)
    with open(folder + '/www/index.html', 'w') as file:
        file.write('hello\n')
    for line in ('go build -o server server.go', 'javac Server.java'):
        subprocess.run(line.split(), cwd=folder, check=True)
    return folder


def replies(port, request):
    """The status lines of the replies, the bytes after the first head, and whether the server closed."""
    with socket.create_connection(('127.0.0.1', port)) as client:
        client.settimeout(1.2)
        client.sendall(request.encode('latin1'))
        got, end = b'', 'stays open'
        try:
            while data := client.recv(65536):
                got += data
            end = 'closed'
        except TimeoutError:
            pass
        except OSError as error:
            end = str(error)
    lines = [line.decode('latin1') for line in got.split(b'\r\n') if b'HTTP/1.' in line]
    date = 'Date' if b'\r\ndate:' in got.lower() else 'no Date'
    body = got.partition(b'\r\n\r\n')[2]
    return lines, f'{len(body)} bytes of body, {date}', end


def by_hand(names, folder):
    for at, name in enumerate(names):
        port = 20500 + at
        server = subprocess.Popen(SERVERS[name].replace('{port}', str(port)), shell=True, cwd=folder, start_new_session=True,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(100):
            try:
                socket.create_connection(('127.0.0.1', port)).close()
                break
            except OSError:
                time.sleep(0.1)
        for case, request in BY_HAND.items():
            print(name, case, *replies(port, request), flush=True)
        os.killpg(server.pid, signal.SIGTERM)
        server.wait()


def main():
    names = [name for name in SERVERS if name in sys.argv[2:] or not sys.argv[2:]]
    folder = prepare()
    if sys.argv[1] == '--by-hand':
        by_hand([name for name in names if name not in ('redis', 'roundhouse')], folder)
    else:
        roundhouse = os.path.abspath(sys.argv[1])
        for name in names:
            command = SERVERS[name].replace('ROUNDHOUSE', roundhouse)
            with open(name + '.json', 'w') as out:
                page = os.path.abspath(name + '.html')
                subprocess.run([roundhouse, 'checkup', command, '--quick', '--json', '--boot', '30s', '--page', page], stdout=out, cwd=folder)
    shutil.rmtree(folder)


main()
