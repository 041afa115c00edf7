#!/bin/bash
# Runs the tests that record on other kernels, each in a guest (see README.md).
#   testdata/kernels/test.sh [-short] [-run REGEX] [-j GUESTS] [-o DIRECTORY] KERNEL...
#                                    such as 5.10 arm64-6.1; all: those of the matrix; DIRECTORY: for the results
#   testdata/kernels/test.sh -matrix                            writes the results of the last runs into docs/kernels.md
{ # read as a whole: it may be edited while it runs
set -euo pipefail
cd "$(dirname "$0")/../.."
. testdata/need.sh
need perf linux-perf # guests find here what tests run: perf to read what gperf wrote, what drops packets,
need nft nftables
need iptables iptables
need ebtables-legacy ebtables
need arptables-legacy arptables
need gcc gcc libc6-dev # and programs to record, built before
cache=${GPERF_KERNELS:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/gperf/kernels}
slow=5 # times longer than on the host, tests run or wait

# The tests of these record, or read what the kernel offers; of cmd/gperf, those whose names say so.
tested="$(go list ./record/... ./bpf/... ./format/tracepoint/... | sed 's,^gperf/,,') cmd/gperf"
which_tests() {
	local run=^Test skip='^$'
	case $1 in
	cmd/gperf) run='^Test(Record|Scenario|Probe|List|Doctor)' skip="$skip|^TestRecord(sData|ingsInAllForms|ModesRefused)$" ;;
	record/probe*) skip="$skip|LikePerf|Against|Delve|^TestVarsOfProgram" ;; # these do not depend on the kernel
	esac
	echo "-test.run=$run -test.skip=$skip"
}
flags='' kernels='' out='' results=$cache/results jobs=$(nproc)
while [ $# -gt 0 ]; do
	case $1 in
	-short) flags="$flags -test.short" results=$cache/results/parts ;;
	-run) which_tests() { echo "-test.run=$only"; }; only=$2 results=$cache/results/parts; shift ;;
	-j) jobs=$2; shift ;;
	-o) out=$2; shift ;;
	-matrix) exec go run ./internal/testutil/runtests kernels -matrix docs/kernels.md "$cache/results" ;;
	all) kernels="5.10 6.1 6.12 6.18 7.2 7.3 arm64-6.1 arm64-6.12" ;;
	-*) sed -n '2,5p' "$0" >&2; exit 2 ;;
	*) kernels="$kernels $1" ;;
	esac
	shift
done
results=${out:-$results}
[ -n "$kernels" ] || { sed -n '2,5p' "$0" >&2; exit 2; }
case " $kernels" in *" arm64-"*) need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross ;; esac
install_needed || true

work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$work"' EXIT
mkdir -p "$results" "$work/tests"
here=$(go env GOHOSTARCH)
export CGO_ENABLED=0

# build GOARCH: the test binaries of an architecture's guests, each in the directory of its package, and the programs that
# tests run. Those of this machine's architecture may be in $GPERF_TESTS.
build() {
	local p tests=$work/tests/$1
	if [ "$1" = "$here" ]; then
		if [ -n "${GPERF_TESTS-}" ]; then ln -s "$(realpath "$GPERF_TESTS")" "$tests"; else "$work/runtests" -build -bin "$tests" $(printf './%s ' $tested); fi
		return
	fi
	GOARCH=$1 "$work/runtests" -build -bin "$tests" $(printf './%s ' $tested)
	for p in $tested; do # this machine's binary builds the guest's programs
		(cd "$p" && GOARCH=$1 CC=$(compiler "$1" gcc) CXX=$(compiler "$1" g++) GPERF_TEST_PROGRAMS=$tests/programs "$work/tests/$here/$p/${p##*/}.test" -test.run '^$') >"$work/build" 2>&1 || { cat "$work/build" >&2; exit 1; }
	done
}
compiler() { case $1 in "$here") echo "$2" ;; arm64) echo "aarch64-linux-gnu-$2" ;; *) echo "x86_64-linux-gnu-$2" ;; esac; }

# with_tests prints the packages that have tests to run.
with_tests() {
	local p binary
	for p in $tested; do
		binary=$work/tests/$here/$p/${p##*/}.test
		[ -e "$binary" ] || continue
		(cd "$p" && "$binary" -test.list "$(which_tests "$p" | sed -n 's/^-test.run=\([^ ]*\).*/\1/p')") | grep ^Test >/dev/null && echo "$p"
	done
	true
}

# guest_script GOARCH: what runs in the guest. Files are looked up slowly in what it shares with the host, and fast in /tmp.
guest_script() {
	local host='' p binary tests=$work/tests/$1
	[ "$1" = amd64 ] || host=/host
	echo "echo 2 >/proc/sys/kernel/perf_event_paranoid" # with Debian's 3, CAP_PERFMON is not enough for anything
	echo "modprobe -a x_tables ebtables nf_tables 2>/dev/null" # whose structures programs read
	echo "echo === KERNEL \$(uname -r); mkdir /tmp/tests; cp -r $host$tests/programs/. /tmp/tests/programs"
	echo "export GPERF_SLOW=$slow GPERF_TEST_PROGRAMS=/tmp/tests/programs"
	for p in $tested; do
		binary=$p/${p##*/}.test
		echo "echo === PACKAGE $p; cp $host$tests/$binary /tmp/tests; cd $host$PWD/$p"
		echo "/tmp/tests/${p##*/}.test $(printf '%q ' $(which_tests "$p")) -test.v=test2json -test.timeout=90m $flags 2>&1; echo === EXIT \$?; rm /tmp/tests/*.test"
	done
}

# test_kernel KERNEL writes its files to $work, and the results to the cache.
test_kernel() {
	local arch=amd64 script start=$SECONDS code=0
	case $1 in arm64-*) arch=arm64 ;; esac
	script=$work/$arch.sh
	[ $arch = amd64 ] || script=/host$script
	testdata/kernels/run -t 7200 "$1" bash "$script" >"$work/$1.out" 2>"$work/$1.err" &
	trap "kill $!" TERM # which a background shell's child would not be sent
	wait $! || echo "=== GUEST $?" >>"$work/$1.out"
	cat "$work/$1.err" >&2
	"$work/runtests" kernels -kernel "$1" -o "$results/${1//\//-}.tsv" <"$work/$1.out" >"$work/$1.summary" || code=$?
	cat "$work/$1.summary"
	echo "kernel $1: $((SECONDS - start)) s"
	return $code
}

go build -o "$work/runtests" ./internal/testutil/runtests
build "$here"
tested=$(with_tests)
for arch in amd64 arm64; do
	case $arch-$kernels in arm64-*" arm64-"* | amd64-*" "[^a]*) ;; *) continue ;; esac
	[ $arch = "$here" ] || build $arch
	guest_script $arch >"$work/$arch.sh"
done

failed=0 running=0
for k in $kernels; do
	if [ $running -ge "$jobs" ]; then
		wait -n || failed=1
		running=$((running - 1))
	fi
	test_kernel "$k" &
	running=$((running + 1))
done
while [ $running -gt 0 ]; do
	wait -n || failed=1
	running=$((running - 1))
done
exit $failed
}
