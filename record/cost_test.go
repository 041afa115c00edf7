package record

import (
	"bytes"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"gperf/format"
)

// The cost in the file is that of the summary, counts runs of the program at the event, and is no more than was there.
func TestRunCost(t *testing.T) {
	before, began := cpuTime(), time.Now()
	exe := stackProgram.Path(t)
	sum, path := recordDWARF(t, Options{MeasureCost: true, Stacks: StackOptions{DWARF: true}}, exe, "vla")
	used, wall := cpuTime()-before, time.Since(began)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := format.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	c, ok := f.Cost()
	if !ok || !reflect.DeepEqual(c, sum.Cost) {
		t.Errorf("the file has the cost %+v (%t), the summary %+v", c, ok, sum.Cost)
	}
	if c.CPU <= 0 || c.CPU > used || c.Wall <= 0 || c.Wall > wall || c.Memory < 1<<20 {
		t.Errorf("%+v: of %v of CPU time in %v", c, used, wall)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root may measure BPF programs")
	}
	i := slices.IndexFunc(c.Programs, func(p format.ProgramCost) bool { return p.Name == "on_event" })
	if i < 0 || c.Programs[i].Runs < sum.Samples/2 || c.Programs[i].Time <= 0 {
		t.Errorf("%d samples, but programs %+v", sum.Samples, c.Programs)
	}
}
