#!/bin/bash
# As root: runs gperf record --continuous under a mixed load, prints what it uses each minute, and kills it at the end.
# Fails if it uses more than 1 % of a CPU, if its memory (the median of each minute) varies by more than 3 %, if its open
# files or mappings grow, if its files exceed the bound, or if the last file lacks more than the last second.
#   testdata/continuous/run.sh [MINUTES]     default: 30
#   $GPERF      the program (default: ./gperf)
#   $MINUTE     seconds of a minute, for short runs (default: 60); files are as long
#   $WARM       minutes until memory must be flat (default: a third)
#   $LOADS      of the loads (default: "processes busy drops containers"); fewer for guests
#   $HOTPLUG=1  takes CPU 1 offline and online again, a few times each minute: for guests
#   $MAX_TOTAL  the bound (default: 8M); $MAX_CPU the share (default: 1%)
#   $ARGS       more flags
set -u
minutes=${1:-30} minute=${MINUTE:-60} gperf=${GPERF:-./gperf} share=${MAX_CPU:-1%} bound=${MAX_TOTAL:-8M}
warm=${WARM:-$((minutes / 3))}
dir=$(mktemp -d) cgroups=$(awk '$3 == "cgroup2" {print $2; exit}' /proc/mounts)
jobs=()
cleanup() {
	kill -9 "${jobs[@]}" 2>/dev/null
	wait 2>/dev/null
	sleep 0.5 # the children of killed loads end
	[ -z "$cgroups" ] || find "$cgroups/kubepods-run$$.slice" -depth -type d -exec rmdir {} \; 2>/dev/null
	[ -z "${HOTPLUG:-}" ] || echo 1 >/sys/devices/system/cpu/cpu1/online
	rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

# The load. Short processes, of which each tenth is a new program; a busy one that sleeps every second; drops; containers.
processes() { while :; do for _ in 1 2 3 4 5 6 7 8 9; do /bin/true; sleep 0.05; done; cp /bin/true "$dir/new"; "$dir/new"; done; }
busy() { while :; do end=$((SECONDS + 1)); while [ $SECONDS -lt $end ]; do :; done; sleep 1; done; }
drops() { while :; do echo x >/dev/udp/127.0.0.1/9; sleep 0.2; done 2>/dev/null; }
containers() {
	local n=0 id pod
	while :; do
		n=$((n + 1))
		id=$(printf '%064x' $n) pod=$(printf '%08x_0000_4000_8000_%012x' $$ $n)
		group="$cgroups/kubepods-run$$.slice/kubepods-run$$-pod$pod.slice/cri-containerd-$id.scope"
		mkdir -p "$group" || return
		(echo $BASHPID >"$group/cgroup.procs"; end=$((SECONDS + 3)); while [ $SECONDS -lt $end ]; do /bin/true; sleep 0.02; done)
		rmdir "$group" "$(dirname "$group")"
	done
}
hotplug() { while :; do for on in 0 1; do sleep $((minute / 6 + 1)); echo $on >/sys/devices/system/cpu/cpu1/online; done; done; }
# marks execs a program every 0.1 s, whose name is a number, and writes the number and the time.
marks() {
	local n=0
	while :; do
		n=$((n + 1))
		ln -sf /bin/true "$dir/mark-$n" && "$dir/mark-$n"
		echo "mark-$n $(date +%s%N)" >>"$dir/marks"
		rm -f "$dir/mark-$n"
		sleep 0.1
	done
}
[ -n "$cgroups" ] || echo "no cgroup2 file system: no containers"
for load in ${LOADS:-processes busy drops ${cgroups:+containers}} ${HOTPLUG:+hotplug}; do
	$load &
	jobs+=($!)
done

"$gperf" record --continuous --config /dev/null -o "$dir/out" --file-time "${minute}s" --max-total "$bound" \
	--max-cpu "$share" ${ARGS:-} &
pid=$!
jobs+=($pid)
ticks() { awk '{sub(/.*\) /, ""); print $12 + $13}' /proc/$pid/stat; }
rss() { awk '/^VmRSS/ {print $2}' /proc/$pid/status; }
# watch sleeps for a minute, and prints the median and the maximum of the memory meanwhile.
watch() {
	local end=$((SECONDS + minute))
	while [ $SECONDS -lt $end ]; do rss; sleep 1; done | sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)], v[NR]}'
}
failed=0
fail() { echo "FAILED: $*"; failed=1; }
limit=$(numfmt --from=iec "$bound")
start=$(ticks) hz=$(getconf CLK_TCK) low=0 high=0 fds=0 maps=0
printf '%6s %8s %9s %9s %5s %5s %11s %6s\n' minute 'CPU [%]' 'RSS [kB]' maximum fds maps 'disk [B]' files
for ((i = 1; i <= minutes; i++)); do
	before=$(ticks)
	[ $i -lt "$minutes" ] || { marks & jobs+=($!); }
	read -r mem most <<<"$(watch)"
	kill -0 $pid 2>/dev/null || { fail "gperf exited"; exit 1; }
	now=$(ticks) files=$(ls /proc/$pid/fd | wc -l) mapped=$(wc -l </proc/$pid/maps) disk=$(du -sB1 "$dir/out" | cut -f1)
	printf '%6d %8s %9d %9d %5d %5d %11d %6d\n' $i \
		"$(awk "BEGIN {printf \"%.2f\", 100 * ($now - $before) / $hz / $minute}")" \
		"$mem" "$most" "$files" "$mapped" "$disk" "$(ls "$dir/out" | wc -l)"
	[ "$disk" -le "$limit" ] || fail "$disk bytes of files, more than $limit"
	[ $i -gt "$warm" ] || continue
	[ $low -ne 0 ] || { low=$mem high=$mem fds=$files maps=$mapped; }
	low=$((mem < low ? mem : low)) high=$((mem > high ? mem : high))
	[ "$files" -le $((fds + 2)) ] || fail "$files open files, $fds before"
	[ "$mapped" -le $((maps + 5)) ] || fail "$mapped mappings, $maps before"
done
kill -9 $pid
killed=$(date +%s%N)
used=$(awk "BEGIN {printf \"%.2f\", 100 * ($now - $start) / $hz / $minutes / $minute}")
spread=$(awk "BEGIN {printf \"%.1f\", 100 * ($high - $low) / $low}")
echo "CPU: $used % of one, share $share; memory: $low to $high kB after minute $warm, $spread %"
awk "BEGIN {exit !($used > ${share%\%})}" && fail "$used % of a CPU"
awk "BEGIN {exit !($spread > 3)}" && fail "memory grows or varies by $spread %"
sleep 0.2
last=$(ls -t "$dir"/out/*.data | head -1)
for reader in "$gperf" perf; do
	type "$reader" >/dev/null 2>&1 || continue
	"$reader" script --show-task-events -i "$last" >"$dir/text" 2>"$dir/errors" || fail "$reader: exit code $?: $(tail -3 "$dir/errors")"
	mark=$(grep -o 'COMM.*: mark-[0-9]*' "$dir/text" | tail -1 | grep -o 'mark-.*')
	at=$(awk -v mark="$mark" '$1 == mark {print $2}' "$dir/marks")
	[ -n "$at" ] || { fail "$reader: no mark in $last"; continue; }
	lost=$(((killed - at) / 1000000))
	echo "kill -9: $(basename "$reader") reads the records up to $lost ms before it"
	[ $lost -le 1000 ] || fail "the last $lost ms are lost"
done
if [ -n "$cgroups" ] && [ -z "${LOADS:-}" ]; then
	pods=$("$gperf" report -i "$last" --no-children -g none --sort container,pod 2>/dev/null | grep -c '0000-4000-8000')
	echo "containers: $pods in the last file"
	[ "$pods" -gt 0 ] || fail "no containers"
fi
exit $failed
