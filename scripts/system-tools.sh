#!/bin/sh
# Install what does not come from PyPI: Icarus Verilog, a C++ compiler, Java 17 or later.
# Run as: system-tools.sh [PYTHON], with the Python that the environment is made of.
set -eu

python=${1:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "Joinery needs Python 3.11 or later as $python; name one: make PYTHON=python3.12" >&2
    exit 1
fi

packages=""
need() { # need PACKAGE COMMAND...: the package, unless the command works
    package=$1
    shift
    "$@" >/dev/null 2>&1 || packages="$packages $package"
}
java_is_new() {
    major=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    [ "${major:-0}" -ge 17 ]
}
need iverilog command -v iverilog
need g++ command -v g++
need make command -v make
need perl perl -MFindBin -MPod::Usage -e 1 # Verilator starts through it
need openjdk-17-jre-headless java_is_new
# Debian keeps venv apart from Python.
need python3-venv "$python" -c 'import ensurepip, venv'

[ -n "$packages" ] || exit 0
if [ "$(id -u)" -eq 0 ]; then
    root="env"
elif sudo -n true 2>/dev/null; then
    root="sudo"
else
    root=""
fi
how="Install with: sudo apt-get install$packages"
if [ -z "$root" ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "Missing:$packages. $how" >&2
    exit 1
fi
echo "Installing$packages" >&2
# shellcheck disable=SC2086 # a list of packages
if ! { $root apt-get update -qq && $root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -qq -y --no-install-recommends $packages >/dev/null; }; then
    echo "Missing:$packages, and apt-get could not install them. $how" >&2
    exit 1
fi
