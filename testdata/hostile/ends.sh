#!/bin/bash
# As root: ends gperf in all ways and at many moments, and runs it where resources end. Prints a row for each: tries, the
# longest time from the signal to the end in ms, and what went wrong. Fails if a command takes longer than a second to end,
# leaves a process, a temporary file or a probe, prints a trace of Go, or leaves a recording that cannot be read.
#   testdata/hostile/ends.sh [NAME...]     default: all of interrupts kills pushes disk config cgroup limit forks dlopens beside
#   $GPERF      the program (default: ./gperf)
#   $MOMENTS    at which each command is interrupted (default: 20)
#   $KILLS      of each command that is killed (default: 100)
# In the background of a script, a shell ignores SIGINT, and so would gperf as long as it does not handle it yet.
[ -n "${heeding-}" ] || heeding=1 exec env --default-signal=INT "$0" "$@"
set -um # jobs have groups of their own, and heed SIGINT
gperf=$(realpath "${GPERF:-./gperf}") moments=${MOMENTS:-20} kills=${KILLS:-100}
dir=$(mktemp -d) && cd "$dir" || exit 1
export HOME=$dir/home TMPDIR=$dir/tmp
mkdir "$HOME" "$TMPDIR"
failed=0 loads=()
cleanup() {
	kill -9 "${loads[@]}" 2>/dev/null
	umount "$dir/disk" 2>/dev/null
	[ -z "${group:-}" ] || rmdir "$group" 2>/dev/null
	cd / && rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

now() { date +%s%N; }
probes() { cat /sys/kernel/tracing/uprobe_events /sys/kernel/tracing/kprobe_events 2>/dev/null | wc -l; }
before=$(probes)
wrong() { problems+="$*; "; }
# row NAME prints and resets what was found.
row() {
	printf '%-44s %4d tries %5d ms  %s\n' "$1" $tries $worst "${problems:-ok}"
	[ -z "$problems" ] || failed=1
	begin
}
begin() { tries=0 worst=0 problems=''; }
begin
# readable FILE: what a recording contains can be read.
readable() { [ ! -s "$1" ] || "$gperf" script -i "$1" >out 2>err || wrong "$1: $(tail -n 1 err)"; }
# ended SIGNAL MOMENT COMMAND...: sends a signal after so many ms, and notes how long the command takes to end.
ended() {
	local signal=$1 moment=$2 pid limit t
	shift 2
	"$@" >out 2>err </dev/null &
	pid=$!
	sleep "$(printf '%d.%03d' $((moment / 1000)) $((moment % 1000)))"
	t=$(now)
	kill -"$signal" $pid 2>/dev/null
	(sleep 20 && kill -9 -$pid) &
	limit=$!
	wait $pid 2>/dev/null
	[ $? != 2 ] || wrong "wrong use: $(tail -n 2 err)"
	t=$((($(now) - t) / 1000000))
	kill -9 -$limit
	wait $limit 2>/dev/null
	tries=$((tries + 1))
	[ $t -le $worst ] || worst=$t
	[ $t -le 1000 ] || wrong "$t ms after $moment ms"
	if grep -q '^goroutine ' err; then wrong "a trace of Go: $(grep -m 1 '^panic\|^fatal' err)"; fi
	if [ "$signal" != KILL ] && pgrep -g $pid -r R,S,D,T >/dev/null; then wrong "a process stays"; pkill -9 -g $pid; fi
}
# leftovers: temporary files and probes of ended commands.
leftovers() {
	[ -z "$(find "$TMPDIR" -type f)" ] || wrong "files stay: $(find "$TMPDIR" -type f | head -n 2)"
	find "$TMPDIR" -mindepth 1 -delete
	[ "$(probes)" = "$before" ] || wrong "probes stay"
}

busy() { while :; do /bin/true; done; }
busy & loads+=(-$!)
"$gperf" record -q -a -g -F 999 -o large -- sleep 2 || exit 1

interrupts() {
	local i
	printf '#!/bin/sh\nwhile :; do :; done\n' >loop && chmod +x loop
	while read -r command; do
		for ((i = 0; i < moments; i++)); do
			rm -f perf.data
			ended INT $((i * i * 4)) "$gperf" $command
			case $command in record*) readable perf.data ;; esac
		done
		leftovers
		row "$command"
	done <<-'END'
		record -a -g
		record -a -F 999 --call-graph dwarf
		record -e span:syscalls -a
		record -a --off-cpu
		record -e uprobe:libc:malloc -a
		record -g -- ./loop
		record --continuous -o files
		script -i large
		report -i large --stdio
		report -i large --format pprof -o profile
		annotate -i large
		diff large large
		archive -i large -o archive.zip
		view --no-browser -i large
		top --stdio
		list
		doctor
		push --spool spool large file:store
	END
}

kills() {
	local i
	for ((i = 0; i < kills; i++)); do
		rm -rf files perf.data*
		mkdir files
		ended KILL $((i * 40)) "$gperf" record --continuous -o files
		for f in files/*; do readable "$f"; done
	done
	"$gperf" record -q -o /dev/null -- true 2>/dev/null
	leftovers
	row 'kill -9 of record --continuous'
}

pushes() {
	local i
	for ((i = 0; i < kills; i++)); do
		rm -rf store spool
		ended KILL $((i * 20)) "$gperf" push --spool spool large file:store
		"$gperf" push --spool spool large file:store >out 2>err || wrong "$(tail -n 1 err)"
		local archives=$(find store -name '*.zip')
		[ "$(wc -w <<<"$archives")" = 1 ] && readable "$archives" || wrong "$(wc -w <<<"$archives") archives"
	done
	find store -name '.gperf-*' | grep -q . && wrong "a part stays"
	row 'kill -9 of push, and once more'
}

disk() {
	mkdir -p disk && mount -t tmpfs -o size=1M none disk || return
	for command in 'record -a -g -F 4999' 'record -a -F 4999 --call-graph dwarf'; do
		timeout -k 1 20 "$gperf" $command -o disk/perf.data -- sleep 5 >out 2>err
		case $? in 124 | 137) wrong hangs ;; 0) grep -qi 'space\|full' err || wrong "exit code 0, and no message" ;; esac
		readable disk/perf.data
		tries=$((tries + 1))
		rm -f disk/*
	done
	for command in 'script -i large' 'report --stdio -i large' 'report -i large --format pprof'; do
		"$gperf" $command >/dev/full 2>err && wrong "$command >/dev/full: exit code 0"
		tries=$((tries + 1))
	done
	head -c 1M /dev/zero >disk/full 2>/dev/null
	"$gperf" archive -i large -o disk/archive.zip >out 2>err && wrong "archive: exit code 0"
	[ ! -e disk/archive.zip ] || wrong "a part of an archive stays"
	umount disk
	leftovers
	row 'full disk'
}

config() {
	mkdir -p conf
	echo '-F 49' >gperf.conf
	"$gperf" record --continuous --config gperf.conf -o conf >out 2>err &
	local pid=$!
	sleep 2
	for text in '-F many' '"' "$(head -c 100 /dev/urandom | base64)" '--nosuch'; do
		echo "$text" >gperf.conf
		kill -HUP $pid
		sleep 0.5
		kill -0 $pid 2>/dev/null || wrong "ended with '$text'"
		tries=$((tries + 1))
	done
	[ "$(grep -c '^gperf record: recording' err)" -ge 4 ] || wrong "not each error is said: $(tail -n 3 err)"
	kill $pid
	wait $pid
	for f in conf/*; do readable "$f"; done
	row 'SIGHUP with a broken configuration'
}

cgroup() {
	local top limit=memory.max
	top=$(awk '$3 == "cgroup2" {print $2; exit}' /proc/mounts)
	[ -e "$top/memory.stat" ] || top=/sys/fs/cgroup/memory limit=memory.limit_in_bytes # version 1
	group=$top/gperf-ends-$$
	mkdir "$group" && echo 64M >"$group/$limit" || { echo "no memory controller"; return; }
	for command in 'record -a -g' 'record -a --call-graph dwarf' 'record -a -e span:syscalls' "report --stdio -i large"; do
		(echo $BASHPID >"$group/cgroup.procs"; exec timeout -k 1 20 "$gperf" $command ${command##report*}) >out 2>err </dev/null &
		local pid=$!
		sleep 4
		kill -INT $pid 2>/dev/null
		pkill -INT -P $pid 2>/dev/null
		wait $pid
		case $?,$command in
		124,*) wrong "$command hangs" ;;
		137,record*) wrong "the kernel killed $command" ;;
		137,*) echo "  the kernel killed $command: debug information of the recorded programs takes more" ;;
		esac
		if grep -q '^goroutine ' err; then wrong "$command: a trace of Go"; fi
		readable perf.data
		rm -f perf.data
		tries=$((tries + 1))
	done
	leftovers
	row 'memory cgroup of 64 MB'
}

limit() {
	for kb in 100000 300000 1000000 4000000; do
		for command in 'record -g -o perf.data -- true' 'report --stdio -i large' 'script -i large'; do
			(ulimit -v $kb; exec timeout -k 1 20 "$gperf" $command) >out 2>err
			case $? in 124 | 137) wrong "$command hangs" ;; esac
			if grep -q '^goroutine \|^runtime: ' err; then wrong "$command with $kb: a trace of Go"; fi
			tries=$((tries + 1))
		done
	done
	row 'ulimit -v'
}

# recorded NAME LOAD: the end of a recording of a load.
recorded() {
	local i pid
	bash -c "$2" >/dev/null 2>&1 &
	pid=$!
	for ((i = 0; i < 5; i++)); do
		rm -f perf.data
		ended INT 2000 "$gperf" record -a -g
		readable perf.data
	done
	pkill -9 -g $pid
	wait $pid 2>/dev/null
	leftovers
	row "$1"
}

forks() {
	cat >forks.c <<-'END'
		#include <sys/wait.h>
		#include <unistd.h>
		int main(void)
		{
			for (int i = 0; i < 500; i++) {
				if (fork())
					continue;
				for (;; usleep(1000000)) {
					if (!fork())
						_exit(0);
					wait(0);
				}
			}
			pause();
		}
	END
	gcc -O1 -o forks forks.c || return
	recorded '500 processes that fork' "exec $dir/forks"
}

dlopens() {
	cat >opens.c <<-'END'
		#include <dlfcn.h>
		#include <pthread.h>
		static void *open_close(void *name) { for (;;) { void *h = dlopen(name, RTLD_NOW); if (h) dlclose(h); } }
		int main(void)
		{
			static char *names[] = { "libm.so.6", "libresolv.so.2", "libnsl.so.1", "libcrypt.so.1" };
			pthread_t t;
			for (int i = 0; i < 200; i++)
				pthread_create(&t, 0, open_close, names[i % 4]);
			pthread_join(t, 0);
		}
	END
	gcc -O1 -o opens opens.c -ldl -lpthread || return
	recorded '200 threads in dlopen' "exec $dir/opens"
}

beside() {
	command -v perf >/dev/null || { echo "perf is not installed"; return; }
	perf record -q -a -g -o perf.theirs -- sleep 4 >/dev/null 2>&1 &
	local pid=$!
	"$gperf" record -q -a -g -o perf.other -- sleep 4 &
	local other=$!
	ended INT 3000 "$gperf" record -a -g
	wait $pid || echo "  perf fails: perf 6.1 ends with an assertion beside other recorders"
	wait $other || wrong "the other recorder fails"
	for f in perf.data perf.other perf.theirs; do readable $f; done
	leftovers
	row 'two recorders beside perf'
}

for name in ${*:-interrupts kills pushes disk config cgroup limit forks dlopens beside}; do $name; done
exit $failed
