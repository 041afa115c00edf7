#!/bin/bash
# Runs tests with Go's race detector: of the packages that start goroutines, those that run gperf's code in their own
# process. Programs are up to ten times slower with it, so tests of many similar things do a few of them (-short).
#   testdata/race.sh [-run REGEX] [-o RESULTS] [PACKAGE...]
set -euo pipefail
cd "$(dirname "$0")/.."
. testdata/need.sh
need gcc gcc libc6-dev
install_needed

# Packages whose code, tests aside, starts goroutines. A package's tests also run the code below it.
concurrent() {
	find . -name '*.go' -not -name '*_test.go' -not -path '*/testutil/*' -not -path '*/testdata/*' -print0 |
		xargs -0 grep -lE '^\s*go [a-zA-Z(]|\.Go\(|"gperf/internal/parallel"' | xargs -n 1 dirname | sort -u
}

# Tests that say nothing about races: limits of time and memory, builds, comparisons with other tools, and those that run
# gperf, built without the race detector, as a process.
skip='^Test(Hostile|House|Build|Install|Address|Scenario|Probe|List|Doctor|StacksOf|Terminal|Hidden|Record[A-Z])|Alone$'
packages=$(concurrent)
for arg; do
	case $arg in ./*) packages= ;; esac
done
each='^cmd/gperf$' # has most of the tests
CGO_ENABLED=1 GPERF_SLOW=5 go run ./internal/testutil/runtests -race -short -kernel race -each "$each" -first '^TestCorpus$' \
	-skip "$skip" "$@" $packages
