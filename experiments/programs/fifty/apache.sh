#!/bin/sh
# Apache on a port, with one of its MPMs and further lines of configuration: PORT MPM [LINE...].
port=$1 mpm=$2; shift 2
dir=$(mktemp -d); here=$(cd "$(dirname "$0")" && pwd); mods=/usr/lib/apache2/modules
cat > "$dir/conf" <<EOF
ServerName localhost
Listen 127.0.0.1:$port
PidFile $dir/pid
DefaultRuntimeDir $dir
ErrorLog /dev/stderr
LoadModule mpm_${mpm}_module $mods/mod_mpm_$mpm.so
LoadModule authz_core_module $mods/mod_authz_core.so
LoadModule filter_module $mods/mod_filter.so
LoadModule deflate_module $mods/mod_deflate.so
LoadModule mime_module $mods/mod_mime.so
LoadModule dir_module $mods/mod_dir.so
LoadModule reqtimeout_module $mods/mod_reqtimeout.so
LoadModule rewrite_module $mods/mod_rewrite.so
TypesConfig /etc/mime.types
User nobody
Group nogroup
DocumentRoot $here/www
$(printf '%s\n' "$@")
EOF
exec apache2 -DFOREGROUND -f "$dir/conf"
