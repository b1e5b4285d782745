# apache.sh PORT DIR MODULE ROUNDHOUSE: becomes Apache, after it has found how many rounds of work.lua
# take a millisecond on this machine, and says `calibrated`.
#
# The CPU time of a request has a fixed part, which the slope between a short and a long computation
# removes.
port=$1 dir=$2 module=$3 roundhouse=$4

# The CPU time of Apache for a request of $1 rounds, nanoseconds. This shell becomes Apache, so its
# number is $$.
took() {
  "$roundhouse" load "http://127.0.0.1:$port/work?rounds=$1" -c 1 -n 25 --warmup 0s --watch $$ --json |
    sed -n 's/.*"cpu_ns_per_request":\([0-9]*\).*/\1/p'
}

calibrate() {
  until "$roundhouse" load "http://127.0.0.1:$port/plaintext" -c 1 -n 1 --warmup 0s --json; do
    sleep 0.05
  done >/dev/null 2>&1
  short=$(took 50000) long=$(took 1050000)
  if [ "${long:-0}" -le "${short:-0}" ]; then
    echo "expected 1050000 rounds to take longer than 50000, found $long and $short ns" >&2
    return
  fi
  echo $((1000000 * 1000000 / (long - short))) >"$dir/rounds"
  echo calibrated
}

# A child of init and not of Apache, so that its CPU time is not Apache's.
(calibrate &)
exec /usr/sbin/apache2 -C "LoadModule mpm_${module}_module /usr/lib/apache2/modules/mod_mpm_$module.so" \
  -d "$dir" -f "$dir/httpd.conf" -D FOREGROUND
