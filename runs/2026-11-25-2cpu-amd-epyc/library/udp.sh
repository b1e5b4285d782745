for round in 1 2 3; do for train in 1 32; do for arm in c epoll uring; do
  case $arm in c) taskset -c 0 bare/build/udp-echo 7901 & ;;
    *) taskset -c 0 target/release/examples/udp-echo --engine $arm $( [ $arm = uring ] && echo --workers 1 ) --port 7901 >/dev/null & ;; esac
  pid=$!; sleep 0.5
  echo "round $round train $train $arm: $(taskset -c 1 target/release/examples/udp-blast 127.0.0.1:7901 $pid 16 32 64 $train 3)"
  kill $pid; wait $pid 2>/dev/null
done; done; done
