# Everything is a go command or a script; make only gives them short names.

.PHONY: gperf demo test test-kernel check hostile generate bench clean

# main.entry explains a limit of the address space (ulimit -v) that Go's runtime cannot start with; it is for amd64.
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

# A million mutated recordings; ARGS="-mutation-seed 7" makes others.
hostile:
	go test ./cmd/gperf -run Hostile -v -timeout 2h -mutations 1000000 $(ARGS)

generate:
	go generate ./...

# As root: gperf and perf side by side. PERF="perf,/other/perf" names several; ARGS="-n 9 -part dwarf" passes on.
bench:
	go run ./testdata/bench $(ARGS)

clean:
	rm -f gperf perf.data perf.data.old
