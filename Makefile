# Short names for go commands and scripts.

.PHONY: gperf install uninstall dist deps demo test test-fast test-kernel check hostile fuzz generate bench clean

# On linux/amd64, main.entry reports a limit of the address space (ulimit -v) that is too low for Go's runtime.
gperf: entry = $(if $(filter linux/amd64,$(shell go env GOOS)/$(shell go env GOARCH)),-ldflags='-E main.entry')
gperf:
	CGO_ENABLED=0 go build -trimpath $(entry) -o $(PROGRAM) ./cmd/gperf
PROGRAM = gperf

# Install the program, its man pages, its completion and a unit for systemd, which is off. NAME=gperf-perf gives them
# another name: on Debian, /usr/bin/gperf belongs to GNU gperf. DESTDIR is a directory to install into, for packages.
PREFIX = /usr/local
NAME = gperf
install:
	[ -x $(PROGRAM) ] || $(MAKE) gperf
	PROGRAM=$(PROGRAM) testdata/install.sh "$(DESTDIR)$(PREFIX)" "$(NAME)" "$(PREFIX)"

uninstall:
	testdata/install.sh --uninstall "$(DESTDIR)$(PREFIX)" "$(NAME)"

# Build archives for all systems (OTHERS="windows/amd64" besides Linux), Debian packages and checksums. Builds of one
# commit are equal byte for byte.
dist:
	testdata/dist/dist.sh

# As root: install the Debian packages that the tests need. Others: list them.
deps:
	testdata/deps.sh

# As root: build, record drops, script, fold and report them.
demo:
	testdata/demo.sh

test:
	testdata/test.sh

# The tests that need neither root nor other tools, in less than a minute; the last line names the rest.
test-fast:
	testdata/test.sh --fast

# As root: the tests that record, on Debian's kernels in QEMU. KERNEL=all, or KERNEL="5.10 arm64-6.1"; ARGS="-short".
test-kernel:
	testdata/kernels/test.sh $(ARGS) $(KERNEL)

# What CI runs: build, gofmt, vet, staticcheck, generated code, tests, the race detector, packages, and some tests on five
# kernels.
check:
	.ci/run

# Test a million mutated recordings, and each recording cut short at 200 places; ARGS="-mutation-seed 7" makes others.
hostile:
	go test ./cmd/gperf -run Hostile -v -timeout 2h -mutations 1000000 -cuts 200 $(ARGS)

# Fuzz the readers of what others control; ARGS="symbolize:FuzzPerfMap" names targets, MINUTES and JOBS limit them.
fuzz:
	testdata/hostile/fuzz.sh $(ARGS)

generate:
	go generate ./...

# As root: compare gperf with perf. PERF="perf,/other/perf" names several; ARGS="-n 9 -part dwarf" passes arguments.
bench:
	go run ./internal/testutil/bench $(ARGS)

clean:
	rm -f gperf gperf-*.tar.gz gperf-perf_*.deb perf.data perf.data.old
