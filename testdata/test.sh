#!/bin/bash
# Runs all tests. Arguments go to go test. Without root, or without other tools, some tests skip and
# name what is missing; this script shows these lines.
set -euo pipefail
cd "$(dirname "$0")/.."
. testdata/need.sh
need perf linux-perf   # reads gperf's files; its output is the reference
need readelf binutils
need gcc gcc libc6-dev # for programs to record
need g++ g++           # for programs with much inlining
need llvm-symbolizer llvm # the reference for symbols of these programs
need clang clang
need dwz dwz
need nft nftables      # to drop packets by rules
need iptables iptables
need ip iproute2
need xz xz-utils
need dwz dwz
need debuginfod debuginfod
need man man-db
need /usr/share/bash-completion/bash_completion bash-completion
install_needed || true
[ "$(id -u)" = 0 ] || echo "not root: the tests that record skip" >&2

# One package at a time: tests of several packages count the drops of the whole machine.
go test -count=1 -p 1 -timeout 40m -v "$@" ./... 2>&1 | grep --line-buffered -vE '^\s*(=== (RUN|PAUSE|CONT|NAME)|--- PASS)|^PASS$|\[no test files\]$'
