#!/bin/bash
# Runs the loads of runtimes whose stacks gperf records. make bench ARGS='-part runtimes' calls it.
#
#	load.sh install               installs the Debian packages, as root
#	load.sh prepare DIR           compiles the programs and makes their data in DIR
#	load.sh list DIR              prints the loads that DIR is prepared for; those of missing programs with a "-"
#	load.sh run DIR SECONDS LOAD...  runs the loads at the same time, for so many seconds
#
# The first process of each load is named @LOAD, so that a recording shows to which load each process belongs.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:/usr/sbin:/usr/local/go/bin

loads="node java java-int java-new python python-new python-perf python-perfjit php php-jit ruby redis nginx postgres
ocaml ghc rust go openssl xz sqlite sort git find chain"

jdbc=/usr/share/java/postgresql.jar

install() {
	cd "$here/../.."
	. testdata/need.sh
	need node nodejs
	need javac default-jdk-headless
	need /usr/bin/python3 python3
	need nginx nginx-light
	need ab apache2-utils
	need redis-server redis-server
	need redis-benchmark redis-tools
	need pgbench postgresql
	need $jdbc libpostgresql-jdbc-java
	need php php-cli
	need ruby ruby
	need ocamlopt ocaml-nox
	need ghc ghc
	need rustc rustc
	need openssl openssl
	need xz xz-utils
	need sqlite3 sqlite3
	need git git
	need /usr/share/doc/libc6-dbg libc6-dbg # perf needs the names of the functions that start threads
	install_needed
}

# new_python prints the newest CPython with perf trampolines, of the system or of pyenv.
new_python() {
	local p
	for p in $(ls -d /usr/bin/python3.1[2-9] /usr/local/bin/python3.1[2-9] ~/.pyenv/versions/3.1[2-9]*/bin/python3 \
		2>/dev/null | sort -V -r -t/ -k6); do
		"$p" -X perf -c '' 2>/dev/null && echo "$p" && return
	done
	return 1
}

# new_java prints the newest JDK's java, unless it is the default.
new_java() {
	local p
	p=$(ls -d /usr/lib/jvm/*/bin/java 2>/dev/null | grep -v default | awk '{ match($0, /-[0-9]+/)
		print substr($0, RSTART + 1, RLENGTH - 1), $0 }' | sort -n | tail -1 | cut -d' ' -f2)
	[ -n "$p" ] && [ "$(readlink -f "$p")" != "$(readlink -f "$(command -v java)")" ] && echo "$p"
}

# postgres_programs prints the directory of PostgreSQL's server.
postgres_programs() { ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1 | grep .; }

# as_postgres starts a command as PostgreSQL's user: its programs refuse root.
as_postgres=()
[ "$(id -u)" != 0 ] || as_postgres=(setpriv --reuid postgres --regid postgres --clear-groups)

# try runs the steps that prepare a load. The load exists if they succeed.
try() {
	local load=$1
	shift
	(cd "$dir" && "$@") >"$dir/$load.log" 2>&1 && touch "$dir/$load.ready"
}

prepare() {
	dir=$(mkdir -p "$1" && cd "$1" && pwd)
	chmod a+rx "$dir"
	cp "$here"/[Ll]oad.* "$here"/[Cc]hain.* "$dir/"
	try node node --version
	try java javac -d . Load.java && touch "$dir/java-int.ready" && try java-new new_java
	try python /usr/bin/python3 --version
	try python-new new_python && touch "$dir/python-perf.ready" &&
		try python-perfjit "$(new_python)" -X perf_jit -c 'import sys; sys.exit(sys.version_info < (3, 13))'
	try php php --version && try php-jit php_jit -r 'exit(opcache_get_status()["jit"]["on"] ? 0 : 1);'
	try ruby ruby --version
	try redis prepare_redis
	try nginx prepare_nginx
	try postgres prepare_postgres && try chain prepare_chain
	try ocaml prepare_ocaml
	try ghc ghc -O2 -threaded -rtsopts -o load-ghc load.hs
	try rust rustc -O -o load-rust load.rs
	try go go build -o load-go load.go
	try openssl openssl version
	try sort prepare_text && try xz xz --version
	try sqlite sqlite3 --version
	try git prepare_git
	try find find --version
}

prepare_ocaml() { ocamlopt -I +unix unix.cmxa -o load-ocaml load.ml; }

prepare_redis() { command -v redis-server && command -v redis-benchmark; }

prepare_nginx() {
	command -v ab || return
	mkdir -p www
	head -c 20000 /dev/urandom | base64 >www/index.html
	cat >nginx.conf <<-END
		daemon off; user root; worker_processes 1; pid $dir/nginx.pid; error_log $dir/nginx.err;
		events { worker_connections 256; }
		http {
			access_log $dir/nginx.access; gzip on; gzip_types *; gzip_min_length 1;
			client_body_temp_path $dir; proxy_temp_path $dir; fastcgi_temp_path $dir; uwsgi_temp_path $dir;
			scgi_temp_path $dir;
			server { listen 127.0.0.1:18931; root $dir/www; }
		}
	END
	nginx -t -c "$dir/nginx.conf"
}

prepare_postgres() {
	local bin
	bin=$(postgres_programs) && command -v pgbench || return
	mkdir -p pg && chmod 755 pg && { [ "$(id -u)" != 0 ] || chown postgres pg; }
	"${as_postgres[@]}" "$bin/initdb" -D "$dir/pg/data" -U bench --no-sync -A trust &&
		with_postgres "" pgbench -h "$dir/pg" -U bench -i -s 5 -q postgres
}

# with_postgres ADDRESS COMMAND... runs a command while the server runs, which listens at the address, if it is not empty,
# and at a socket.
with_postgres() {
	local server status address=$1
	shift
	"${as_postgres[@]}" "$(postgres_programs)/postgres" -D "$dir/pg/${data:-data}" -k "$dir/pg" -c listen_addresses="$address" -c fsync=off \
		>"$dir/pg.log" 2>&1 &
	server=$!
	until psql -h "$dir/pg" -U bench -c 'select 1' postgres >/dev/null 2>&1; do
		kill -0 $server || return 1
		sleep 0.1
	done
	"$@"
	status=$?
	kill -INT $server
	wait $server
	return $status
}

# prepare_chain makes nginx ask node, which asks Python, which asks Java, which asks PostgreSQL.
prepare_chain() {
	local p
	for p in ab nginx node python3 java $jdbc; do command -v "$p" || [ -e "$p" ] || return; done
	javac -d . Chain.java
	rm -rf pg/chain && cp -a pg/data pg/chain
	sed "s,nginx\.\(pid\|err\|access\),chain.\1,; s,root $dir/www;,location / { proxy_pass http://127.0.0.1:18933; },
		s,18931,18932," nginx.conf >chain.conf
	nginx -t -c "$dir/chain.conf"
}

load_chain() { data=chain PGPORT=18936 with_postgres 127.0.0.1 run_chain; }

run_chain() {
	java -cp ".:$jdbc" Chain 18935 "jdbc:postgresql://127.0.0.1:18936/postgres" &
	/usr/bin/python3 chain.py 18934 18935 &
	node chain.js 18933 18934 &
	nginx -c "$dir/chain.conf" &
	local servers=$(jobs -p) end=$((SECONDS + seconds))
	until curl -sf http://127.0.0.1:18932/1 >/dev/null; do sleep 0.2; done
	while [ $SECONDS -lt $end ]; do timeout "$((end - SECONDS))" ab -q -c 4 -n 100000 http://127.0.0.1:18932/x; done
	kill $servers
}

prepare_text() {
	awk 'BEGIN { srand(1); for (i = 0; i < 1500000; i++) print int(rand() * 1e9), "line", i }' >text
}

# prepare_git copies this repository if it is one, else a new one with many commits.
prepare_git() {
	local i
	rm -rf repo
	git clone -q --bare "$here/../.." repo && return
	git init -q repo && cd repo && git config user.name bench && git config user.email bench@localhost
	for i in $(seq 300); do
		echo "$i $RANDOM" >>file && git add file && git commit -q -m "change $i" || return
	done
}

# repeat runs a shell command again and again until the time is over.
repeat() {
	local end=$((SECONDS + seconds))
	while [ $SECONDS -lt $end ]; do timeout $((end - SECONDS)) bash -c "$1" || break; done
}

load_node() { node load.js "$seconds"; }
load_java() { java -cp . Load "$seconds"; }
load_java-int() { java -Xint -cp . Load "$seconds"; }
load_java-new() { "$(new_java)" -cp . Load "$seconds"; }
load_python() { /usr/bin/python3 load.py "$seconds"; }
load_python-new() { "$(new_python)" load.py "$seconds"; }
load_python-perf() { "$(new_python)" -X perf load.py "$seconds"; }
load_python-perfjit() { "$(new_python)" -X perf_jit load.py "$seconds"; }
load_php() { php load.php "$seconds"; }
load_php-jit() { php_jit load.php "$seconds"; }
php_jit() { php -d opcache.enable_cli=1 -d opcache.jit=tracing -d opcache.jit_buffer_size=64M "$@"; }
load_ruby() { ruby load.rb "$seconds"; }
load_ocaml() { ./load-ocaml "$seconds"; }
load_ghc() { ./load-ghc "$seconds" +RTS -N2; }
load_rust() { ./load-rust "$seconds"; }
load_go() { ./load-go "$seconds"; }
load_openssl() {
	repeat 'openssl speed -seconds 1 rsa2048 ecdsap256 sha256; openssl speed -seconds 1 -evp aes-256-gcm'
}
load_xz() { repeat 'head -c 3000000 text | xz -6 -c >/dev/null'; }
load_sort() { repeat 'sort --parallel=2 -S 20M -o text.sorted text'; }
load_find() { repeat "find /usr /etc -name '*.h' -newer /etc/passwd"; }
load_git() {
	repeat 'git -C repo log --stat -200 >/dev/null; git -C repo fsck >/dev/null 2>&1; git -C repo log -S func -20 >/dev/null
		git -C repo repack -adfq'
}
load_sqlite() { repeat 'rm -f load.db; sqlite3 load.db <load.sql'; }
load_redis() {
	redis-server --port 0 --unixsocket "$dir/redis.sock" --save '' --daemonize no --dir "$dir" --io-threads 1 &
	local server=$! end=$((SECONDS + seconds))
	until [ -S redis.sock ]; do sleep 0.1; done
	while [ $SECONDS -lt $end ]; do
		timeout "$((end - SECONDS))" redis-benchmark -s redis.sock -q -n 50000 -r 10000 -d 100 -P 4 \
			-t set,get,incr,lpush,lrange_100,sadd,hset,zadd
	done
	kill $server
	wait $server
}
load_nginx() {
	nginx -c "$dir/nginx.conf" &
	local server=$! end=$((SECONDS + seconds))
	sleep 0.3
	while [ $SECONDS -lt $end ]; do
		ab -q -t "$((end - SECONDS))" -n 10000000 -c 16 -k -H 'Accept-Encoding: gzip' http://127.0.0.1:18931/index.html
	done
	kill $server
	wait $server
}
load_postgres() { with_postgres "" pgbench -h "$dir/pg" -U bench -T "$seconds" -c 4 -j 2 postgres; }

# run_one becomes the first process of a load.
run_one() {
	printf '@%s' "$1" >"/proc/$BASHPID/comm"
	cd "$dir" && "load_$1" >"$1.out" 2>&1 </dev/null
	local status=$?
	[ $status = 0 ] || [ $status = 124 ] || { echo "load.sh: $1 failed: $(tail -n 1 "$1.out")" >&2 && exit 1; }
}

run() {
	local load pids=() failed=0
	dir=$1 seconds=$2
	shift 2
	for load; do
		run_one "$load" &
		pids+=($!)
	done
	for load in "${pids[@]}"; do
		wait "$load" || failed=1
	done
	return $failed
}

list() {
	local load
	for load in $loads; do
		if [ -e "$1/$load.ready" ]; then echo "$load"; else echo "-$load"; fi
	done
}

case ${1-} in
install) install ;;
prepare) prepare "$2" ;;
list) list "$2" ;;
run) shift && run "$@" ;;
*) sed -n '2,/^$/s/^# \{0,1\}//p' "$0" | head -9 >&2 && exit 2 ;;
esac
