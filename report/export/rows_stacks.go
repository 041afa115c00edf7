package export

import (
	"cmp"
	"encoding/binary"
	"iter"

	"gperf/internal/intern"
	"gperf/internal/parallel"
	"gperf/internal/session"
	"gperf/report/table"
)

// stackTable finds the stacks of samples in Stacks. Stacks are equal if the frames are, regardless of addresses.
type stackTable struct {
	stacks   *Stacks
	options  RowOptions
	byKey    table.Tallies[struct{}, int32] // the sum is the index in Stacks plus 1
	byFrames map[string]int32               // by the indexes in bytes
	frames   map[RowFrame]int32
	known    map[*session.Frame][]int32 // the functions of a frame, innermost first
	stack    []int32                    // reused
	id       []byte                     // reused
}

func newStackTable(s *Stacks, o RowOptions) stackTable {
	return stackTable{stacks: s, options: o, byFrames: map[string]int32{}, frames: map[RowFrame]int32{},
		known: map[*session.Frame][]int32{}}
}

// index returns the index of a sample's stack, whose frames lookUp looked up before.
func (t *stackTable) index(s *session.Sample) int32 {
	same, _ := t.byKey.At(nil, 0, s.StackKey())
	if same.Sum > 0 {
		return same.Sum - 1
	}
	t.stack, t.id = t.stack[:0], t.id[:0]
	for f := range t.framesOf(s) {
		t.stack = append(t.stack, t.known[f]...)
	}
	for _, f := range t.stack {
		t.id = binary.LittleEndian.AppendUint32(t.id, uint32(f))
	}
	i, ok := t.byFrames[string(t.id)]
	if !ok {
		i = int32(len(t.stacks.Stacks))
		t.stacks.Stacks = append(t.stacks.Stacks, append([]int32(nil), t.stack...))
		t.byFrames[string(t.id)] = i
	}
	same.Sum = i + 1
	return i
}

// framesOf yields the frames of a sample, all if MaxStack is 0.
func (t *stackTable) framesOf(s *session.Sample) iter.Seq[*session.Frame] {
	return s.Stack(cmp.Or(t.options.MaxStack, s.Chain.Len()))
}

// lookUp looks up the functions of new frames, on all CPUs.
func (t *stackTable) lookUp(samples []session.Sample) {
	type functions struct {
		frame *session.Frame
		list  []session.Function
	}
	var found []functions
	for i := range samples {
		if _, added := t.byKey.At(nil, 0, samples[i].StackKey()); !added {
			continue
		}
		for f := range t.framesOf(&samples[i]) {
			if _, ok := t.known[f]; !ok {
				t.known[f] = nil
				found = append(found, functions{frame: f})
			}
		}
	}
	parallel.Do(len(found), func(i int) { found[i].list = found[i].frame.Functions(!t.options.NoInline) })
	for _, f := range found {
		t.known[f.frame] = t.add(f.frame, f.list)
	}
}

// add returns the indexes of a frame's functions, innermost first.
func (t *stackTable) add(f *session.Frame, list []session.Function) (ids []int32) {
	of := RowFrame{DSO: f.DSO(), Kind: kinds[f.Kind()]}
	if m := f.Map; m != nil && !m.DSO.BuildID.IsZero() {
		of.BuildID = m.DSO.BuildID.String()
	}
	if len(list) == 0 {
		list = []session.Function{{Name: f.Label()}}
	}
	for _, fn := range list {
		one := of
		one.Function, one.File, one.Line = fn.Name, fn.File, int32(fn.Line)
		if fn.Inlined {
			one.Kind = inlinedFrame
		}
		ids = append(ids, intern.Index(t.frames, &t.stacks.Frames, one))
	}
	return ids
}

var kinds = [...]FrameKind{session.KindUnknown: unknownFrame, session.KindKernel: kernelFrame,
	session.KindNative: userFrame,
	session.KindJIT:    jitFrame, session.KindRuntime: runtimeFrame}
