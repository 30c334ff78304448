#!/bin/sh
# Install what does not come from PyPI: Icarus Verilog, a C++ compiler, Java 17 or later.
set -eu

packages=""
need() { # need COMMAND PACKAGE
    command -v "$1" >/dev/null 2>&1 || packages="$packages $2"
}
need iverilog iverilog
need g++ g++
need make make
# Debian keeps venv apart from Python.
python3 -c 'import ensurepip' 2>/dev/null || packages="$packages python3-venv"
java_major=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
[ "${java_major:-0}" -ge 17 ] || packages="$packages openjdk-17-jre-headless"

[ -n "$packages" ] || exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "Missing:$packages. Install with: sudo apt-get install$packages" >&2
    exit 1
fi
apt-get update -qq
# shellcheck disable=SC2086 # a list of packages
DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $packages
