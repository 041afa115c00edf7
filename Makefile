# Everything is a go command or a script; make only gives them short names.

.PHONY: gperf demo test check hostile generate bench clean

gperf:
	go build -o gperf ./cmd/gperf

# As root: build, record drops, script, fold and report them.
demo:
	testdata/demo.sh

test:
	testdata/test.sh

# What CI runs: build, gofmt, vet, staticcheck, generated code, tests.
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
