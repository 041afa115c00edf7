package main

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// bytesAsked matches the field bytes in the text of answers.data's samples of malloc.
var bytesAsked = regexp.MustCompile(` bytes=(0x[0-9a-f]+)`)

func TestWeight(t *testing.T) {
	file := testRecording("answers.data")
	sum, samples := uint64(0), 0
	for _, m := range bytesAsked.FindAllStringSubmatch(mustGperf(t, "script", "-i", file), -1) {
		n, err := strconv.ParseUint(m[1], 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum, samples = sum+n, samples+1
	}
	want := strconv.FormatUint(sum, 10)
	t.Run("report", func(t *testing.T) {
		r := runGperf(t, "report", "--weight", "bytes", "-F", "period,comm", "-i", file)
		if !strings.Contains(r.stdout, "# Sum of bytes: "+want+"\n") || !regexp.MustCompile(`(?m)^ +`+want+
			`  cat *$`).MatchString(r.stdout) || samples == 0 {
			t.Errorf("not %s of %d samples:\n%s", want, samples, r.stdout)
		}
		if !strings.Contains(r.stderr, "samples, which have no field bytes") {
			t.Errorf("stderr: %s", r.stderr)
		}
	})
	t.Run("pprof", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "weight.pb.gz")
		mustGperf(t, "report", "--weight", "bytes", "--format", "pprof", "-o", out, "-i", file)
		text := goToolPprof(t, "-raw", out)
		if !strings.Contains(text, "probe_libc:malloc/bytes") {
			t.Errorf("the unit is not bytes:\n%.400s", text)
		}
	})
	t.Run("unknown field", func(t *testing.T) {
		r := runGperf(t, "report", "--weight", "byte", "-i", file)
		if r.code != exitUsage || !strings.Contains(r.stderr, "did you mean bytes?") {
			t.Errorf("exit code %d, %q", r.code, r.stderr)
		}
	})
}

// Folded stacks weigh tracepoints by the field, too: without it, each sample counts as 1.
func TestWeightFolded(t *testing.T) {
	sum := func(args ...string) (n uint64) {
		for line := range strings.Lines(mustGperf(t, append([]string{"report", "--format", "folded"}, args...)...)) {
			v, err := strconv.ParseUint(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			n += v
		}
		return n
	}
	two := testRecording("two.data")
	if weighted, plain := sum("--weight", "prev_prio", "-i", two), sum("-i", two, "--by-event"); weighted < 100 ||
		weighted == plain {
		t.Errorf("weighted %d, plain %d", weighted, plain)
	}
}
