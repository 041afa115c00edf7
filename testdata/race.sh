#!/bin/bash
# Runs the tests with Go's race detector, of all packages or of those named. Programs are up to ten times slower than
# without it, so tests of many similar things do a few of them (-short).
set -euo pipefail
cd "$(dirname "$0")/.."
. testdata/need.sh
need gcc gcc libc6-dev
install_needed

# Tests that say nothing about races: limits of time and memory, builds, comparisons. With GPERF_SLOW, Hotplug would take
# a CPU offline.
skip='^Test(Hostile|House|Build|Install|Address)|Hotplug|LikeLLVM|Rewritten'
CGO_ENABLED=1 GPERF_SLOW=5 go test -race -short -count=1 -p 1 -timeout 30m -skip "$skip" "${@:-./...}"
