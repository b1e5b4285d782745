set -eu
R=target/release/examples/kv; N=${N:-2000000}
all() { s=0; for t in /proc/$1/task/*/schedstat; do s=$((s+$(awk '{print $1}' $t))); done; echo $s; }
for block in 1 2 3 4; do for P in ${DEPTHS:-16 64}; do for op in set get; do
 line="block $block -P $P $op:"
 for arm in redis epoll uring; do
  case $arm in
   redis) taskset -c 0 redis-server --port 7900 --save '' --appendonly no >/dev/null & ;;
   *) taskset -c 0 $R --engine $arm $( [ $arm = uring ] && echo --workers 1 ) --port 7900 >/dev/null & ;;
  esac
  pid=$!; sleep 0.7
  taskset -c 1 redis-benchmark -p 7900 -t $op -d 16 -r 10000 -c 50 -P $P -n 200000 -q >/dev/null
  a=$(all $pid)
  taskset -c 1 redis-benchmark -p 7900 -t $op -d 16 -r 10000 -c 50 -P $P -n $N -q >/dev/null
  b=$(all $pid); kill $pid; wait $pid 2>/dev/null || true
  line="$line $arm $(( (b-a)/N )) ns"
 done; echo "$line"; done; done; done
