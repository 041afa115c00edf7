#!/bin/bash
# Builds gperf, causes packet drops, records them with stacks, and prints, folds and counts them. Keeps ./gperf,
# ./perf.data and ./drops: gperf reads the symbols of the recorded stacks from ./drops.
set -euo pipefail
cd "$(dirname "$0")/.."
. testdata/need.sh
install_needed
if [ "$(id -u)" != 0 ]; then
	echo "recording the drops of the machine requires root: sudo $0" >&2
	exit 1
fi

# run prints a command, then runs it. Exit code 141 is SIGPIPE: head exited.
run() { printf '\n$ %s\n' "$*"; eval "$*" || [ $? = 141 ]; }

run CGO_ENABLED=0 go build -trimpath -buildvcs=false -o gperf ./cmd/gperf
run go build -buildvcs=false -o drops ./internal/testutil/drops
run ./gperf record -g -a -e skb:kfree_skb -o perf.data -- ./drops -n 20000 -rate 10000
run "./gperf script | head -n 40"
run "./gperf script --format folded | head -n 3"
run "./gperf report --stdio --sort location,reason | head -n 30"
printf '\nThe recording is ./perf.data: read it with ./gperf script, ./gperf report --stdio or perf.\n'
