package main

import (
	"strings"
	"testing"

	"gperf/format"
)

// TestLostSideBand: losses of an event without samples are no samples, though perf
// report's total includes them.
func TestLostSideBand(t *testing.T) {
	const samples, sideBand = 7, 8 // ids
	st := format.SampleIdentifier | usual
	attrs := []format.Attr{
		{Type: format.TypeSoftware, SamplePeriod: 1, SampleType: st, Flags: format.FlagSampleIDAll, IDs: []uint64{samples}},
		{Type: format.TypeSoftware, Config: 9, SampleType: st, Flags: format.FlagSampleIDAll, IDs: []uint64{sideBand}}, // dummy
	}
	for _, test := range []struct {
		name string
		lost map[uint64]uint64
		want string // "" for nothing
	}{
		{"nothing", nil, ""},
		{"samples", map[uint64]uint64{samples: 3}, "gperf: 3 samples were lost while recording"},
		{"side band", map[uint64]uint64{sideBand: 4}, "gperf: 4 other records (mappings, names of processes) were lost while recording"},
		{"both", map[uint64]uint64{samples: 3, sideBand: 4}, "gperf: 3 samples and 4 other records (mappings, names of processes) were lost while recording"},
	} {
		t.Run(test.name, func(t *testing.T) {
			data := sample(format.MiscUser, u64s(samples, 0x400100), pidTID(10, 10), u64s(1000))
			for id, n := range test.lost {
				l := format.LostSamples{Lost: n, ID: format.RecordID{ID: id}}
				data = append(data, l.AppendTo(nil, st)...)
			}
			file := makeRecording(t, "x86_64", attrs, data)
			for _, command := range []string{"script", "report", "script --format pprof -o /dev/null"} {
				_, stderr := gperf(t, append(strings.Fields(command), "-i", file)...)
				if !strings.Contains(stderr, test.want) || test.want == "" && strings.Contains(stderr, "lost") {
					t.Errorf("gperf %s says\n%swant %q", command, stderr, test.want)
				}
			}
			asPerf(t, file, "report", "report --stats")
		})
	}
}
