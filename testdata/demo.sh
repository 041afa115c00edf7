#!/bin/bash
# Builds gperf and does the main job with it on drops of its own making: records them with stacks, prints,
# folds and counts them. Leaves ./gperf, ./perf.data and ./drops behind, which has the names of its own stacks.
set -euo pipefail
cd "$(dirname "$0")/.."
. testdata/need.sh
install_needed
if [ "$(id -u)" != 0 ]; then
	echo "recording the whole machine's drops takes root: sudo $0" >&2
	exit 1
fi

# run shows a command, then runs it. 141 is what SIGPIPE makes of one that head has read enough of.
run() { printf '\n$ %s\n' "$*"; eval "$*" || [ $? = 141 ]; }

run CGO_ENABLED=0 go build -trimpath -buildvcs=false -o gperf ./cmd/gperf
run go build -buildvcs=false -o drops ./testdata/drops
run ./gperf record -g -a -e skb:kfree_skb -o perf.data -- ./drops -n 20000 -rate 10000
run "./gperf script | head -n 40"
run "./gperf script --format folded | head -n 3"
run "./gperf report --stdio --sort location,reason | head -n 30"
printf '\nThe recording is ./perf.data: go on with ./gperf script or ./gperf report --stdio, or with perf itself.\n'
