#!/bin/bash
# Runs all tests. Without root, or without other tools, some tests skip and name what is missing; this script prints
# these lines, the tests that fail, and the number of each.
#   testdata/test.sh [-run REGEX] [-skip REGEX] [-short] [-j PROCESSES] [-o RESULTS] [PACKAGE...]
#   testdata/test.sh --fast    runs the tests that need neither root nor other tools, in less than a minute
# $GPERF_TESTS is a directory with the test binaries, if they are built.
set -euo pipefail
cd "$(dirname "$0")/.."
. testdata/need.sh

# The tests that --fast leaves out: those that record, by their names; mutated recordings; complete comparisons with
# other tools; builds of programs; all of many cases that take more than two seconds.
slow='^Test(Record|Scenario|Probe|List|Doctor|Hostile|StacksOf|FlameGraph|Browser|Terminal|Viewers|Pprof|Pcapng)'
slow+='|LikeLLVM|Rewritten|Relocatable|AgainstSymbols|Objdump|EqualsPerf|EqualPerfs|EqualsStackcollapse|BuildIs|Install'
slow+='|AddressSpace|ArchiveSplit|CutAnywhere|VerdictsOfManyRows|FlightsBounded|TestStep$|TestCgo|TestCSV$|ScriptOrder'
slow+='|ViewShowsTotals|ValuesOfRust|TestGo(Program|Stripped|TableLikeDWARF)|TestRust|CorpusQuipper'

# summary is the last line of the output, also if tests fail.
summary() {
	[ -d ../shared/fixtures ] || echo "NOT COMPARED with recordings of other people: ../shared/fixtures is missing" >&2
}
trap summary EXIT

if [ "${1-}" = --fast ]; then
	shift
	recorders='gperf/(bpf|record(/perfevent|/stacks|/synth|/output)?)' # packages whose tests record
	summary() { echo "left out, make test runs them: packages $recorders, tests $slow, and those whose files or tools are missing" >&2; }
	tools=${XDG_CACHE_HOME:-$HOME/.cache}/gperf/fast-tools # all that the tests find: what needs others skips
	mkdir -p "$tools"
	for t in awk bash cat cp cut date dd echo env false grep gzip head id ip kill ln ls mkdir mkfifo mktemp mount mv nproc \
		nsenter ps rm sed seq setsid sh sleep sort stat tail tar tee timeout touch tr true uname uniq unshare wc xargs; do
		[ ! -x "/bin/$t" ] || ln -sf "/bin/$t" "$tools/$t"
	done
	PATH=$tools:$(go env GOROOT)/bin go test -short -skip "$slow" "$@" $(go list ./... | grep -vxE "$recorders")
	exit
fi

testdata/deps.sh || true
[ "$(id -u)" = 0 ] || echo "not root: the tests that record skip" >&2

# Packages whose tests take long run test by test, and the longest tests begin first.
each='^(cmd/gperf|record|record/probe/program|report/export|report/view|unwind)$'
first='^Test(Hostile(Mutations|Files|Crafted)|LikeLLVM|AnnotateSource)$'
CGO_ENABLED=0 go run ./internal/testutil/runtests -each "$each" -first "$first" ${GPERF_TESTS:+-built "-bin=$GPERF_TESTS"} "$@"
