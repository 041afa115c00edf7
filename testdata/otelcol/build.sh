#!/bin/sh
# Builds an OpenTelemetry collector with the pipeline of profiles, for the tests of gperf push:
#
#	testdata/otelcol/build.sh /tmp/otelcol
#	GPERF_OTELCOL=/tmp/otelcol go test ./cmd/gperf -run PushCollector
#
# It is a module of its own, so that gperf's has none of the collector's.
set -eu
out=$(realpath -m "${1:?usage: build.sh PROGRAM}")
cd "$(dirname "$0")"
exec env CGO_ENABLED=0 GOFLAGS=-mod=mod go build -trimpath -ldflags='-s -w' -o "$out" .
