# tls.sh DIR COMMAND…: makes a certificate in the folder, then becomes the command.
set -eu
dir=$1; shift
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=localhost \
    -keyout "$dir/key.pem" -out "$dir/cert.pem" 2>"$dir/openssl.log"
# As root h2o would become `nobody`, who cannot read the folder.
if [ -e "$dir/h2o.conf" ] && [ "$(id -u)" = 0 ]; then echo 'user: root' >>"$dir/h2o.conf"; fi
exec "$@"
