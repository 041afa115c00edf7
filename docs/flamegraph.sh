#!/bin/bash
# Makes docs/flamegraph.png, as root on a Debian machine: gperf records a Go build from an empty cache and writes the
# flame graph; Chromium takes a picture of the page.
set -euo pipefail
cd "$(dirname "$0")/.."
. testdata/need.sh
need chromium-headless-shell chromium-headless-shell
need pngquant pngquant
install_needed

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$work/gperf" ./cmd/gperf
export PATH=$work:$PATH # the page's title is the command line

png=$PWD/docs/flamegraph.png
cd "$work"
GOCACHE=$work/cache gperf record -g -F 499 -- go build net/http
gperf report --format flamegraph -o page.html
chromium-headless-shell --no-sandbox --hide-scrollbars --window-size=1280,600 --screenshot=page.png "file://$work/page.html"
pngquant --force --output "$png" 64 page.png
