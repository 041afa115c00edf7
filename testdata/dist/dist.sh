#!/bin/bash
# Builds the release: gperf-VERSION-linux-ARCH.tar.gz and a Debian package gperf-perf for amd64 and arm64, an archive with
# the program alone for each other system, which reads recordings there, and SHA256SUMS.
#   testdata/dist/dist.sh [DIRECTORY]    make dist; default: the top directory
#   $OTHERS                              the other systems; default: all; "" for none
# Builds of one commit are equal byte for byte: all times are the commit's ($SOURCE_DATE_EPOCH).
set -euo pipefail
cd "$(dirname "$0")/../.."
PATH=$PATH:/usr/local/go/bin
export LC_ALL=C TZ=UTC
umask 022
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*' # the clone may be another user's
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

mkdir -p "${1:-.}"
to=$(realpath "${1:-.}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

OTHERS=${OTHERS-linux/386 linux/arm linux/riscv64 linux/s390x linux/ppc64le linux/loong64 darwin/amd64 darwin/arm64
windows/amd64 windows/arm64 freebsd/amd64}
made=() # files

build() { GOARCH=$1 make --no-print-directory gperf PROGRAM="$2"; }
for ARCH in amd64 arm64; do build $ARCH "$work/$ARCH"; done
export GPERF=$work/$(go env GOHOSTARCH) # prints the completion

# The version that Go stamps into the program: the tag, or a pseudo-version with the commit.
VERSION=$(go version -m "$GPERF" | awk '$1 == "mod" { print $3 }')
[ "$VERSION" != "(devel)" ] || VERSION=v0.1.0-devel
VERSION=${VERSION#v}

# finish DIRECTORY gives all files the time of the commit.
finish() { find "$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +; }

# pack DIRECTORY FILE makes a Debian package of the directory's files: deb(5), deb-control(5).
pack() {
	mkdir "$1/DEBIAN"
	(cd "$1" && find usr -type f | sort | xargs md5sum) >"$1/DEBIAN/md5sums"
	sed -e "s,@VERSION@,$VERSION," -e "s,@ARCH@,$ARCH," -e "s,@SIZE@,$(du -sk "$1/usr" | cut -f1)," testdata/dist/control >"$1/DEBIAN/control"
	finish "$1"
	dpkg-deb --root-owner-group -Zgzip -z9 --build "$1" "$2" >/dev/null
}

for ARCH in amd64 arm64; do
	name=gperf-$VERSION-linux-$ARCH
	PROGRAM=$work/$ARCH testdata/install.sh "$work/tar/$name" gperf /usr/local
	cp README.md CHANGELOG.md LICENSE "$work/tar/$name"
	finish "$work/tar"
	tar -C "$work/tar" --sort=name --owner=0 --group=0 --numeric-owner -c "$name" | gzip -9n >"$to/$name.tar.gz"
	rm -r "$work/tar"

	STAGE=$work/deb
	PROGRAM=$work/$ARCH testdata/install.sh "$STAGE/usr" gperf-perf /usr
	[ ! -d "$STAGE/usr/share/man" ] || gzip -9nr "$STAGE/usr/share/man"
	doc=$STAGE/usr/share/doc/gperf-perf
	mkdir -p "$doc"
	cp README.md "$doc"
	gzip -9nc CHANGELOG.md >"$doc/changelog.gz"
	{ echo "gperf is under the Apache License 2.0, its BPF program under the GNU GPL, version 2."; echo; cat LICENSE; } >"$doc/copyright"
	pack "$STAGE" "$to/gperf-perf_${VERSION}_$ARCH.deb"
	rm -r "$STAGE"
	made+=("$name.tar.gz" "gperf-perf_${VERSION}_$ARCH.deb")
done

# The others, without the symbol table: crashes name functions by Go's own table.
for system in $OTHERS; do
	name=gperf-$VERSION-${system/\//-}
	program=$work/other/$name/gperf
	[[ $system != windows/* ]] || program+=.exe
	GOOS=${system%/*} GOARCH=${system#*/} CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o "$program" ./cmd/gperf
	cp README.md CHANGELOG.md LICENSE "$work/other/$name"
	finish "$work/other"
	if [[ $system = windows/* ]]; then
		go run ./testdata/dist/zip "$to/$name.zip" "$work/other" "$name"
		made+=("$name.zip")
	else
		tar -C "$work/other" --sort=name --owner=0 --group=0 --numeric-owner -c "$name" | gzip -9n >"$to/$name.tar.gz"
		made+=("$name.tar.gz")
	fi
	rm -r "$work/other"
done
(cd "$to" && sha256sum "${made[@]}" >SHA256SUMS)
printf "$to/%s\n" "${made[@]}" SHA256SUMS
