# Short names for go commands and scripts.

.PHONY: gperf demo test test-kernel check hostile generate bench clean

# On amd64, main.entry reports a limit of the address space (ulimit -v) that is too low for Go's runtime.
gperf: entry = $(if $(filter amd64,$(shell go env GOARCH)),-ldflags='-E main.entry')
gperf:
	CGO_ENABLED=0 go build -trimpath $(entry) -o gperf ./cmd/gperf

# As root: build, record drops, script, fold and report them.
demo:
	testdata/demo.sh

test:
	testdata/test.sh

# As root: the tests that record, on Debian's kernels in QEMU. KERNEL=all, or KERNEL="5.10 arm64-6.1"; ARGS="-short".
test-kernel:
	testdata/kernels/test.sh $(ARGS) $(KERNEL)

# What CI runs: build, gofmt, vet, staticcheck, generated code, tests, and some of the tests on four kernels.
check:
	.ci/run

# Test a million mutated recordings; ARGS="-mutation-seed 7" makes others.
hostile:
	go test ./cmd/gperf -run Hostile -v -timeout 2h -mutations 1000000 $(ARGS)

generate:
	go generate ./...

# As root: compare gperf with perf. PERF="perf,/other/perf" names several; ARGS="-n 9 -part dwarf" passes arguments.
bench:
	go run ./internal/testutil/bench $(ARGS)

clean:
	rm -f gperf perf.data perf.data.old
