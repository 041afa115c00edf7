#!/bin/bash
# Runs perf's own shell tests twice: with perf, and with gperf in perf's place for the commands that gperf has.
#   testdata/perftests.sh [NAME...]    such as record list; default: all
# Prints a table of both outcomes, and fails if a test passes with perf only.
#   $PERF               perf's command (default: perf)
#   $GPERF              gperf's program (default: built here)
#   $GPERF_PERF_TESTS   the directory of the tests (default: the one of perf's package)
#   $GPERF_PERF_LOGS    a directory for the output of the tests
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/local/go/bin

read -ra perf <<<"${PERF:-perf}" # a command with its arguments
program=$(command -v "${perf[0]}") || { echo "SKIPPED perf's shell tests: no perf (Debian: linux-perf; or name it in \$PERF)"; exit 0; }
perf[0]=$program
tests=${GPERF_PERF_TESTS-}
below=lib/perf-core/tests/shell
for dir in "$(dirname "$program")/usr" "$(dirname "$program")/.."; do
	[ -n "$tests" ] || ! [ -d "$dir/$below" ] || tests=$(realpath "$dir/$below")
done
[ -d "$tests" ] || { echo "SKIPPED perf's shell tests: none at ${tests:-$program}: name their directory in \$GPERF_PERF_TESTS"; exit 0; }
version=$("${perf[@]}" --version)
printf '%s\n' 7.3 "${version##* }" | sort -VC || { echo "SKIPPED perf's shell tests: they require perf 7.3 or later, and this is $version (\$PERF names another)"; exit 0; }
[ "$(id -u)" = 0 ] || { echo "SKIPPED perf's shell tests: not root"; exit 0; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
logs=${GPERF_PERF_LOGS:-$work/logs}
mkdir -p "$work/perf" "$work/gperf" "$work/cwd" "$logs"
logs=$(realpath "$logs")
gperf=${GPERF:-$work/bin}
[ -n "${GPERF-}" ] || go build -buildvcs=false -o "$gperf" ./cmd/gperf
gperf=$(realpath "$gperf")
# Lines of the help are indented: NAME and description.
commands=$("$gperf" --help | sed -nE 's/^  ([a-z][a-z-]*) .*/\1/p')
[ -n "$commands" ] || { echo "gperf --help lists no commands" >&2; exit 1; }

# Tests call both by the name perf, through a script that also logs whether gperf has the command: if a test uses no
# such command, one run is enough.
shim() { # TOOL PROGRAM ARG...: the program that runs gperf's commands
	cat >"$work/$1/perf" <<-SHIM
		#!/bin/bash
		case " $(echo $commands) " in *" \${1-} "*) echo "\$*" >>"$work/called"; exec -a perf ${*:2} "\$@" ;; esac
		exec ${perf[*]} "\$@"
	SHIM
	chmod +x "$work/$1/perf"
}
shim perf "${perf[@]}"
shim gperf "$gperf"

# outcome TOOL TEST runs a test and prints its outcome.
outcome() {
	local code=0
	: >"$work/called"
	(
		cd "$work/cwd"
		export PATH=$work/$1:$PATH PERF_EXEC_PATH=${tests%/tests/shell} PERF_CONFIG=$work/config XDG_CACHE_HOME=$work/cache
		timeout -k 10 "$limit" "$tests/$2.sh"
	) </dev/null >"$logs/$2.$1" 2>&1 || code=$?
	case $code in
	0) echo pass ;;
	2) echo skip ;;
	124 | 137) echo timeout ;;
	*) echo fail ;;
	esac
}
limit=300 # s
printf '[buildid]\n\tdir = %s\n' "$work/debug" >"$work/config" # not the user's

[ $# -gt 0 ] || set -- $(cd "$tests" && ls | sed -n 's/\.sh$//p')
printf '%-45s %-8s %s\n' "test of $version" perf gperf
failed=
for test; do
	want=$(outcome perf "$test")
	got='(not used)'
	[ ! -s "$work/called" ] || got=$(outcome gperf "$test")
	printf '%-45s %-8s %s\n' "$test" "$want" "$got"
	case $want-$got in
	pass-pass | pass-\(*) ;;
	pass-*) failed="$failed $test" && tail -n 15 "$logs/$test.gperf" | sed 's/^/    /; $a\' ;;
	esac
done
[ -z "$failed" ] || { echo "perf passes, gperf does not:$failed" >&2; exit 1; }
