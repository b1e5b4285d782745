#!/bin/sh
# Apache with its default settings and one of its MPMs: PORT MPM.
dir=$(mktemp -d); here=$(cd "$(dirname "$0")" && pwd); mods=/usr/lib/apache2/modules
cat > "$dir/conf" <<EOF
ServerName localhost
Listen 127.0.0.1:$1
PidFile $dir/pid
DefaultRuntimeDir $dir
ErrorLog /dev/stderr
LoadModule mpm_$2_module $mods/mod_mpm_$2.so
LoadModule authz_core_module $mods/mod_authz_core.so
LoadModule mime_module $mods/mod_mime.so
LoadModule dir_module $mods/mod_dir.so
LoadModule reqtimeout_module $mods/mod_reqtimeout.so
TypesConfig /etc/mime.types
User nobody
Group nogroup
DocumentRoot $here/www
EOF
exec apache2 -DFOREGROUND -f "$dir/conf"
