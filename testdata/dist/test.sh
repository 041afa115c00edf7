#!/bin/bash
# Tests make dist: builds of two copies of the checkout are equal, and the Debian package installs and removes cleanly.
# Requires root and dpkg.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*" >&2; exit 1; }

cp -a . "$work/copy"
export OTHERS=windows/amd64 # each of the others takes minutes when nothing is cached
testdata/dist/dist.sh "$work/one" >/dev/null &
(umask 077 && TZ=Asia/Tokyo LC_ALL=C.UTF-8 "$work/copy/testdata/dist/dist.sh" "$work/two" >/dev/null)
wait $!
diff -r "$work/one" "$work/two" || fail "two builds differ"
[ "$(ls "$work/one" | grep -c -e '-linux-.*\.tar\.gz$' -e '^gperf-perf_.*\.deb$')" = 4 ] || fail "not four files: $(ls "$work/one")"
(cd "$work/one" && sha256sum --quiet -c SHA256SUMS) || fail "SHA256SUMS does not match"
[ "$(wc -l <"$work/one/SHA256SUMS")" = 5 ] || fail "SHA256SUMS has not five files"

# The package must not have GNU gperf's files. Its database of packages is empty, so nothing else is installed.
deb=$(echo "$work/one"/*_"$(dpkg --print-architecture)".deb)
! dpkg -c "$deb" | grep -E '/gperf(\.1.*)?$' || fail "$deb has files of GNU gperf"
root=$work/root
mkdir -p "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/info"
: >"$root/var/lib/dpkg/status"
dpkg --root="$root" -i "$deb" >/dev/null
"$root/usr/bin/gperf-perf" version | grep -q '^gperf version' || fail "the installed program prints no version"
dpkg --root="$root" --verify gperf-perf
dpkg --root="$root" --purge gperf-perf >/dev/null
left=$(find "$root" -path "$root/var" -prune -o ! -type d -print)
[ -z "$left" ] || fail "the package leaves $left"
echo "two builds are equal; the package installs and removes cleanly"
