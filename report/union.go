package report

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gperf/format"
	"gperf/format/tracepoint"
)

// union is the events of several recordings, which are analysed as one. Events of the same name are one event, unless
// they are tracepoints whose data differ.
type union struct {
	// file has the events in the order in which they came up, and the sections of the first recording. It has no
	// records. Before the first add it is nil.
	file *format.File
}

// Errors of Merge.Describe; test for them with errors.Is.
var (
	errOtherOrder = errors.New("its tracepoints have another byte order than those of the other recordings")
	errOtherArch  = errors.New("its tracepoints are of another architecture than those of the other recordings")
)

// add adds the events of a recording. It returns the index in file.Attrs of each of them.
func (u *union) add(f *format.File) ([]int, error) {
	if u.file == nil {
		u.begin(f)
	}
	if err := u.fits(f); err != nil {
		return nil, err
	}
	index := make([]int, len(f.Attrs))
	for i := range f.Attrs {
		index[i] = u.event(f, i, index[:i])
	}
	for _, n := range [...]format.Feature{format.FeatureGroupDesc, format.FeatureBranchStack} {
		if b, ok := f.Sections[n]; !ok || !bytes.Equal(b, u.file.Sections[n]) {
			delete(u.file.Sections, n) // it does not describe all recordings
		}
	}
	return index, nil
}

func (u *union) begin(f *format.File) {
	u.file = &format.File{Order: f.Order, Version: f.Version, Sections: map[format.Feature][]byte{}}
	for n, b := range f.Sections {
		if n != format.FeatureTracingData && n != format.FeatureEventDesc && n != format.FeatureBuildID {
			u.file.Sections[n] = b
		}
	}
}

// fits reports why the tracepoints of a recording cannot be read like the other recordings'.
func (u *union) fits(f *format.File) error {
	if f.Tracing == nil {
		return nil
	}
	t := u.file.Tracing
	if t == nil {
		u.file.Tracing = &format.TracingData{Order: f.Tracing.Order, LongSize: f.Tracing.LongSize,
			Printk: f.Tracing.Printk}
		u.file.Sections[format.FeatureArch] = f.Sections[format.FeatureArch]
		return nil
	}
	if t.Order != f.Tracing.Order || t.LongSize != f.Tracing.LongSize {
		return errOtherOrder
	}
	if own, all := f.String(format.FeatureArch), u.file.String(format.FeatureArch); own != all {
		return fmt.Errorf("%w: %s, not %s", errOtherArch, own, all)
	}
	return nil
}

// event returns the index in the union of event i of f. Those in taken are other events of f.
func (u *union) event(f *format.File, i int, taken []int) int {
	all, name, t := u.file, f.EventName(i), f.Tracepoint(i)
	for j := range all.Attrs {
		if all.EventName(j) == name && !slices.Contains(taken, j) && sameData(all.Tracepoint(j), t) {
			a := &all.Attrs[j]
			a.SampleType |= f.Attrs[i].SampleType
			a.SampleMaxStack = max(a.SampleMaxStack, f.Attrs[i].SampleMaxStack)
			return j
		}
	}
	a := f.Attrs[i]
	a.Name, a.IDs = strings.Clone(name), nil
	if n := len(all.Attrs); t != nil { // the numbers of tracepoints differ between kernels
		a.Config = uint64(n)
		all.Tracing.Put(n, t)
	}
	all.Attrs = append(all.Attrs, a)
	return len(all.Attrs) - 1
}

// sameData reports whether the data of two tracepoints have the same fields and text.
func sameData(a, b *tracepoint.Format) bool {
	if a == nil || b == nil {
		return a == b
	}
	same := func(x, y tracepoint.Field) bool {
		return x.Name == y.Name && x.Type == y.Type && x.Offset == y.Offset && x.Size == y.Size
	}
	return a == b || a.PrintFmt == b.PrintFmt && slices.EqualFunc(a.Fields, b.Fields, same)
}
