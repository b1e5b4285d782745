#!/bin/bash
# chaos.sh SECONDS: three members, three nodes, two clients with receipts to different nodes
cd /tmp/orders; : > events; S=$1; D=/tmp/orders/etcd; rm -rf $D; mkdir -p $D
E=etcd://127.0.0.1:23790,127.0.0.1:23791,127.0.0.1:23792/market
member() { setsid etcd --name m$1 --data-dir $D/m$1 --log-level error --listen-client-urls http://127.0.0.1:2379$1 --advertise-client-urls http://127.0.0.1:2379$1 --listen-peer-urls http://127.0.0.1:2380$1 --initial-advertise-peer-urls http://127.0.0.1:2380$1 --initial-cluster m0=http://127.0.0.1:23800,m1=http://127.0.0.1:23801,m2=http://127.0.0.1:23802 --initial-cluster-state new > $D/m$1.log 2>&1 & M[$1]=$!; }
K=(epoll prefork uring)
node() { setsid ./rh serve stock --engine ${K[$1]} --data b.txt$1 --log-keep 100 --port 610$1 --replicate $E >> n$1.out 2>> n$1.err & N[$1]=$!; }
for i in 0 1 2; do member $i; cp b.txt b.txt$i; rm -f n$i.*; done; sleep 3
X=$E; E=${E%market}speed; for i in 0 1 2; do setsid ./rh serve stock --engine ${K[$i]} --data b.txt$i --port 611$i --admin 127.0.0.1:993$i --replicate $E > x$i.out 2>x$i.err & Y[$i]=$!; done; sleep 2
g() { curl -s http://127.0.0.1:9930/metrics | awk '/^roundhouse_orders_logged_total|^roundhouse_cluster_batch_total|^roundhouse_cluster_batch /{printf "%s ",$2}'; }
a=$(g); for i in 0 1 2; do ./rh load stock://127.0.0.1:611$i --closed 64 --depth 16 --for 6s --json > sl$i.json 2>/dev/null & Z[$i]=$!; done; sleep 1; t0=$(date +%s.%N); a=$(g); sleep 5; b=$(g); t1=$(date +%s.%N); wait ${Z[@]}; echo "speed: $a / $b / $t0 $t1"
for i in 0 1 2; do python3 -c "import json;l=json.load(open('sl$i.json'));print('node $i',round(l['throughput_rps']),'req/s p50',l['service']['p50_ns']/1e6,'p99',l['service']['p99_ns']/1e6,'ms')"; kill -9 -- -${Y[$i]}; done; E=$X
for i in 0 1 2; do node $i; done; sleep 2
A=127.0.0.1:6100; B=127.0.0.1:6101; C=127.0.0.1:6102
( ./rh check stock://$A,$B,$C --orders $3 --clients 12 --depth 8 --patience 60s --save rec > check.out 2>&1; echo "check rc $? at $SECONDS s" >> check.out ) & J=$!
k=0
while kill -0 $J 2>/dev/null && [ $SECONDS -lt $2 ]; do i=$((k/4%3))
 case $((k%4)) in
 0) echo "$(date +%s.%N) kill node $i" >> events; kill -9 -- -${N[$i]}; sleep .5; node $i;;
 1) echo "$(date +%s.%N) kill member $i" >> events; kill -9 ${M[$i]}; sleep 1; member $i;;
 2) echo "$(date +%s.%N) stop node $i" >> events; kill -STOP -- -${N[$i]}; sleep 1; kill -CONT -- -${N[$i]};;
 3) echo "$(date +%s.%N) stop member $i" >> events; kill -STOP ${M[$i]}; sleep 2; kill -CONT ${M[$i]};;
 esac; k=$((k+1)); sleep 2.5; done
echo faults $k seconds $SECONDS; wait $J; tail -n 3 check.out
sleep 2
for i in 0 1 2; do printf 'show\nexit\n' | timeout 8 nc -q2 127.0.0.1 610$i | md5sum; done
./rh log verify $E | tail -n 2
./rh check rec --log $E; echo "check rc $?"
for i in 0 1 2; do kill ${N[$i]}; done; sleep 1; for i in 0 1 2; do kill -9 ${M[$i]} -- -${N[$i]} 2>/dev/null; done
