#!/bin/bash
# As root: records all processes for some minutes, with record -a -g and with record --continuous, while the user nobody
# tries what docs/threats.md says that a local user may try. Two honest programs run meanwhile: one in C without frame
# pointers, one in Go. Prints each figure with its limit; the exit status says whether all of them held.
#   testdata/hostile/soak.sh
#   $GPERF      the program (default: ./gperf)
#   $MINUTES    how long it records (default: 20)
#   $KEEP       a directory for the recordings and messages (default: they are removed)
set -um # jobs have groups of their own, and heed SIGINT
gperf=$(realpath "${GPERF:-./gperf}") minutes=${MINUTES:-20} here=$(realpath "$(dirname "$0")")
programs=$here/../programs
[ "$(id -u)" = 0 ] || { echo "only root can record all processes" >&2; exit 1; }
dir=$(mktemp -d) && chmod 711 "$dir" && cd "$dir" || exit 1
export HOME=$dir/home TMPDIR=$dir/tmp GOCACHE=${GOCACHE:-$(go env GOCACHE)}
unset DEBUGINFOD_URLS
mkdir home tmp files honest user built
chmod 755 honest built && chown nobody user
failed=0
declare -A jobs # the numbers of process groups that run
cleanup() {
	exec 2>/dev/null # bash reports the jobs that it ends
	for job in "${!jobs[@]}"; do kill -9 -- -"$job"; done
	wait 2>/dev/null
	find /tmp -maxdepth 1 -uid "$(id -u nobody)" -newer "$dir/begin" \
		\( -name 'perf-*.map*' -o -name 'jit-*.dump*' \) -exec rm -rf {} +
	if [ -n "${KEEP:-}" ]; then
		mkdir -p "$KEEP" && cp -r "$dir"/{*.data*,files,*.err,*.folded} "$KEEP"
		(cd "$dir/home" && du -a .) >"$KEEP/home.txt"
	fi
	cd / && rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 1' INT TERM
touch begin

now() { date +%s%N; }
# figure NAME VALUE LIMIT UNIT prints a figure, which is at most its limit.
figure() {
	local verdict=ok
	[ "$2" -le "$3" ] || verdict=TOO-MUCH failed=1
	printf '%-52s %8d %s, at most %d  %s\n' "$1" "$2" "$4" "$3" $verdict
}
kilobytes() { du -sk "$@" 2>/dev/null | awk '{n += $1} END {print n + 0}'; }
peak() { awk '/VmHWM/ {print int($2 / 1024)}' "/proc/$1/status"; }

# Programs.
gcc -O1 -g -fomit-frame-pointer -fno-optimize-sibling-calls -Wl,--build-id -o honest/honest-c "$programs/deep.c" ||
	exit 1
cat >chain.go <<'END'
package main

var sum uint64

//go:noinline
func leaf(n uint64) {
	for i := range n {
		sum = sum*31 + i
	}
}

//go:noinline
func middle(n uint64) { leaf(n); sum++ }

//go:noinline
func outer(n uint64) { middle(n); sum++ }

func main() {
	for {
		outer(1e6)
	}
}
END
CGO_ENABLED=0 go build -o honest/honest-go chain.go || exit 1
gcc -O1 -o built/strange "$programs/strange.c" || exit 1
gcc -O1 -rdynamic -o built/python3.12 "$here/lies.c" -ldl -lpthread 2>/dev/null || exit 1
ln built/python3.12 built/lies
gcc -O1 -Wl,--build-id=none -o built/plain "$here/lies.c" -ldl -lpthread 2>/dev/null || exit 1
chmod -R a+rX honest built
(umask 77; echo '10000000 100000 SECRET_OF_ROOT' >secret)

# attack runs as the user: attempts of docs/threats.md, all at once. $1 has what is built, $2 the honest programs, $3 the
# secret file; the current directory is the user's.
cat >attack.sh <<'END'
built=$1 honest=$2 secret=$3
# each SECONDS COMMAND... runs a command again and again.
each() { local s=$1; shift; while :; do "$@"; sleep "$s"; done >/dev/null 2>&1; }
# brief SECONDS COMMAND... runs it for some time.
brief() { local s=$1 pid; shift; "$@" & pid=$!; sleep "$s"; kill -9 $pid; wait $pid; }

# The maps and dumps of processes that run: FIFOs, links, directories, lines without end.
swapped() {
	local map=/tmp/perf-$1.map
	for what in fifo secret zero circle dir lines dump; do
		rm -rf "$map.new"
		case $what in
		fifo) mkfifo "$map.new" ;;
		secret) ln -s "$secret" "$map.new" ;;
		zero) ln -s /dev/zero "$map.new" ;;
		circle) ln -s "$map" "$map.new" ;;
		dir) mkdir "$map.new" ;;
		lines)
			{ echo $'10000000 100000 own\033[2J'; head -c 100000 /dev/urandom; echo '0 ffffffffffffffff all'; } >"$map.new"
			;;
		dump) ln -s "/tmp/jit-$2.dump" "$map.new" ;;
		esac
		rm -rf "$map" && mv -T "$map.new" "$map"
		sleep 0.1
	done
}
"$built/lies" map & map=$!
"$built/lies" dump & dump=$!
each 0 swapped $map $dump &
each 0 swapped $dump $map &
# New dumps, and a FIFO at a dump's name while it is recorded.
dumps() {
	"$built/lies" dump & local pid=$!
	sleep 1
	rm -f /tmp/jit-$pid.dump
	mkfifo /tmp/jit-$pid.dump
	sleep 2
	kill -9 $pid
	wait $pid
	rm -f /tmp/jit-$pid.dump
}
each 1 dumps &

# Copies of the honest programs with their build IDs and names, and false unwind information.
mkdir -p x
for name in honest-c honest-go; do "$built/lies" poison "$honest/$name" "$name"; chmod +x "$name"; done
"$built/lies" poison "$honest/honest-c" x/copy && chmod +x x/copy
poisoned() { brief 1 x/copy 1000000000; cp honest-c x/deep.$RANDOM; brief 1 x/deep.* 1000000000; rm -f x/deep.*; }
each 1 poisoned &

# Very many mappings, 100,000 names, and the path of a file that is a line of /proc/PID/maps and moves a cursor.
odd=$'x\033[2J\n00400000-7fffffffffff r-xp 00000000 00:00 0 [vdso]'
cp "$built/strange" "$odd"
each 8 brief 2 "./$odd" &

# Interpreters that lie.
"$built/python3.12" python &
each 2 brief 3 "$built/python3.12" python &

# Programs that are deleted while they run, large ones among them, and others at their paths.
deleted() {
	local name=deleted.$RANDOM
	cp "$built/plain" $name && truncate -s 60M $name
	./$name busy & local pid=$!
	sleep 0.5
	rm $name
	mkfifo $name
	sleep 1
	kill -9 $pid
	rm -f $name
}
each 2 deleted &
replaced() {
	cp "$built/lies" replaced
	./replaced map & local pid=$!
	for file in honest-c "$built/strange" honest-go; do cp "$file" new; mv -T new replaced; sleep 0.3; done
	rm replaced; ln -s "$secret" replaced; sleep 0.3; rm replaced
	kill -9 $pid
	wait $pid
}
each 1 replaced &

# Short processes with strange names, and libraries that come and go.
short() { (exec -a $'\033]0;title\007;a;b' /bin/true); ./$'new\nline\033[31m'; }
cp /bin/true $'new\nline\033[31m'
each 0.3 short &
"$built/lies" opens &

# Other namespaces, where the kernel lets users have them: a FIFO at the path of a program.
each 5 unshare -Urm sh -c "mount -t tmpfs none /mnt && cp $built/lies /mnt/lies || exit
	/mnt/lies map & sleep 1; rm /mnt/lies; mkfifo /mnt/lies; sleep 2; kill -9 \$!" &
wait
END

nice -n 5 honest/honest-c 1000000000000 & jobs[$!]=
GODEBUG=asyncpreemptoff=1 GOMAXPROCS=1 nice -n 5 honest/honest-go & jobs[$!]=
sleep 1
"$gperf" record -a -g -F 199 -o all.data --switch-output=64M --switch-max-files 8 >all.err 2>&1 </dev/null & all=$!
"$gperf" record --continuous -o files --max-total 256M >continuous.err 2>&1 </dev/null & continuous=$!
jobs[$all]= jobs[$continuous]=
sleep 5
(cd user && exec setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups env -i PATH="$PATH" HOME="$dir/user" nice -n 5 \
	bash /dev/fd/3 "$dir/built" "$dir/honest" "$dir/secret" 3<../attack.sh >/dev/null 2>&1 </dev/null) & attack=$!
jobs[$attack]=
for ((i = 0; i < minutes * 6; i++)); do
	sleep 10
	for job in $all $continuous $attack; do
		kill -0 "$job" 2>/dev/null && continue
		echo "process $job has ended: $(tail -n 2 ./*.err)"
		unset "jobs[$job]"
		failed=1
		break 2
	done
done

# The user goes on while the recorders end and the recordings are read.
for recorder in all continuous; do
	pid=${!recorder}
	figure "$recorder: peak of the memory" "$(peak $pid)" 512 MB
	t=$(now)
	kill -INT $pid
	wait $pid
	code=$?
	unset "jobs[$pid]" # another process may get its number
	figure "$recorder: end after Ctrl-C" $((($(now) - t) / 1000000)) 1000 ms
	[ $code = 0 ] || { echo "$recorder: exit code $code"; failed=1; }
	if grep -a '^goroutine \|^panic' $recorder.err; then failed=1; fi
done
sed 's/^/  /' all.err continuous.err | cat -v

# right NAME PATTERN FILE prints the share of a program's samples that have not the known callers, in 1/10,000, and how
# many different stacks it has.
kernel='(;(asm_|entry_|error_|exc_|irq|ret_|pvm|native_|sysvec|common_interrupt|nmi|__irq)[^;]*(;.*)?)?'
c="^honest-c;_start;__libc_start_main[^;]*;(__libc_start_call_main;)?main(;down){0,21}(;work)?$kernel [0-9]+\$"
go='goexit[^;]*;runtime\.main;main\.main(;main\.outer(;main\.middle(;main\.leaf)?)?)?'
scheduler='(mstart|morestack|mcall)[^;]*' # it has a stack of its own, and no goroutine
go="^honest-go;runtime\.($go|$scheduler)(;(runtime\.|__vdso_|gogo)[^;]*)*$kernel [0-9]+\$"
right() {
	grep -a -E -v "$2" "$3" >"$1.wrong"
	awk 'FILENAME ~ /\.wrong$/ {wrong += $NF; next} {all += $NF; n++}
		END {printf "%d %d\n", all ? wrong * 10000 / all : 10000, n}' "$1.wrong" "$3"
}
for recorder in all continuous; do
	case $recorder in all) files=(all.data*) ;; *) files=(files/*) ;; esac
	for name in honest-c honest-go; do
		: >$recorder-$name.folded
		for file in "${files[@]}"; do
			t=$(now)
			timeout --foreground -k 1 120 "$gperf" script --format folded --comm $name -i "$file" \
				>>$recorder-$name.folded 2>read.err ||
				{ echo "script of $file: exit code $?: $(tail -n 1 read.err)"; failed=1; }
			t=$((($(now) - t) / 1000000))
			[ $t -le ${slowest:=0} ] || slowest=$t
		done
		case $name in honest-c) pattern=$c ;; *) pattern=$go ;; esac
		read -r wrong stacks <<<"$(right $recorder-$name "$pattern" $recorder-$name.folded)"
		figure "$recorder: wrong stacks of $name ($stacks different)" $wrong 50 /10000
		[ ! -s $recorder-$name.wrong ] || sort -rn $recorder-$name.wrong | head -n 3 | cut -c 1-300 | sed 's/^/  /' | cat -v
	done
	for file in "${files[@]}"; do
		timeout --foreground -k 1 120 "$gperf" script -i "$file" >text 2>>read.err ||
			{ echo "script of $file: exit code $?"; failed=1; }
		if grep -a -q SECRET_OF_ROOT text; then echo "$file: the secret is shown"; failed=1; fi
	done
done
rm -f text
figure 'script: the longest time for a file' $slowest 60000 ms
figure 'all: disk' "$(kilobytes all.data*)" $((8 * 80 * 1024)) kB
figure 'continuous: disk' "$(kilobytes files)" $((256 * 1024)) kB
figure '~/.debug' "$(kilobytes home/.debug)" $((1100 * 1024)) kB
figure '~/.cache' "$(kilobytes home/.cache)" $((1100 * 1024)) kB
figure 'temporary files' "$(find tmp -mindepth 1 | wc -l)" 0 files
find tmp -mindepth 1 | head -n 5
exit $failed
