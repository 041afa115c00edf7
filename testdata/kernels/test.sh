#!/bin/bash
# Runs the tests that record on other kernels, each in a guest (see README.md).
#   testdata/kernels/test.sh [-short] [-run REGEX] KERNEL...    such as 5.10 arm64-6.1; all: those of the matrix
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
flags='' kernels='' results=$cache/results
while [ $# -gt 0 ]; do
	case $1 in
	-short) flags="$flags -test.short" results=$cache/results/parts ;;
	-run) which_tests() { echo "-test.run=$only"; }; only=$2 results=$cache/results/parts; shift ;;
	-matrix) exec go run ./internal/testutil/kernels -matrix docs/kernels.md "$cache/results" ;;
	all) kernels="5.10 6.1 6.12 6.18 7.2 7.3 arm64-6.1 arm64-6.12" ;;
	-*) sed -n '2,4p' "$0" >&2; exit 2 ;;
	*) kernels="$kernels $1" ;;
	esac
	shift
done
[ -n "$kernels" ] || { sed -n '2,4p' "$0" >&2; exit 2; }
case " $kernels" in *" arm64-"*) need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross ;; esac
install_needed || true

work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$work"' EXIT
mkdir -p "$results"

# build GOARCH: what the guests of an architecture run.
build() {
	local p dir=$work/$1
	mkdir -p "$dir/programs"
	for p in $tested; do
		CGO_ENABLED=0 GOARCH=$1 go test -c -o "$dir/${p##*/}.test" "./$p"
		[ -e "$dir/${p##*/}.test" ] || continue # no tests
		# The host's test binary builds the guest's programs.
		[ "$1" = "$(go env GOHOSTARCH)" ] || CGO_ENABLED=0 go test -c -o "$work/builder" "./$p"
		local builder=$work/builder
		[ -e "$builder" ] || builder=$dir/${p##*/}.test
		(cd "$p" && GOARCH=$1 CC=$(compiler "$1" gcc) CXX=$(compiler "$1" g++) GPERF_TEST_PROGRAMS=$dir/programs "$builder" -test.run '^$') >"$work/build" 2>&1 || { cat "$work/build" >&2; exit 1; }
		rm -f "$work/builder"
	done
}
compiler() { case $1 in "$(go env GOHOSTARCH)") echo "$2" ;; arm64) echo "aarch64-linux-gnu-$2" ;; *) echo "x86_64-linux-gnu-$2" ;; esac; }

# guest_script GOARCH [TESTS]: what runs in the guest: all, or of each package that TESTS has a line of, PACKAGE TEST, that test, or
# all where it names none. Files are looked up slowly in what it shares with the host, and fast in /tmp.
guest_script() {
	local host='' p
	[ "$1" = amd64 ] || host=/host
	echo "echo 2 >/proc/sys/kernel/perf_event_paranoid" # with Debian's 3, CAP_PERFMON is not enough for anything
	echo "echo === KERNEL \$(uname -r); cp -r $host$work/$1 /tmp/tests; export GPERF_SLOW=$slow GPERF_TEST_PROGRAMS=/tmp/tests/programs"
	for p in $tested; do
		[ -e "$work/$1/${p##*/}.test" ] || continue
		local which
		which=$(which_tests "$p")
		if [ $# -gt 1 ]; then
			grep -q "^$p " <<<"$2" || continue
			grep -q "^$p $" <<<"$2" || which="-test.run=^($(sed -n "s,^$p ,,p" <<<"$2" | paste -sd'|'))\$"
		fi
		echo "echo === PACKAGE $p; cd $host$PWD/$p; /tmp/tests/${p##*/}.test $(printf '%q ' $which) -test.v=test2json -test.timeout=90m $flags 2>&1; echo === EXIT \$?"
	done
}

# test_kernel KERNEL writes its files to $work, and the results to the cache. Guests are slow, and sometimes the emulator
# kills one: failed tests run once more, in another guest, and this is reported.
test_kernel() {
	local arch=amd64 tsv=$results/${1//\//-}.tsv start=$SECONDS code=0 failed
	case $1 in arm64-*) arch=arm64 ;; esac
	run_guest "$1" $arch "$work/$arch.sh" "$tsv" || code=$?
	if [ $code != 0 ]; then
		failed=$(failed_tests "$1" $arch "$tsv")
		echo "kernel $1: trying again:" $failed
		guest_script $arch "$failed" >"$work/$1.sh"
		run_guest "$1" $arch "$work/$1.sh" "$work/$1.again" && code=0 || code=$?
		awk -F'\t' 'NR == FNR { if ($5 != "FAIL") print; next } { print }' "$tsv" "$work/$1.again" >"$tsv.new"
		mv "$tsv.new" "$tsv"
	fi
	echo "kernel $1: $((SECONDS - start)) s"
	return $code
}

# run_guest KERNEL GOARCH SCRIPT RESULTS
run_guest() {
	local script=$3 code=0
	[ "$2" = amd64 ] || script=/host$script
	testdata/kernels/run -t 7200 "$1" bash "$script" >"$work/$1.out" 2>"$work/$1.err" &
	trap "kill $!" TERM # which a background shell's child would not be sent
	wait $! || echo "=== GUEST $?" >>"$work/$1.out"
	cat "$work/$1.err" >&2
	"$work/results" -kernel "$1" -o "$4" <"$work/$1.out" >"$work/$1.summary" || code=$?
	cat "$work/$1.summary"
	echo
	return $code
}

# failed_tests KERNEL GOARCH RESULTS: lines of PACKAGE TEST, or PACKAGE alone of those that the guest did not come to the end of.
failed_tests() {
	local p
	awk -F'\t' '$5 == "FAIL" { split($4, t, "/"); print $3 " " t[1] }' "$3" | sort -u
	! grep -q '^=== GUEST' "$work/$1.out" || sed -n 's/^=== PACKAGE \(.*\)/\1 /p' "$work/$1.out" | tail -n 1
	for p in $tested; do
		[ ! -e "$work/$2/${p##*/}.test" ] || grep -q "^=== PACKAGE $p$" "$work/$1.out" || echo "$p "
	done
}

go build -o "$work/results" ./internal/testutil/kernels
for arch in amd64 arm64; do
	case " $kernels" in *" arm64-"*) ;; *) [ $arch = amd64 ] || continue ;; esac
	[ "$arch" = arm64 ] || [ -n "$(tr ' ' '\n' <<<"$kernels" | grep -v '^arm64-')" ] || continue
	build $arch
	guest_script $arch >"$work/$arch.sh"
done

failed=0 running=0
for k in $kernels; do
	if [ $running -ge "$(nproc)" ]; then
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
