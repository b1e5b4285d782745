#!/bin/sh
# Apache with its event processes on a port, with one more line of configuration.
dir=$(mktemp -d); here=$(cd "$(dirname "$0")" && pwd); mods=/usr/lib/apache2/modules
cat > "$dir/conf" <<EOF
ServerName localhost
Listen 127.0.0.1:$1
PidFile $dir/pid
DefaultRuntimeDir $dir
ErrorLog /dev/stderr
LoadModule mpm_event_module $mods/mod_mpm_event.so
LoadModule authz_core_module $mods/mod_authz_core.so
LoadModule filter_module $mods/mod_filter.so
LoadModule deflate_module $mods/mod_deflate.so
LoadModule mime_module $mods/mod_mime.so
LoadModule rewrite_module $mods/mod_rewrite.so
TypesConfig /etc/mime.types
User nobody
Group nogroup
MaxKeepAliveRequests 0
DocumentRoot $here/www
$2
EOF
exec apache2 -DFOREGROUND -f "$dir/conf"
