package script

import (
	"fmt"
	"slices"
	"strings"

	"gperf/format"
)

// Field is a part of a sample's line, in perf's words (`perf script -F`).
type Field uint64

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
	FieldDSOff
	FieldIRegs
	FieldURegs
	FieldBrstack
	FieldBrstackSym
	FieldBrstackOff
	FieldDataSrc
	FieldWeight
	FieldInsLat
	FieldRetireLat
	FieldPhysAddr
	FieldDataPageSize
	FieldCodePageSize
	FieldCgroup
	FieldBPFOutput
	FieldTOD
	FieldSrcline
	FieldSrcfile

	// fieldKernelOff makes "dsoff" show addresses of the kernel too, as perf does if it
	// cannot read the running kernel's memory.
	fieldKernelOff
)

// fieldNames are the fields' names, and the sample_type bits that they need.
var fieldNames = []struct {
	field Field
	name  string
	needs format.SampleType // one of these
	what  string            // the needed sample_type, as perf's message calls it
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
	{FieldDSOff, "dsoff", 0, ""},
	{FieldIRegs, "iregs", format.SampleRegsIntr, "IREGS"},
	{FieldURegs, "uregs", format.SampleRegsUser, "UREGS"},
	{FieldBrstack, "brstack", 0, ""},
	{FieldBrstackSym, "brstacksym", 0, ""},
	{FieldBrstackOff, "brstackoff", 0, ""},
	{FieldDataSrc, "data_src", format.SampleDataSrc, "DATA_SRC"},
	{FieldWeight, "weight", format.SampleWeight | format.SampleWeightStruct, "WEIGHT"},
	{FieldInsLat, "ins_lat", format.SampleWeightStruct, "WEIGHT_STRUCT"},
	{FieldRetireLat, "retire_lat", format.SampleWeightStruct, "WEIGHT_STRUCT"},
	{FieldPhysAddr, "phys_addr", format.SamplePhysAddr, "PHYS_ADDR"},
	{FieldDataPageSize, "data_page_size", format.SampleDataPageSize, "DATA_PAGE_SIZE"},
	{FieldCodePageSize, "code_page_size", format.SampleCodePageSize, "CODE_PAGE_SIZE"},
	{FieldCgroup, "cgroup", format.SampleCgroup, "CGROUP"},
	{FieldBPFOutput, "bpf-output", 0, ""},
	{FieldTOD, "tod", 0, ""},
	{FieldSrcline, "srcline", 0, ""},
	{FieldSrcfile, "srcfile", 0, ""},
}

// otherFields are perf's that are not here, and why.
var otherFields = map[string]string{
	"insn": noInsns, "insnlen": noInsns, "disasm": noInsns, "brstackinsn": noInsns, "brstackinsnlen": noInsns,
	"brstackdisasm": noInsns,
	"srccode":       "gperf prints no source here: `gperf annotate` does",
	"callindent":    noTraces, "flags": noTraces, "ipc": noTraces, "synth": noTraces,
	"metric": "it is for counts, not for samples", "brcntr": "gperf does not read the counters of branches",
	"machine_pid": noGuests, "vcpu": noGuests,
}

const (
	noInsns  = "gperf does not read instructions"
	noTraces = "gperf does not decode instruction traces"
	noGuests = "gperf does not distinguish guests"
)

// FieldNames lists the names that -F takes.
func FieldNames() []string {
	var l []string
	for _, f := range fieldNames {
		l = append(l, f.name)
	}
	return l
}

const framesFields = FieldIP | FieldSym | FieldSymOff | FieldDSO

const branchFields = FieldBrstack | FieldBrstackSym | FieldBrstackOff

// typeOther is the type of PMUs' events, which have no fixed numbers.
const typeOther = format.TypeBreakpoint + 1

const (
	usualFields = FieldComm | FieldTID | FieldCPU | FieldTime | FieldEvent | framesFields | FieldPeriod
	// rawFields are shown for raw events if the samples carry them.
	rawFields = FieldAddr | FieldDataSrc | FieldWeight | FieldPhysAddr | FieldDataPageSize |
		FieldCodePageSize | FieldInsLat | FieldRetireLat
)

// kinds are the types of events with their own fields, by the names before the colon
// in -F TYPE:FIELDS, with their default fields and invalid fields (output of
// tools/perf/builtin-script.c).
var kinds = []struct {
	name  string
	kind  format.EventType
	usual Field
	never Field
}{
	{"hw", format.TypeHardware, usualFields, FieldTrace | FieldBPFOutput},
	{"sw", format.TypeSoftware, usualFields | FieldBPFOutput, FieldTrace},
	{"trace", format.TypeTracepoint, FieldComm | FieldTID | FieldCPU | FieldTime | FieldEvent | FieldTrace, 0},
	{"raw", format.TypeRaw, usualFields | rawFields, FieldTrace | FieldBPFOutput},
	{"cache", format.TypeHWCache, usualFields, FieldTrace | FieldBPFOutput},
	{"break", format.TypeBreakpoint, usualFields, FieldTrace | FieldBPFOutput},
	{"pmu", typeOther, usualFields, FieldTrace | FieldBPFOutput},
}

// kindOf returns the kind of an event's type.
func kindOf(t format.EventType) format.EventType { return min(t, typeOther) }

// FieldSpec is the user's selection with -F; the zero value is perf's usual
// fields.
type FieldSpec struct {
	set    map[format.EventType]Field // replaced
	add    map[format.EventType]Field
	remove map[format.EventType]Field
}

// ParseFields reads -F's [TYPE:]FIELD,… or [TYPE:]+FIELD,-FIELD,….
func (fs *FieldSpec) ParseFields(arg string) error {
	if fs.set == nil {
		fs.set, fs.add, fs.remove = map[format.EventType]Field{}, map[format.EventType]Field{},
			map[format.EventType]Field{}
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
			if strings.Contains(list, "bpf-output") {
				merge(fs.add, types, f) // perf parses the name's hyphen as -FIELD, so the usual fields stay
				continue
			}
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
		return nil, "", fmt.Errorf("fields %q: unknown event type %q: use hw, sw, trace, raw, cache, break or pmu",
			arg, name)
	}
	return types, list, nil
}

func fieldByName(name string) (Field, error) {
	for _, f := range fieldNames {
		if f.name == name {
			return f.field, nil
		}
	}
	if why := otherFields[name]; why != "" {
		return 0, fmt.Errorf("no field %q: %s", name, why)
	}
	return 0, &FieldError{name}
}

// FieldError is about a word that is no field.
type FieldError struct{ Name string }

func (e *FieldError) Error() string { return fmt.Sprintf("unknown field %q", e.Name) }

// WrongUse reports that the command line caused the error.
func (e *FieldError) WrongUse() bool { return true }

// resolve returns the printed fields of each event of f. As in perf, all events of a
// kind have the fields chosen for the first of them.
func (fs *FieldSpec) resolve(f *format.File, chains bool) ([]Field, error) {
	tracepointChains := chains && slices.ContainsFunc(f.Attrs, func(a format.Attr) bool {
		return a.Type == format.TypeTracepoint && a.SampleType&format.SampleCallchain != 0
	})
	byKind := map[format.EventType]Field{}
	for _, k := range kinds {
		first := slices.IndexFunc(f.Attrs, func(a format.Attr) bool { return kindOf(a.Type) == k.kind && !a.IsDummy() })
		fields := fs.fields(k.kind, tracepointChains) &^ k.never
		var err error
		if first >= 0 {
			fields, err = fs.carried(f, first, fields)
		}
		if err != nil {
			return nil, err
		}
		byKind[k.kind] = fields
	}
	list := make([]Field, len(f.Attrs))
	for i := range f.Attrs {
		list[i] = byKind[kindOf(f.Attrs[i].Type)]
	}
	return list, nil
}

// LackError means that the samples of an event lack a field that is to be printed.
type LackError struct{ Event, What, Field string }

// Error returns perf's sentence, which perf2bolt looks for.
func (e *LackError) Error() string {
	return fmt.Sprintf("Samples for '%s' event do not have %s attribute set. Cannot print '%s' field.",
		e.Event, e.What, e.Field)
}

// carried returns the fields that event i's samples carry. It is an error if
// the user chose others.
func (fs *FieldSpec) carried(f *format.File, i int, fields Field) (Field, error) {
	a := &f.Attrs[i]
	for _, fn := range fieldNames {
		if fields&fn.field == 0 || fn.needs == 0 || a.SampleType&fn.needs != 0 {
			continue
		}
		if fs.wants(kindOf(a.Type), fn.field) {
			return 0, &LackError{f.EventName(i), fn.what, fn.name}
		}
		fields &^= fn.field
	}
	if fields&(FieldSymOff|FieldSym) == FieldSymOff {
		return 0, fmt.Errorf("field \"symoff\" is an offset in a symbol: it needs the field \"sym\" as well")
	}
	if _, ok := f.ClockData(); fields&FieldTOD != 0 && !ok {
		return 0, fmt.Errorf("field \"tod\" needs the wall-clock time: record with -k (--clockid)")
	}
	if fields&sourceFields != 0 && fields&FieldIP == 0 {
		if _, replaced := fs.set[kindOf(a.Type)]; replaced {
			return 0, fmt.Errorf("fields \"srcline\" and \"srcfile\" are those of an address: they need the field " +
				"\"ip\" as well")
		}
		fields &^= sourceFields
	}
	if fields&FieldDSOff != 0 {
		fields |= FieldDSO
	}
	return fields, nil
}

func (fs *FieldSpec) fields(kind format.EventType, tracepointChains bool) (fields Field) {
	for _, k := range kinds {
		if k.kind == kind {
			fields = k.usual
		}
	}
	if set, replaced := fs.set[kind]; replaced {
		fields = set
	} else if kind == format.TypeTracepoint && tracepointChains && (fs.add[kind]|fs.remove[kind])&^sourceFields == 0 {
		fields |= framesFields // in perf, any -F for tracepoints turns them off
	}
	return (fields | fs.add[kind]) &^ fs.remove[kind]
}

// Asks reports whether the user asked for any of f, of events of any kind.
func (fs *FieldSpec) Asks(f Field) bool {
	for _, k := range kinds {
		if fs.wants(k.kind, f) {
			return true
		}
	}
	return false
}

func (fs *FieldSpec) wants(kind format.EventType, f Field) bool {
	return (fs.set[kind]|fs.add[kind])&f != 0
}

// changed reports whether the user chose fields for events of that kind.
func (fs *FieldSpec) changed(kind format.EventType) bool {
	_, replaced := fs.set[kind]
	return replaced || fs.add[kind]|fs.remove[kind] != 0
}
