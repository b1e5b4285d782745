#!/bin/sh
# haproxy that answers by itself, with further lines before the answer.
dir=$(mktemp -d)
{ echo "global
  nbthread 1
defaults
  mode http
  timeout client 30s
  timeout connect 3s
  timeout server 30s
frontend f
  bind 127.0.0.1:$1"
  case "$2" in
    regex) for at in $(seq 40); do echo "  http-request set-var(txn.v$at) path,sha2(256),hex,sha2(256),hex"; done;;
    fail) echo "  http-request return status 503 if { rand(100) lt 2 }";;
  esac
  echo "  http-request return status 200 content-type text/plain string hello"
} > "$dir/conf"
exec haproxy -db -f "$dir/conf"
