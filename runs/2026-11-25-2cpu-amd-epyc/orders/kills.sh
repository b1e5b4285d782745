#!/bin/bash
# kills.sh ENGINE PORT KILLS
cd /tmp/orders; e=$1; p=$2; d=k-$e; rm -rf $d; mkdir $d; cp b.txt $d/s.txt
go() { setsid ./rh serve stock --engine $e --port $p --data $d/s.txt --durability sync --log-keep 1000 --admin none > $d/out 2>> $d/err & P=$!; while ! grep -q listening $d/out 2>/dev/null; do kill -0 $P 2>/dev/null || { echo "$e: did not start"; tail -n 2 $d/err; exit 1; }; sleep .01; done; }
go
./rh check stock://127.0.0.1:$p --orders 800000 --clients 4 --patience 60s --save $d/rec > $d/check 2>&1 & J=$!
k=0; S=$SECONDS; while [ $k -lt $3 ] && kill -0 $J 2>/dev/null; do sleep 0.0$((RANDOM%9))$((RANDOM%9)); sleep .02; kill -9 -- -$P; wait $P 2>/dev/null; k=$((k+1)); go; done
wait $J; echo "$e: $k kills in $((SECONDS-S)) s, check rc $?: $(cat $d/check)"
kill $P; wait $P; ./rh log verify $d/s.txt.log | tail -n 1; ./rh check $d/rec --log $d/s.txt.log; echo "$e: rc $?"
