#!/bin/sh
# redis on a port, with N thousand entries that it makes before it is ready.
dir=$(mktemp -d); cd "$dir"
redis-server --port "$1" --save "" --enable-debug-command yes --unixsocket "$dir/socket" > /dev/null &
child=$!
trap 'kill $child; wait $child; rm -rf "$dir"; exit 0' TERM INT
until redis-cli -s "$dir/socket" ping > /dev/null 2>&1; do sleep .05; done
[ "$2" = 0 ] || redis-cli -s "$dir/socket" debug populate "$2"000 > /dev/null
wait $child
