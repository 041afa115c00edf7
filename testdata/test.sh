#!/bin/bash
# Runs all tests. Arguments go to go test. Without root, or without other tools, some tests skip and
# name what is missing; this script shows these lines.
#   testdata/test.sh --fast    runs the tests that need neither root nor other tools, in less than a minute
set -euo pipefail
cd "$(dirname "$0")/.."
. testdata/need.sh

# The tests that --fast leaves out: those that record, by their names; mutated recordings; complete comparisons with
# other tools; builds of gperf.
slow='^Test(Record|Scenario|Probe|List|Doctor|Hostile)|LikeLLVM|Rewritten|AgainstSymbols|Objdump|EqualsPerf|EqualsStackcollapse|BuildIs|Install|AddressSpace'

# summary is the last line of the output, also if tests fail.
summary() {
	[ -d ../shared/fixtures ] || echo "NOT COMPARED with recordings of other people: ../shared/fixtures is missing" >&2
}
trap summary EXIT

if [ "${1-}" = --fast ]; then
	shift
	recorders='gperf/(bpf|record(/perfevent|/stacks|/synth|/output)?)' # packages whose tests record
	summary() { echo "left out, make test runs them: packages $recorders, tests $slow, and those whose files or tools are missing" >&2; }
	go test -short -skip "$slow" "$@" $(go list ./... | grep -vxE "$recorders")
	exit
fi

testdata/deps.sh || true
[ "$(id -u)" = 0 ] || echo "not root: the tests that record skip" >&2

# One package at a time: tests of several packages count the drops of the whole machine.
go test -count=1 -p 1 -timeout 40m -v "$@" ./... 2>&1 |
	grep --line-buffered -vE '^\s*(=== (RUN|PAUSE|CONT|NAME)|--- PASS)|^PASS$|\[no test files\]$'
