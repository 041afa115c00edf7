#!/bin/bash
# Fuzzes the readers of what others control: archives, answers of servers, files of JIT compilers, ELF and DWARF, and the
# memory of runtimes. Prints a row for each target; fails if one fails. Go keeps the input that failed, and prints its path.
#   testdata/hostile/fuzz.sh [PACKAGE:TARGET...]   default: all that follow
#   $MINUTES    for each target (default: 30)
#   $JOBS       targets at once (default: the number of CPUs)
set -u
cd "$(dirname "$0")/../.."
targets=(
	internal/archive:Fuzz{Open,Remote} internal/dso/debuginfod:FuzzAnswer
	symbolize:FuzzPerfMap symbolize/jit:Fuzz{Dump,Follow}
	internal/dso:Fuzz{Image,XZ} symbolize/srcline:Fuzz{File,DWARF}
	internal/runtimes:Fuzz{Function,Lines,DebugOffsets,RubyCode,RubyFunction,PHPFunction,PerlFunction,V8,V8Optimized}
	internal/runtimes/hotspot:Fuzz{Read,Calls}
)
[ $# = 0 ] || targets=("$@")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# fuzz fuzzes one target with one worker. Go would otherwise spend most of the time on shorter inputs of equal coverage.
fuzz() {
	local log=$out/${1//[\/:]/.} code inputs
	GOMAXPROCS=1 go test -trimpath "./${1%:*}" -run '^$' -fuzz "^${1#*:}\$" -fuzztime "${MINUTES:-30}m" -parallel 1 \
		-fuzzminimizetime 10x >"$log" 2>&1
	code=$?
	inputs=$(grep -o 'execs: [0-9]*' "$log" | tail -n 1 | cut -c 8-)
	if [ $code = 0 ] && [ -n "$inputs" ]; then # Go only warns of a target that does not exist
		printf '%-50s %10d inputs  ok\n' "$1" "$inputs"
		return
	fi
	printf '%-50s FAILED\n' "$1"
	tail -n 30 "$log"
	return 1
}
export -f fuzz
export out
printf '%s\n' "${targets[@]}" | xargs -P "${JOBS:-$(nproc)}" -I {} bash -c 'fuzz {}'
