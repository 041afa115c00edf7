#!/bin/bash
# Installs gperf, its man pages and its completion, or removes them: make install, make uninstall.
#   testdata/install.sh [--uninstall] DIRECTORY NAME [PREFIX]
#                   DIRECTORY is where PREFIX is now, NAME is gperf's name there, such as gperf-perf
#   $PROGRAM    the program to install (default: gperf)
#   $GPERF      the gperf that prints the completion (default: $PROGRAM); dist.sh sets it, as $PROGRAM may be for arm64
set -euo pipefail
cd "$(dirname "$0")/.."
uninstall=
[ "$1" != --uninstall ] || { uninstall=1; shift; }
directory=$1 name=$2 prefix=${3:-$1}
program=$(realpath "${PROGRAM:-gperf}")
gperf=${GPERF:-$program}

# put FILE MODE installs its standard input as FILE, or removes FILE.
put() {
	if [ -n "$uninstall" ]; then cat >/dev/null; rm -f "$directory/$1"; return; fi
	mkdir -p "$(dirname "$directory/$1")"
	cat >"$directory/$1.new"
	chmod "$2" "$directory/$1.new"
	mv -f "$directory/$1.new" "$directory/$1" # the program may be running
}

# renamed replaces the command's name, but not in paths such as ~/.cache/gperf, and not in names of variables.
renamed() {
	sed -E -e "s,(^|[^/[:alnum:]_]|\\\\f[BIPR])gperf\\b,\\1$name,g" -e "s,(^|[^[:alnum:]_])GPERF\\b,\\1${name^^},g"
}

# completion prints the script for a shell: it completes the name that gperf is called by.
completion() { (exec -a "$name" "$gperf" completion "$1"); }

if [ -n "$uninstall" ]; then program=/dev/null; completion() { :; }; fi
put "bin/$name" 755 <"$program"
for page in docs/man/*.1; do
	to=$(basename "$page")
	renamed <"$page" | put "share/man/man1/$name${to#gperf}" 644
done
completion bash | put "share/bash-completion/completions/$name" 644
completion zsh | put "share/zsh/site-functions/_$name" 644
# The unit is off until systemctl enable. Its files in /etc and /var have gperf's name whatever the command is called.
sed -e "s,@BIN@,$prefix/bin," -e "s,@NAME@,$name,g" testdata/systemd/gperf-continuous.service |
	put "lib/systemd/system/$name-continuous.service" 644
completion fish | put "share/fish/vendor_completions.d/$name.fish" 644
