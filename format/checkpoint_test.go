package format

import (
	"os"
	"path/filepath"
	"testing"
)

// stepFile calls after after each change of the file.
type stepFile struct {
	*os.File
	after func()
}

func (f *stepFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	f.after()
	return n, err
}

func (f *stepFile) WriteAt(b []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(b, off)
	f.after()
	return n, err
}

// TestCheckpoint: a recorder that is killed between any two changes of its file leaves all records that it wrote before
// the last one, with the sections known at the start.
func TestCheckpoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perf.data")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	written, steps, sized := 0, 0, 0
	check := func() {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		steps++
		f := (&memFile{b}).open(t)
		if f.String(FeatureHostname) != "host" {
			t.Errorf("step %d: no host name", steps)
		}
		times, r := readTimes(t, f)
		if len(times) < written {
			t.Errorf("step %d: %d samples of %d", steps, len(times), written)
		}
		if f.Complete { // as perf reads it
			sized++
			if r.Skipped.Count != 0 || len(times) != written {
				t.Errorf("step %d: %d samples of %d, skipped %v", steps, len(times), written, r.Skipped.First)
			}
		}
	}
	w, err := NewWriter(&stepFile{out, func() {}}, testAttrs(), []Section{StringSection(FeatureHostname, "host"),
		EventDescSection(testAttrs())})
	if err != nil {
		t.Fatal(err)
	}
	w.out, w.file = &stepFile{out, check}, &stepFile{out, check}
	for i := range 4 {
		b := AppendMark(nil, TypeFinishedRound) // smaller than the table
		for range i {
			b = appendTestSample(b, 12, uint64(i), []uint64{ContextUser, 3}, nil)
		}
		if err := w.Write(b); err != nil {
			t.Fatal(err)
		}
		written += i
		if err := w.Checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close([]Section{Uint64Section(FeatureSampleTime, 1, 9)}); err != nil {
		t.Fatal(err)
	}
	if steps < 16 || sized < 5 {
		t.Errorf("%d steps, the size of the data is in %d", steps, sized)
	}
	f := (&memFile{must(os.ReadFile(path))}).open(t)
	if times, _ := readTimes(t, f); len(times) != written || !f.Has(FeatureSampleTime) {
		t.Errorf("the finished file has %d samples of %d", len(times), written)
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}
