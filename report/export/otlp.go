package export

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/profiles/v1development"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/profiles/v1development"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	"gperf/internal/container"
	"gperf/internal/dso"
	"gperf/internal/session"
	"gperf/report/key"
)

// OTLPOptions describe the profiles of OTLP.
type OTLPOptions struct {
	// ID identifies the recording. The same recording, counted with the same settings, results in the same batches
	// and in profiles of the same IDs.
	ID []byte
	// Resource is attributes of where the recording was made, as pairs of key and value.
	Resource [][2]string
	Version  string // gperf's
	// Limit is how many bytes a batch may have, except for its last stack.
	Limit int
}

// OTLP passes the stacks to emit as encoded requests of OpenTelemetry's protocol (OTLP, profiles v1development), which
// can be stored independently of each other. Each event results in two profiles, samples (count) and the sums of
// periods that Text shows (in the event's unit), for each container, whose ID is an attribute of the resource. Samples
// have the attributes thread.name, and process.pid and thread.id if Set distinguishes them, and those of Set.By and
// Fields. A baseline is left out. Without samples it returns ErrNoSamples.
func (c *StackSet) OTLP(o OTLPOptions, emit func(request []byte) error) error {
	if len(c.tallies.List) == 0 {
		return ErrNoSamples
	}
	session.LookUpCalls(allFrames(c))
	e := otlpWriter{set: c, opts: &o, emit: emit}
	for _, t := range c.tallies.List {
		if t.Of.base {
			continue
		}
		if e.batch == nil {
			e.batch = newOTLPBatch(c)
		}
		e.batch.add(t)
		if e.batch.size >= o.Limit {
			if err := e.flush(); err != nil {
				return err
			}
		}
	}
	return e.flush()
}

// otlpWriter divides stacks into batches.
type otlpWriter struct {
	set   *StackSet
	opts  *OTLPOptions
	emit  func(request []byte) error
	batch *otlpBatch // nil: empty
	n     uint64     // number of batches before it
}

// flush emits the batch.
func (e *otlpWriter) flush() error {
	if e.batch == nil {
		return nil
	}
	b := e.batch
	e.batch = nil
	n := uint64(0)
	var all []*otlp.ResourceProfiles
	for _, r := range b.resources {
		scope := &otlp.ScopeProfiles{Scope: &common.InstrumentationScope{Name: "gperf", Version: e.opts.Version}}
		for _, p := range r.profiles {
			p.ProfileId = e.profileID(n)
			n++
			scope.Profiles = append(scope.Profiles, p)
		}
		all = append(all, &otlp.ResourceProfiles{Resource: e.resource(r.container),
			ScopeProfiles: []*otlp.ScopeProfiles{scope}})
	}
	e.n++
	request := &collector.ExportProfilesServiceRequest{ResourceProfiles: all, Dictionary: b.dictionary()}
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode profiles: %w", err)
	}
	return e.emit(encoded)
}

// profileID returns the ID of profile n of the batch, which is the same each time the recording is written.
func (e *otlpWriter) profileID(n uint64) []byte {
	h := sha256.New()
	h.Write(e.opts.ID)
	h.Write(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, e.n), n))
	return h.Sum(nil)[:16]
}

func (e *otlpWriter) resource(c container.Container) *resource.Resource {
	return otlpResourceOf(slices.Concat(e.opts.Resource, [][2]string{{"container.id", c.ID},
		{"container.runtime.name", c.Runtime}, {"k8s.pod.uid", c.Pod}}))
}

// otlpResourceOf returns the resource with the attributes that have a value.
func otlpResourceOf(attrs [][2]string) *resource.Resource {
	r := &resource.Resource{}
	for _, kv := range attrs {
		if kv[1] != "" {
			r.Attributes = append(r.Attributes, &common.KeyValue{Key: kv[0], Value: otlpString(kv[1])})
		}
	}
	return r
}

func otlpString(s string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: strings.ToValidUTF8(s, "�")}}
}

func otlpInt(n int64) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: n}}
}

// otlpTable is a table of the dictionary. Index 0 is the zero value, which means none.
type otlpTable[K comparable, V any] struct {
	index map[K]int32
	list  []V
}

func newOTLPTable[K comparable, V any](zero V) otlpTable[K, V] {
	return otlpTable[K, V]{index: map[K]int32{}, list: []V{zero}}
}

// of returns the index of the element with this key, which is made if it is new.
func (t *otlpTable[K, V]) of(k K, element func() V) int32 {
	i, ok := t.index[k]
	if !ok {
		v := element() // which may add others
		i = int32(len(t.list))
		t.index[k], t.list = i, append(t.list, v)
	}
	return i
}

// otlpBatch is the stacks of one request.
type otlpBatch struct {
	set        *StackSet
	size       int // about its bytes, not less than them
	strings    otlpTable[string, string]
	functions  otlpTable[functionKey, *otlp.Function]
	mappings   otlpTable[otlpMappingKey, *otlp.Mapping]
	locations  otlpTable[*session.Frame, *otlp.Location]
	stacks     otlpTable[string, *otlp.Stack] // by the bytes of their locations
	attributes otlpTable[otlpAttributeKey, *otlp.KeyValueAndUnit]
	resources  []*otlpResource
}

// otlpResource is the profiles of one container, in the order of their first samples.
type otlpResource struct {
	container container.Container
	profiles  []*otlp.Profile
	index     map[int32]int // of the first of an event's two, by event
}

// otlpMappingKey identifies mappings. Processes that run the same program at the same addresses share them.
type otlpMappingKey struct {
	start, end, pgoff uint64
	dso               *session.DSO
}

type otlpAttributeKey struct {
	key, text, unit string
	number          int64
}

func newOTLPBatch(c *StackSet) *otlpBatch {
	b := &otlpBatch{set: c, strings: newOTLPTable[string](""), size: 1024, // the resource
		functions:  newOTLPTable[functionKey](&otlp.Function{}),
		mappings:   newOTLPTable[otlpMappingKey](&otlp.Mapping{}),
		locations:  newOTLPTable[*session.Frame](&otlp.Location{}),
		stacks:     newOTLPTable[string](&otlp.Stack{}),
		attributes: newOTLPTable[otlpAttributeKey](&otlp.KeyValueAndUnit{})}
	b.strings.index[""] = 0
	return b
}

func (b *otlpBatch) dictionary() *otlp.ProfilesDictionary {
	return &otlp.ProfilesDictionary{MappingTable: b.mappings.list, LocationTable: b.locations.list,
		FunctionTable: b.functions.list, LinkTable: []*otlp.Link{{}}, StringTable: b.strings.list,
		AttributeTable: b.attributes.list, StackTable: b.stacks.list}
}

// measure adds the size of an element to the size of the batch, with its tag and length.
func measure[M proto.Message](b *otlpBatch, m M) M {
	b.size += proto.Size(m) + 6
	return m
}

func (b *otlpBatch) add(t *tally) {
	var in container.Container
	attrs := b.sampleAttributes(t)
	for _, v := range t.Of.group.Values {
		if v.Key == "cgroup" {
			in = container.Parse(v.Text)
		}
	}
	r := b.resource(in)
	i, ok := r.index[t.Of.event]
	if !ok {
		i = len(r.profiles)
		r.index[t.Of.event] = i
		r.profiles = append(r.profiles, b.profile(t.Of.event, "samples", "count"),
			b.profile(t.Of.event, b.set.events[t.Of.event].name, b.set.events[t.Of.event].unit))
	}
	stack := b.stack(t)
	for j, n := range [...]uint64{t.Sum.samples, t.Sum.period} {
		p := r.profiles[i+j]
		p.Samples = append(p.Samples, measure(b, &otlp.Sample{StackIndex: stack, AttributeIndices: attrs,
			Values: []int64{int64(min(n, math.MaxInt64))}}))
	}
}

func (b *otlpBatch) resource(c container.Container) *otlpResource {
	for _, r := range b.resources {
		if r.container == c {
			return r
		}
	}
	r := &otlpResource{container: c, index: map[int32]int{}}
	b.resources = append(b.resources, r)
	b.size += 1024
	return r
}

// profile returns a profile of an event without samples. Its period is the requested one, 0 if the kernel chose it.
func (b *otlpBatch) profile(event int32, typ, unit string) *otlp.Profile {
	e := &b.set.events[event]
	p := &otlp.Profile{SampleType: b.valueType(typ, unit), PeriodType: b.valueType(e.name, e.unit),
		Period: int64(e.period), DurationNano: uint64(b.set.lasted)}
	if !b.set.began.IsZero() {
		p.TimeUnixNano = uint64(b.set.began.UnixNano())
	}
	return measure(b, p)
}

func (b *otlpBatch) valueType(typ, unit string) *otlp.ValueType {
	return &otlp.ValueType{TypeStrindex: b.text(typ), UnitStrindex: b.text(unit)}
}

// text returns the index of a string. Strings of the protocol are UTF-8.
func (b *otlpBatch) text(s string) int32 {
	return b.strings.of(s, func() string {
		s := strings.ToValidUTF8(s, "�")
		b.size += len(s) + 6
		return s
	})
}

func (b *otlpBatch) sampleAttributes(t *tally) []int32 {
	var l []int32
	if t.Of.comm != "" {
		l = append(l, b.attribute(otlpAttributeKey{key: "thread.name", text: t.Of.comm}))
	}
	if b.set.Processes {
		l = append(l, b.attribute(otlpAttributeKey{key: "process.pid", number: int64(t.Of.pid)}))
	}
	if b.set.Threads {
		l = append(l, b.attribute(otlpAttributeKey{key: "thread.id", number: int64(t.Of.tid)}))
	}
	if b.set.CPUs && t.Of.cpu >= 0 {
		l = append(l, b.attribute(otlpAttributeKey{key: "cpu.logical_number", number: int64(t.Of.cpu)}))
	}
	for _, v := range slices.Concat(t.Of.fields.Values, t.Of.group.Values) {
		switch unit := session.Unit(v.Key); {
		case v.Text == key.Missing:
		case v.Numeric && unit != "count":
			l = append(l, b.attribute(otlpAttributeKey{key: v.Key, number: v.Number, unit: unit}))
		case v.Numeric:
			l = append(l, b.attribute(otlpAttributeKey{key: v.Key, number: v.Number}))
		case v.Text != "":
			l = append(l, b.attribute(otlpAttributeKey{key: v.Key, text: v.Text}))
		}
	}
	return l
}

// attribute returns the index of an attribute: of a text, or of a number without one.
func (b *otlpBatch) attribute(k otlpAttributeKey) int32 {
	return b.attributes.of(k, func() *otlp.KeyValueAndUnit {
		value := otlpInt(k.number)
		if k.text != "" {
			value = otlpString(k.text)
		}
		return measure(b, &otlp.KeyValueAndUnit{KeyStrindex: b.text(k.key), Value: value, UnitStrindex: b.text(k.unit)})
	})
}

// stack returns the index of a stack, whose locations are innermost first.
func (b *otlpBatch) stack(t *tally) int32 {
	var list []int32
	var key []byte
	for f := range b.set.stackOf(t) {
		i := b.location(f)
		list = append(list, i)
		key = binary.LittleEndian.AppendUint32(key, uint32(i))
	}
	if len(list) == 0 {
		return 0
	}
	return b.stacks.of(string(key), func() *otlp.Stack { return measure(b, &otlp.Stack{LocationIndices: list}) })
}

// location returns the index of a frame. Addresses of callers lie within the call instruction, as in Pprof.
func (b *otlpBatch) location(f *session.Frame) int32 {
	return b.locations.of(f, func() *otlp.Location {
		l := &otlp.Location{Address: f.IP, MappingIndex: b.mapping(f)}
		if f.Return {
			l.Address--
		}
		if kind := frameType(f); kind != "" {
			l.AttributeIndices = []int32{b.attribute(otlpAttributeKey{key: "profile.frame.type", text: kind})}
		}
		for _, fn := range f.Functions(!b.set.NoInline) {
			l.Lines = append(l.Lines, &otlp.Line{FunctionIndex: b.function(fn), Line: int64(fn.Line)})
		}
		if start := f.StartName(); len(l.Lines) == 0 && start != "" {
			l.Lines = []*otlp.Line{{FunctionIndex: b.function(session.Function{Name: start, Raw: start})}}
		}
		return measure(b, l)
	})
}

// frameType returns the value of profile.frame.type, "" for code of a runtime whose language is unknown.
func frameType(f *session.Frame) string {
	switch f.Kind() {
	case session.KindKernel:
		return "kernel"
	case session.KindJIT:
		return ""
	case session.KindRuntime:
		return runtimeTypes[f.Map.DSO.Name]
	}
	return "native"
}

// runtimeTypes are the values of profile.frame.type by the names of files with functions.
var runtimeTypes = map[string]string{dso.PythonName: "cpython", dso.RubyName: "ruby", dso.PHPName: "php",
	dso.PerlName: "perl", dso.JavaScriptName: "v8js", dso.JavaName: "jvm"}

func (b *otlpBatch) function(fn session.Function) int32 {
	return b.functions.of(functionKey{fn.Name, fn.Raw, fn.File, fn.Start}, func() *otlp.Function {
		return measure(b, &otlp.Function{NameStrindex: b.text(fn.Name), SystemNameStrindex: b.text(fn.Raw),
			FilenameStrindex: b.text(fn.File), StartLine: int64(fn.Start)})
	})
}

// mapping returns the index of the mapping in which the frame is, 0 for none.
func (b *otlpBatch) mapping(f *session.Frame) int32 {
	m := f.Map
	if m == nil {
		return 0
	}
	return b.mappings.of(otlpMappingKey{m.Start, m.End, m.Pgoff, m.DSO}, func() *otlp.Mapping {
		to := &otlp.Mapping{MemoryStart: m.Start, MemoryLimit: m.End, FileOffset: m.Pgoff,
			FilenameStrindex: b.text(f.DSO())}
		if id := m.DSO.BuildID; !id.IsZero() {
			to.AttributeIndices = []int32{b.attribute(otlpAttributeKey{key: "process.executable.build_id.gnu",
				text: id.String()})}
		}
		return measure(b, to)
	})
}
