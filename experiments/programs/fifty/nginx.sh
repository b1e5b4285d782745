#!/bin/sh
# nginx on a port, with one more directive.
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
here=$(cd "$(dirname "$0")" && pwd)
sed "s|DIR|$dir|g; s|PORT|$1|g; s|WWW|$here/www|g; s|EXTRA|$2|" "$here/nginx.conf.in" > "$dir/conf"
exec nginx -c "$dir/conf" -e stderr
