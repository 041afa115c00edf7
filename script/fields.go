package script

import (
	"fmt"
	"slices"
	"strings"

	"gperf/format"
)

// Field is a part of a sample's line, in perf's words (`perf script -F`).
type Field uint32

const (
	FieldComm Field = 1 << iota
	FieldTID
	FieldPID
	FieldTime
	FieldCPU
	FieldEvent
	FieldTrace
	FieldIP
	FieldSym
	FieldDSO
	FieldAddr
	FieldSymOff
	FieldPeriod
	FieldMisc
)

// fieldNames are the fields' names, and what a sample must carry for them.
var fieldNames = []struct {
	field Field
	name  string
	needs format.SampleType
	what  string // the needed sample_type, as perf's message calls it
}{
	{FieldComm, "comm", 0, ""},
	{FieldTID, "tid", format.SampleTID, "TID"},
	{FieldPID, "pid", format.SampleTID, "TID"},
	{FieldTime, "time", format.SampleTime, "TIME"},
	{FieldCPU, "cpu", format.SampleCPU, "CPU"},
	{FieldEvent, "event", 0, ""},
	{FieldTrace, "trace", 0, ""},
	{FieldIP, "ip", format.SampleIP, "IP"},
	{FieldSym, "sym", 0, ""},
	{FieldDSO, "dso", 0, ""},
	{FieldAddr, "addr", format.SampleAddr, "ADDR"},
	{FieldSymOff, "symoff", 0, ""},
	{FieldPeriod, "period", 0, ""},
	{FieldMisc, "misc", 0, ""},
}

// FieldNames lists the names that -F takes.
func FieldNames() []string {
	var l []string
	for _, f := range fieldNames {
		l = append(l, f.name)
	}
	return l
}

const framesFields = FieldIP | FieldSym | FieldSymOff | FieldDSO

// kinds are the types of events that have fields of their own, by the names
// that stand before the colon in -F TYPE:FIELDS.
var kinds = []struct {
	name  string
	kind  format.EventType
	usual Field
}{
	{"hw", format.TypeHardware, FieldComm | FieldTID | FieldCPU | FieldTime | FieldEvent | framesFields | FieldPeriod},
	{"sw", format.TypeSoftware, FieldComm | FieldTID | FieldCPU | FieldTime | FieldEvent | framesFields | FieldPeriod},
	{"trace", format.TypeTracepoint, FieldComm | FieldTID | FieldCPU | FieldTime | FieldEvent | FieldTrace},
	{"raw", format.TypeRaw, FieldComm | FieldTID | FieldCPU | FieldTime | FieldEvent | framesFields | FieldPeriod},
	{"cache", format.TypeHWCache, FieldComm | FieldTID | FieldCPU | FieldTime | FieldEvent | framesFields | FieldPeriod},
	{"break", format.TypeBreakpoint, FieldComm | FieldTID | FieldCPU | FieldTime | FieldEvent | framesFields | FieldPeriod},
}

// FieldSpec is what the user asked for with -F; the zero value is perf's usual
// fields.
type FieldSpec struct {
	set    map[format.EventType]Field // replaced
	add    map[format.EventType]Field
	remove map[format.EventType]Field
}

// ParseFields reads -F's [TYPE:]FIELD,… or [TYPE:]+FIELD,-FIELD,….
func (fs *FieldSpec) ParseFields(arg string) error {
	if fs.set == nil {
		fs.set, fs.add, fs.remove = map[format.EventType]Field{}, map[format.EventType]Field{}, map[format.EventType]Field{}
	}
	types, list, err := splitKind(arg)
	if err != nil {
		return err
	}
	var set Field
	replaced := false
	for word := range strings.SplitSeq(list, ",") {
		name := strings.TrimLeft(word, "+-")
		f, err := fieldByName(name)
		if err != nil {
			return err
		}
		switch word[:len(word)-len(name)] {
		case "":
			replaced = true
			set |= f
		case "+":
			merge(fs.add, types, f)
		case "-":
			merge(fs.remove, types, f)
		default:
			return fmt.Errorf("field %q: one + or - at most", word)
		}
	}
	if !replaced {
		return nil
	}
	if len(fs.add)+len(fs.remove) > 0 {
		return fmt.Errorf("fields %q: names with and without + or - cannot be mixed", arg)
	}
	for _, t := range types {
		fs.set[t] = set
	}
	return nil
}

func merge(m map[format.EventType]Field, types []format.EventType, f Field) {
	for _, t := range types {
		m[t] |= f
	}
}

func splitKind(arg string) (types []format.EventType, list string, err error) {
	name, list, ok := strings.Cut(arg, ":")
	for _, k := range kinds {
		if !ok || k.name == name {
			types = append(types, k.kind)
		}
	}
	if !ok {
		return types, arg, nil
	}
	if types == nil {
		return nil, "", fmt.Errorf("fields %q: unknown type of events %q: it is one of hw, sw, trace, raw, cache, break", arg, name)
	}
	return types, list, nil
}

func fieldByName(name string) (Field, error) {
	for _, f := range fieldNames {
		if f.name == name {
			return f.field, nil
		}
	}
	return 0, fmt.Errorf("unknown field %q: the fields are %s", name, strings.Join(FieldNames(), ","))
}

// resolve says what is printed of each event of f.
func (fs *FieldSpec) resolve(f *format.File, chains bool) ([]Field, error) {
	list := make([]Field, len(f.Attrs))
	tracepointChains := chains && slices.ContainsFunc(f.Attrs, func(a format.Attr) bool {
		return a.Type == format.TypeTracepoint && a.SampleType&format.SampleCallchain != 0
	})
	for i := range f.Attrs {
		a := &f.Attrs[i]
		kind := a.Type
		if kind > format.TypeBreakpoint {
			kind = format.TypeHardware // an event of a PMU
		}
		fields, asked := fs.fields(kind, tracepointChains)
		for _, fn := range fieldNames {
			if fields&fn.field == 0 || a.SampleType&fn.needs == fn.needs {
				continue
			}
			if asked && fs.wants(kind, fn.field) && !isDummy(a) {
				return nil, fmt.Errorf("samples of %q do not carry %s: field %q cannot be printed", f.EventName(i), fn.what, fn.name)
			}
			fields &^= fn.field
		}
		if fields&(FieldSymOff|FieldSym) == FieldSymOff {
			return nil, fmt.Errorf("field \"symoff\" is an offset in a symbol: it needs the field \"sym\" as well")
		}
		list[i] = fields
	}
	return list, nil
}

func (fs *FieldSpec) fields(kind format.EventType, tracepointChains bool) (fields Field, asked bool) {
	for _, k := range kinds {
		if k.kind == kind {
			fields = k.usual
		}
	}
	set, replaced := fs.set[kind]
	if replaced {
		fields = set
	} else if kind == format.TypeTracepoint && tracepointChains && fs.add[kind]|fs.remove[kind] == 0 {
		fields |= framesFields // in perf, any -F for tracepoints turns them off
	}
	fields = (fields | fs.add[kind]) &^ fs.remove[kind]
	return fields, replaced || fs.add[kind] != 0
}

func (fs *FieldSpec) wants(kind format.EventType, f Field) bool {
	return (fs.set[kind]|fs.add[kind])&f != 0
}

// isDummy tells whether the event is there only for the records beside samples.
func isDummy(a *format.Attr) bool { return a.Type == format.TypeSoftware && a.Config == 9 }
