cd /tmp/orders
m() { curl -s http://127.0.0.1:9920/metrics | awk '/^roundhouse_(orders_logged|log_batches)_total|^process_cpu_seconds_total/{printf "%s ",$2}'; }
ours() { mode=$1; depth=$2; rm -rf s.txt*; cp b.txt s.txt
 ./rh serve stock --engine epoll --port 6200 --data s.txt --durability $mode --admin 127.0.0.1:9920 >s.out 2>s.err & P=$!; sleep 0.7; t0=$(date +%s.%N); a=$(m)
 ./rh load stock://127.0.0.1:6200 --closed 64 --depth $depth --for 4s --json > l.json; b=$(m); t1=$(date +%s.%N); kill $P; wait $P
 python3 - "$a" "$b" $mode $depth $t0 $t1 <<'P'
import sys,json
a=[float(x) for x in sys.argv[1].split()];b=[float(x) for x in sys.argv[2].split()]
T=float(sys.argv[6])-float(sys.argv[5]);l=json.load(open('l.json'));r=l['requests_total']
d=dict(l['service']); 
if len(a)==3: o,ba=sorted([b[0]-a[0],b[1]-a[1]],reverse=True); print(f"roundhouse {sys.argv[3]} depth {sys.argv[4]}: {l['throughput_rps']:.0f} req/s, orders {o/T:.0f}/s, batches {ba/T:.0f}/s, p99 {d['p99_ns']/1e6:.2f} ms, CPU/req {(b[2]-a[2])/r*1e6:.2f} us")
else: print(f"roundhouse {sys.argv[3]} depth {sys.argv[4]}: {l['throughput_rps']:.0f} req/s, p99 {d['p99_ns']/1e6:.2f} ms, CPU/req {(b[-1]-a[-1])/r*1e6:.2f} us")
P
}
redis() { rm -rf rd; mkdir rd; redis-server --port 6390 --dir /tmp/orders/rd --appendonly yes --appendfsync always --save '' >/dev/null & R=$!; sleep 0.5
 echo "redis always, 64 conns, depth ${P16:-1}: $(redis-benchmark -p 6390 -c 64 -P ${P16:-1} -n ${1:-60000} -t set -q --csv | tail -n 1)"; kill $R; wait $R 2>/dev/null; }
pg() { echo "postgres: $(su postgres -c "/usr/lib/postgresql/*/bin/pgbench -h /tmp -p 5499 -n -c 64 -j 2 -T 4 -f /tmp/orders/u.sql postgres" | grep -E 'tps|latency average' | tr '\n' ' ')"; }
for round in $(seq ${1:-2}); do echo "round $round"; python3 sync.py 4096; redis; ours sync 1; pg; ours none 1; ours os 1; ours sync 16; P16=16 redis 300000; done
python3 sync.py 4096
