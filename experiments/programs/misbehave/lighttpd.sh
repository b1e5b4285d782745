#!/bin/sh
dir=$(mktemp -d); here=$(cd "$(dirname "$0")" && pwd)
printf 'server.document-root = "%s/www"\nserver.port = %s\nserver.bind = "127.0.0.1"\nindex-file.names = ("index.html")\n' "$here" "$1" > "$dir/conf"
exec lighttpd -D -f "$dir/conf"
