#!/usr/bin/env python3
"""Fifty comparisons of servers that others wrote, each with what is true of it.

    python3 run.py ROUNDHOUSE ['KIND, DIFFERENCE'…]   plays them; each becomes a line of fifty.jsonl
    python3 run.py                                    judges fifty.jsonl and prints the table

Needs go, node, java and javac, nginx, apache2, redis, haproxy and openssl. Takes 12 minutes. The
programs are built and served in a temporary folder.
"""
import collections, glob, json, os, re, shutil, subprocess, sys, tempfile, time

SOURCES = os.path.dirname(os.path.abspath(__file__))
HERE = None
TWIN = {}
COST, SLOW, HOLD = {'cpu': 'worse'}, {'p50': 'worse'}, {'memory': 'worse'}
BROKEN, DEAD, MUTE = {'text': 'were 50[03]'}, {'text': 'out of cheese'}, {'text': 'never|no reply|came back'}
RAISED = {'text': 'out of cheese|500'}


def plan():
    """Rows: kind, difference, old, new, further words, truth."""
    rows = []
    programs = {
        'Go': ('./server {port} http', []),
        'Go, TLS': ('./server {port} tls', []),
        'lines (Go)': ('./server {port} line', ['line://{address}', '--request', 'ping']),
        'Node': ('node server.js {port}', []),
        'Python': ('python3 server.py {port}', []),
        'JVM': ('java -Dsun.net.httpserver.nodelay=true -cp . Server {port}', []),
    }
    for kind, (command, more) in programs.items():
        rows += [(kind, 'none', command + ' work=20', command + ' work=20', more, TWIN),
                 (kind, 'none, again', command + ' work=100', command + ' work=100', more + ['--seed', '7'], TWIN),
                 (kind, 'three times the work', command + ' work=100', command + ' work=300', more, COST),
                 (kind, '4 ms of sleep for 1', command + ' sleep=1', command + ' sleep=4', more, SLOW)]
        if kind == 'lines (Go)':
            more = more + ['--load', '--expect-prefix pong']
            rows.append((kind, '2 % wrong replies', command + ' work=20', command + ' work=20 fail=2', more, {'text': 'error|wrong|expect'}))
        else:
            rows.append((kind, '2 % answered 500', command + ' work=20', command + ' work=20 fail=2', more, BROKEN))
    nginx = 'sh nginx.sh {port} '
    broken = "if ($broken) { return 503; }"
    rows += [('nginx', 'none', nginx + '""', nginx + '""', ['/page.txt'], TWIN),
             ('nginx', 'none, again', nginx + '""', nginx + '""', ['/page.txt', '--seed', '7'], TWIN),
             ('nginx', 'gzip', nginx + '""', nginx + '"gzip on; gzip_types text/plain; gzip_comp_level 6;"',
              ['/page.txt', '--load', "-H 'Accept-Encoding: gzip'"], COST),
             ('nginx', '2 % answered 503', nginx + '""', nginx + f'"{broken}"', ['/page.txt'], BROKEN)]
    apache = 'sh apache.sh {port} event "MaxKeepAliveRequests 0" '
    rows += [('Apache', 'none', apache + '""', apache + '""', ['/page.txt'], TWIN),
             ('Apache', 'none, again', apache + '""', apache + '""', ['/page.txt', '--seed', '7'], TWIN),
             ('Apache', 'deflate', apache + '""', apache + '"SetOutputFilter DEFLATE"',
              ['/page.txt', '--load', "-H 'Accept-Encoding: gzip'"], COST)]
    redis = 'sh redis.sh {port} '
    rows += [('redis', 'none', redis + '0', redis + '0', [], TWIN),
             ('redis', 'none, with entries', redis + '100', redis + '100', ['--seed', '7'], TWIN),
             ('redis', '600,000 entries for none', redis + '0', redis + '600', [], HOLD)]
    haproxy = 'sh haproxy.sh {port} '
    rows += [('haproxy', 'none', haproxy + 'none', haproxy + 'none', [], TWIN),
             ('haproxy', '40 rules with expressions', haproxy + 'none', haproxy + 'regex', [], COST),
             ('haproxy', '2 % answered 503', haproxy + 'none', haproxy + 'fail', [], BROKEN)]
    slow = 'sh slow.sh {port} '
    rows += [('slow start', 'none, 3 s', slow + '3 work=20', slow + '3 work=20', [], TWIN),
             ('slow start', '3 s for none, three times the work', slow + '0 work=100', slow + '3 work=300', [], COST),
             ('slow start', 'beyond --boot', slow + '0 work=20', slow + '9 work=20', ['--boot', '2s'], {'text': r'--boot'})]
    for kind, truth in (('Go', DEAD), ('Node', DEAD), ('JVM', DEAD)):
        command = programs[kind][0]
        rows.append(('crasher', f'{kind} dies at reply 400', command + ' work=20', command + ' work=20 crash=400', [], truth))
    rows.append(('crasher', 'Python hangs after 400', programs['Python'][0] + ' work=20', programs['Python'][0] + ' work=20 hang=400', [], MUTE))
    return rows


def prepare():
    """Builds the programs in a temporary folder."""
    folder = tempfile.mkdtemp()
    for path in glob.glob(SOURCES + '/*'):
        shutil.copy(path, folder)
    os.mkdir(folder + '/www')
    os.chmod(folder, 0o755)
    with open(folder + '/www/page.txt', 'w') as file:
        file.write(os.urandom(20000).hex())
    certificate = 'openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 30 -subj /CN=localhost'
    for line in ('go build -o server server.go', 'javac Server.java', certificate):
        subprocess.run(line.split(), cwd=folder, check=True, stderr=subprocess.DEVNULL)
    return folder


def play(roundhouse, row):
    kind, difference, old, new, more, truth = row
    folder = tempfile.mkdtemp()
    url = [word for word in more[:1] if not word.startswith('--')]
    words = ['ab', old, new, *url, *more[len(url):], '--budget', '12s', '--out', folder, '--old-dir', HERE, '--new-dir', HERE]
    begin = time.time()
    run = subprocess.run([roundhouse, *words], capture_output=True, text=True, cwd=HERE, env={**os.environ, 'COLUMNS': '80'})
    seconds = time.time() - begin
    words = [word for word in words if word not in ('--out', folder, '--old-dir', '--new-dir', HERE)]
    result = {'kind': kind, 'difference': difference, 'truth': truth, 'command': words, 'exit': run.returncode,
              'seconds': round(seconds, 1), 'stdout': run.stdout, 'stderr': run.stderr[-1500:], 'judged': {}}
    data = folder + '/report.jsonl'
    if os.path.exists(data):
        again = subprocess.run([roundhouse, 'report', data, '--json', folder + '/c.json', '--junit', folder + '/j.xml'],
                               capture_output=True, text=True, cwd=folder)
        result['again'] = again.stdout.split('\n\n')[0]
        if os.path.exists(folder + '/c.json'):
            summary = json.load(open(folder + '/c.json'))['summary']
            result['sentence'] = summary['sentence']
            for point in summary['points']:
                for arm in point['arms']:
                    if arm['arm'] == 'new':
                        for judged in arm['judged']:
                            interval = judged['comparison']['interval'] or {}
                            result['judged'][judged['metric']] = [judged['decision'], judged['comparison']['ratio'],
                                                                 interval.get('low'), interval.get('high')]
    subprocess.run(['rm', '-rf', folder])
    return result


NAMES = {'cpu': r'CPU (time )?per request', 'p50': 'median latency', 'throughput': r'requests(/s| per second)', 'memory': r'memory(?! of)'}


def judge(result):
    """Faults of one comparison."""
    faults = []
    text = ' '.join(result['stdout'].split('\n\n')[0].split())
    if 'text' not in result['truth'] and 'rong answers' in text:
        faults.append('right answers called wrong')
    for metric, (decision, ratio, low, high) in result['judged'].items():
        if metric in ('max', 'mean', 'p999'):
            continue  # not shown
        if decision in ('better', 'worse') and low is not None and low <= 1 <= high:
            faults.append(f'{metric}: a winner whose interval holds 1')
        if not result['truth'] and decision in ('better', 'worse'):
            faults.append(f'false winner: {metric} {ratio:.2f} [{low:.2f}, {high:.2f}]')
        for clause in re.split(r';|\. ', text):
            if metric in NAMES and re.search(NAMES[metric], clause):
                said = {word for word, pattern in (('equivalent', r'equal'), ('unresolved', 'unresolved'), ('different', r'% \[|times \[|x \[')) if re.search(pattern, clause)}
                wanted = 'different' if decision in ('better', 'worse') else decision
                if said and wanted not in said:
                    faults.append(f'sentence says {said} of {metric}, which is {decision}')
    if result.get('again') is not None and ' '.join(result['again'].split()) != text:
        faults.append('report says otherwise')
    for key, value in result['truth'].items():
        if key == 'text':
            if not re.search(value, result['stdout'] + result['stderr']):
                faults.append(f'missed: nothing says {value}')
        elif result['judged'].get(key, ['absent'])[0] != value:
            faults.append(f"missed: {key} is {result['judged'].get(key)}")
    return faults


def main():
    global HERE
    names = sys.argv[2:]
    if len(sys.argv) > 1:
        HERE = prepare()
        rows = [row for row in plan() if not names or row[0] + ', ' + row[1] in names]
        for number, row in enumerate(rows):
            result = play(os.path.abspath(sys.argv[1]), row)
            with open('fifty.jsonl', 'a') as file:
                file.write(json.dumps(result) + '\n')
            print(f"{number + 1} of {len(rows)}: {row[0]}, {row[1]}: {result['seconds']} s: {judge(result) or 'right'}", flush=True)
        shutil.rmtree(HERE)
    results = [json.loads(line) for line in open('fifty.jsonl')]
    print('| kind | difference | answer | s | judged |\n|---|---|---|---|---|')
    tally = collections.Counter()
    for result in results:
        faults = judge(result)
        tally['right' if not faults else 'wrong'] += 1
        answer = ' '.join(result['stdout'].split('\n\n')[0].split()) or result['stderr'].strip().split('\n')[-1]
        print(f"| {result['kind']} | {result['difference']} | {answer} | {result['seconds']:.0f} | {'; '.join(faults) or 'right'} |")
    print(dict(tally), len(plan()))


if __name__=='__main__':
    main()
