package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// perfettoTrace returns the message Trace of Perfetto's published definition: the file that GPERF_PERFETTO_PROTO names,
// or the part of it in testdata.
var perfettoTrace = sync.OnceValues(func() (protoreflect.MessageDescriptor, error) {
	path := os.Getenv("GPERF_PERFETTO_PROTO")
	if path == "" {
		path = "testdata/perfetto.proto"
	}
	c := protocompile.Compiler{Resolver: &protocompile.SourceResolver{ImportPaths: []string{filepath.Dir(path)}}}
	files, err := c.Compile(context.Background(), filepath.Base(path))
	if err != nil {
		return nil, err
	}
	return files[0].Messages().ByName("Trace"), nil
})

// node is a message whose fields are read by name.
type node struct{ protoreflect.Message }

func (n node) field(name string) protoreflect.FieldDescriptor {
	return n.Descriptor().Fields().ByName(protoreflect.Name(name))
}

func (n node) has(name string) bool    { return n.Has(n.field(name)) }
func (n node) uint(name string) uint64 { return n.Get(n.field(name)).Uint() }
func (n node) int(name string) int64   { return n.Get(n.field(name)).Int() }
func (n node) text(name string) string { return n.Get(n.field(name)).String() }
func (n node) enum(name string) string {
	fd := n.field(name)
	return string(fd.Enum().Values().ByNumber(n.Get(fd).Enum()).Name())
}
func (n node) sub(name string) node { return node{n.Get(n.field(name)).Message()} }

func (n node) list(name string) (l []node) {
	for v := range listOf(n, name) {
		l = append(l, node{v.Message()})
	}
	return l
}

func listOf(n node, name string) func(func(protoreflect.Value) bool) {
	l := n.Get(n.field(name)).List()
	return func(yield func(protoreflect.Value) bool) {
		for i := range l.Len() {
			if !yield(l.Get(i)) {
				return
			}
		}
	}
}

// readPerfetto returns the packets of a trace. Fields that the definition lacks are errors.
func readPerfetto(t *testing.T, b []byte) []node {
	t.Helper()
	d, err := perfettoTrace()
	if err != nil {
		t.Fatal(err)
	}
	m := dynamicpb.NewMessage(d)
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatal(err)
	}
	checkKnown(t, m)
	return node{m}.list("packet")
}

func checkKnown(t *testing.T, m protoreflect.Message) {
	t.Helper()
	if len(m.GetUnknown()) > 0 {
		t.Fatalf("%s has unknown fields %x", m.Descriptor().Name(), m.GetUnknown())
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				checkKnown(t, v.List().Get(i).Message())
			}
		default:
			checkKnown(t, v.Message())
		}
		return true
	})
}

// perfettoSequence is the state of a sequence after the packets so far.
type perfettoSequence struct {
	event             string
	functions, frames map[uint64]string
	stacks            map[uint64][]string
	counts            map[uint64]uint64 // by CPU
}

// perfettoTotals returns the totals of an event: weights are the differences of the event's counter between samples.
func perfettoTotals(t *testing.T, v viewed) *totals {
	t.Helper()
	s := newTotals()
	sequences := map[uint64]*perfettoSequence{}
	for _, p := range readPerfetto(t, v.written(t, "perfetto", "a.pftrace")) {
		q := sequences[p.uint("trusted_packet_sequence_id")]
		if q == nil {
			q = &perfettoSequence{functions: map[uint64]string{}, frames: map[uint64]string{},
				stacks: map[uint64][]string{}, counts: map[uint64]uint64{}}
			sequences[p.uint("trusted_packet_sequence_id")] = q
		}
		q.learn(t, p)
		if !p.has("perf_sample") {
			continue
		}
		sample := p.sub("perf_sample")
		cpu, count := sample.uint("cpu"), sample.uint("timebase_count")
		if q.event == v.event {
			s.add(q.stacks[sample.uint("callstack_iid")], count-q.counts[cpu])
		}
		q.counts[cpu] = count
	}
	return s
}

// learn reads the names and stacks of a packet. They refer only to those that came before.
func (q *perfettoSequence) learn(t *testing.T, p node) {
	t.Helper()
	if p.has("trace_packet_defaults") {
		q.event = p.sub("trace_packet_defaults").sub("perf_sample_defaults").sub("timebase").text("name")
	}
	if !p.has("interned_data") {
		return
	}
	data := p.sub("interned_data")
	for _, f := range data.list("function_names") {
		q.functions[f.uint("iid")] = string(f.Get(f.field("str")).Bytes())
	}
	for _, f := range data.list("frames") {
		name, ok := q.functions[f.uint("function_name_id")]
		if !ok || f.has("mapping_id") != f.has("rel_pc") {
			t.Fatalf("a frame has an unknown function, or no place in its mapping: %v", f)
		}
		q.frames[f.uint("iid")] = name
	}
	for _, c := range data.list("callstacks") {
		var stack []string
		for id := range listOf(c, "frame_ids") {
			name, ok := q.frames[id.Uint()]
			if !ok {
				t.Fatalf("a stack has an unknown frame: %v", c)
			}
			stack = append(stack, name)
		}
		q.stacks[c.uint("iid")] = stack
	}
}

// TestPerfettoTracks compares the events on tracks with the samples of tracepoints: threads, names, fields, times
// and, of spans, durations. The spans of a track are nested.
func TestPerfettoTracks(t *testing.T) {
	for _, v := range viewedRecordings(t) {
		t.Run(v.name, func(t *testing.T) {
			want := map[string]int{}
			for _, s := range sampleObjects(t, v.args...) {
				if s.Fields != nil {
					want[trackKey(s.Event, s.TID, s.end()-s.span(), s.span(), s.Fields)]++
				}
			}
			threads, names, parents := map[uint64]int64{}, map[uint64]string{}, map[uint64]uint64{}
			type slice struct {
				at     uint64
				fields map[string]any
			}
			open := map[uint64][]slice{}
			for _, p := range readPerfetto(t, v.written(t, "perfetto", "a.pftrace")) {
				if p.has("track_descriptor") {
					d := p.sub("track_descriptor")
					id := d.uint("uuid")
					if d.has("thread") {
						threads[id] = d.sub("thread").int("tid")
					}
					names[id], parents[id] = d.text("name"), d.uint("parent_uuid")
				}
				if !p.has("track_event") {
					continue
				}
				e, at := p.sub("track_event"), p.uint("timestamp")
				track := e.uint("track_uuid")
				tid, ok := threads[parents[track]]
				if !ok {
					t.Fatalf("track %d belongs to no thread", track)
				}
				fields := map[string]any{}
				for _, a := range e.list("debug_annotations") {
					if fields[a.text("name")] = a.text("string_value"); a.has("int_value") {
						fields[a.text("name")] = float64(a.int("int_value"))
					}
				}
				switch e.enum("type") {
				case "TYPE_INSTANT":
					want[trackKey(names[track], int32(tid), at, 0, fields)]--
				case "TYPE_SLICE_BEGIN":
					open[track] = append(open[track], slice{at, fields})
				case "TYPE_SLICE_END":
					last := len(open[track]) - 1
					one := open[track][last]
					want[trackKey(names[track], int32(tid), one.at, at-one.at, one.fields)]--
					open[track] = open[track][:last]
				}
			}
			for key, n := range want {
				if n != 0 {
					t.Errorf("%d too few of %s", n, key)
				}
			}
		})
	}
}

func trackKey(event string, tid int32, at, duration uint64, fields map[string]any) string {
	var l []string
	for name, v := range fields {
		l = append(l, fmt.Sprint(name, "=", v))
	}
	slices.Sort(l)
	return fmt.Sprint(event, " ", tid, " at ", at, " for ", duration, ": ", strings.Join(l, " "))
}
