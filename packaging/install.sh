#!/bin/sh
# Installs the static binary: sh install.sh [FROM] [PREFIX]. FROM is the folder or the address that holds the
# release (default: where this script is), PREFIX where bin/ and share/ belong (default: ~/.local).
set -eu
from=${1:-$(dirname "$0")}
prefix=${2:-$HOME/.local}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fetch() {
    case $from in
    *://*) curl -fsSL "$from/$1" -o "$scratch/$1" ;;
    *) cp "$from/$1" "$scratch/$1" ;;
    esac
}

fetch SHA256SUMS
file=$(grep -o "roundhouse-.*-$(uname -m)-linux.tar.gz$" "$scratch/SHA256SUMS" | tail -n 1)
if [ -z "$file" ]; then
    echo "install.sh: expected a release for $(uname -m) in $from, found none" >&2
    exit 1
fi
fetch "$file"
(cd "$scratch" && grep "  $file$" SHA256SUMS | sha256sum --check --quiet -)
mkdir -p "$prefix"
prefix=$(cd "$prefix" && pwd)
tar -xf "$scratch/$file" --strip-components=1 -C "$prefix"
echo "installed $prefix/bin/roundhouse ($file)"
case :$PATH: in
*":$prefix/bin:"*) ;;
*) echo "add it to your path: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
