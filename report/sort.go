package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gperf/internal/session"
	"gperf/internal/text"
)

// SortKey is a key that groups samples into entries or orders entries, or a column.
type SortKey struct {
	Name string // in --sort and --fields
	Head string
	uses uses

	// cmp returns 0 for samples of one entry, and a positive number if a comes first.
	// It is nil for figures, which do not group samples. sort orders the entries; if it
	// is nil, cmp does.
	cmp, sort func(h *Hist, a, b *Entry) int

	// width is the length of an entry's text; nil: min.
	width  func(h *Hist, e *Entry) int
	min    int
	append func(h *Hist, b []byte, e *Entry, width int) []byte

	figure  bool   // the heading is aligned right
	field   *field // the tracepoint's field that the key shows
	elided  bool   // not shown: all entries share the value
	user    int    // width from --column-widths, 0 for none
	derived bool   // from derivedKey

	// figureOf appends the figure of one event; append then appends the figures of
	// all events of the group.
	figureOf func(h *Hist, b []byte, e *Entry, width int) []byte
	// value returns the number, and frame the address, of the sample that the key
	// uses. Both are nil for other keys.
	value func(x *extra) uint64
	frame func(x *extra) *session.Frame
	// ofPlace returns the number of a place, or of its ip, that the key uses; nil for
	// other keys.
	ofPlace func(p *places, pl *place, ip uint64) uint64
	// identity returns equal numbers for frames that are equal under the key.
	identity func(p *places, f *session.Frame) int32
	mode     Mode // the mode whose samples contain the key; ModeSamples: all samples
}

// uses is the set of parts of a sample that a key reads.
type uses uint

const (
	usesComm uses = 1 << iota
	usesDSO
	usesSymbol
	usesTID
	usesCPU
	usesRaw
	usesAddress
	usesParent
	usesExtra  // has a value or frame
	usesBranch // extra's from and to
	usesData   // extra's data
	usesSrcline
	usesSrcfile
	usesPID
	usesNoDigit
	usesPlace // has ofPlace
)

// keys are the keys of every event in perf's order: a shortened key means the first
// one with this prefix.
var keys = []*SortKey{
	{Name: "pid", Head: "    Pid:Command", uses: usesTID, cmp: compareTID, width: threadWidth, append: appendThread},
	{Name: "tid", Head: "    Tid:Command", uses: usesTID, cmp: compareTID, width: threadWidth, append: appendThread},
	{Name: "comm", Head: "Command", uses: usesComm, cmp: compareComm, width: commWidth, append: appendComm},
	commNoDigitKey(),
	{Name: "dso", Head: "Shared Object", uses: usesDSO, cmp: compareDSO, width: dsoWidth, append: appendDSO},
	{Name: "symbol", Head: "Symbol", uses: usesSymbol, cmp: compareSymbol, sort: compareName, width: symbolWidth,
		append: appendSymbol},
	{Name: "parent", Head: "Parent symbol", uses: usesParent, cmp: compareParent, width: parentWidth,
		append: appendParent},
	{Name: "cpu", Head: "CPU", uses: usesCPU, cmp: compareCPU, min: 3, append: appendCPU},
	srclineKey,
	srcfileKey,
	{Name: "trace", Head: "Trace output", uses: usesRaw, cmp: compareTrace, width: traceWidth, append: appendTrace},
	sizeKey("symbol_size", "Symbol size", symbolSize),
	sizeKey("dso_size", "DSO size", dsoSize),
}

var figures = []*SortKey{
	{Name: "overhead", Head: "Overhead", figure: true, min: 8, sort: bySelf(period), figureOf: appendShare(period)},
	{Name: "latency", Head: "Latency", figure: true, min: 8, sort: bySelf(latency), figureOf: appendShare(latency)},
	{Name: "overhead_sys", Head: "sys", figure: true, min: 8, sort: bySelf(kernelPart),
		figureOf: appendPart(kernelPart)},
	{Name: "overhead_us", Head: "usr", figure: true, min: 8, sort: bySelf(userPart), figureOf: appendPart(userPart)},
	{Name: "overhead_children", Head: "Children", figure: true, min: 8, sort: byChildren(period),
		figureOf: appendChildren(period)},
	{Name: "latency_children", Head: "Latency", figure: true, min: 7, sort: byChildren(latency),
		figureOf: appendChildren(latency)},
	{Name: "sample", Head: "Samples", figure: true, min: 12, sort: bySelf(samples), figureOf: appendNumber(samples)},
	{Name: "period", Head: "Period", figure: true, min: 12, sort: bySelf(period), figureOf: appendNumber(period)},
}

// allKeys lists the keys in the order in which lookupKey tries them.
var allKeys = [...][]*SortKey{keys, extraKeys, hopKeys, branchKeys, memoryKeys, figures}

// Keys returns the names of all sort keys and columns except the fields of
// tracepoints.
func Keys() []string {
	var names []string
	for _, list := range allKeys {
		for _, k := range list {
			names = append(names, k.Name)
		}
	}
	return append(names, session.OriginKeys...)
}

// HasFigures reports whether a list of sort keys has figures of entries, such as period.
func HasFigures(list string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' }),
		func(word string) bool { k := lookupKey(word); return k != nil && k.figure })
}

// lookupKey returns the first key whose name begins with the given text, ignoring case.
func lookupKey(word string) *SortKey {
	if name, ok := aliases[strings.ToLower(word)]; ok {
		word = name
	}
	for _, list := range allKeys {
		for _, k := range list {
			if len(word) <= len(k.Name) && strings.EqualFold(word, k.Name[:len(word)]) {
				return k
			}
		}
	}
	return nil
}

func period(s *Stat) uint64     { return s.Period }
func samples(s *Stat) uint64    { return s.Samples }
func kernelPart(s *Stat) uint64 { return s.Kernel }
func userPart(s *Stat) uint64   { return s.User }

func bySelf(get func(*Stat) uint64) func(*Hist, *Entry, *Entry) int {
	return func(h *Hist, a, b *Entry) int {
		c := cmp.Compare(get(&a.Self), get(&b.Self))
		for i := 1; c == 0 && i < len(h.members); i++ {
			c = cmp.Compare(selfOf(a.group[i], get), selfOf(b.group[i], get))
		}
		return c
	}
}

// selfOf returns a figure of an entry, which may be nil.
func selfOf(e *Entry, get func(*Stat) uint64) uint64 {
	if e == nil {
		return 0
	}
	return get(&e.Self)
}

// byChildren orders callers before callees with the same figure.
func byChildren(get func(*Stat) uint64) func(*Hist, *Entry, *Entry) int {
	return func(h *Hist, a, b *Entry) int {
		if h.opts.NoChildren {
			return 0
		}
		if c := cmp.Compare(get(&a.Children), get(&b.Children)); c != 0 {
			return c
		}
		if a.Thread != b.Thread || !h.chains {
			return 0
		}
		if h.opts.Graph.Order == Caller {
			return cmp.Compare(a.depth, b.depth)
		}
		return cmp.Compare(b.depth, a.depth)
	}
}

func compareComm(_ *Hist, a, b *Entry) int { return strings.Compare(b.Comm, a.Comm) }
func compareTID(_ *Hist, a, b *Entry) int  { return cmp.Compare(b.Thread.TID, a.Thread.TID) }
func compareCPU(_ *Hist, a, b *Entry) int  { return cmp.Compare(b.CPU, a.CPU) }

func compareDSO(_ *Hist, a, b *Entry) int {
	if am, bm := a.mapped(), b.mapped(); !am || !bm {
		return compareBool(am, bm)
	}
	return strings.Compare(b.place.dso, a.place.dso)
}

// compareSymbol orders by address; a difference of 1<<63 and more counts as
// negative, as in perf.
func compareSymbol(h *Hist, a, b *Entry) int {
	as, bs := a.place.frame.Sym(), b.place.frame.Sym()
	if as == nil && bs == nil {
		return cmp.Compare(int64(b.ip-a.ip), 0)
	}
	if c := compareDSO(h, a, b); c != 0 {
		return c
	}
	if as == nil || bs == nil {
		return compareBool(as != nil, bs != nil)
	}
	if a.place.call != nil || b.place.call != nil { // they may be inlined in different functions
		if c := strings.Compare(as.Name, bs.Name); c != 0 {
			return c
		}
		if as.Start <= bs.End && as.End >= bs.Start {
			return 0
		}
	}
	if as.Start != bs.Start {
		return cmp.Compare(int64(bs.Start-as.Start), 0)
	}
	return cmp.Compare(int64(bs.End-as.End), 0)
}

func compareName(_ *Hist, a, b *Entry) int {
	as, bs := a.place.frame.Sym(), b.place.frame.Sym()
	if as == nil || bs == nil {
		return compareBool(as != nil, bs != nil)
	}
	return strings.Compare(bs.Name, as.Name)
}

func compareTrace(h *Hist, a, b *Entry) int { return strings.Compare(h.trace(b), h.trace(a)) }

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// KeyError means that a sort key or column is unknown.
type KeyError struct {
	Option, Key string
	Fields      []string // the tracepoints' fields in the file
	Mode        Mode     // the only mode with the key; ModeSamples if the key is unknown
}

func (e *KeyError) Error() string {
	switch e.Mode {
	case ModeBranches:
		return fmt.Sprintf("%s: key %q is only for branches (-b)", e.Option, e.Key)
	case ModeMemory:
		return fmt.Sprintf("%s: key %q is only for memory accesses (--mem-mode)", e.Option, e.Key)
	}
	return fmt.Sprintf("%s: unknown key %q", e.Option, e.Key)
}

// WrongUse reports that the command line caused the error.
func (e *KeyError) WrongUse() bool { return true }

func commWidth(_ *Hist, e *Entry) int   { return len(e.Thread.Comm) }
func threadWidth(_ *Hist, e *Entry) int { return len(e.Thread.Comm) + 8 }

// hexWidth is the width of an address of 16 digits.
const hexWidth = 16

func dsoWidth(h *Hist, e *Entry) int {
	width := 0
	if e.mapped() {
		width = len(e.place.dso)
	}
	if e.place.frame.Sym() == nil {
		width = max(width, h.opts.unresolvedWidth())
	}
	return width
}

// unresolvedWidth is the width of a DSO without a symbol.
func (o *Options) unresolvedWidth() int {
	if o.Separator == "" && o.Filter.Where.DSOs == nil && o.Widths == nil {
		return hexWidth
	}
	return 0
}

func symbolWidth(h *Hist, e *Entry) int { return h.opts.frameWidth(e.place.frame) }

// frameWidth is the width of a frame's symbol.
func (o *Options) frameWidth(f *session.Frame) int {
	sym := f.Sym()
	switch {
	case sym == nil:
		return len("[k] 0x") + hexWidth
	case o.Verbose:
		return originWidth + len("[k] ") + len(sym.Name)
	}
	return len("[k] ") + len(sym.Name)
}

// originWidth is the width of an address and of the symbol's origin.
const originWidth = len("0x") + hexWidth + len(" k ")

// appendOrigin appends the address and the symbol's origin, if they are shown.
func (o *Options) appendOrigin(b []byte, f *session.Frame, ip uint64) []byte {
	if !o.Verbose {
		return b
	}
	n := len(b)
	b = appendHex(b, ip, 1)
	b = text.AppendBlanks(b, originWidth-len(" k ")-(len(b)-n))
	return append(b, ' ', byte(f.Origin()), ' ')
}

func traceWidth(h *Hist, e *Entry) int { return len(h.trace(e)) }

func appendComm(_ *Hist, b []byte, e *Entry, width int) []byte { return appendLeft(b, e.Comm, width) }

func appendThread(_ *Hist, b []byte, e *Entry, width int) []byte {
	b = append(text.AppendInt(b, int64(e.Thread.TID), 7), ':')
	return appendLeft(b, e.Thread.Comm, max(width, 8)-8)
}

func appendDSO(_ *Hist, b []byte, e *Entry, width int) []byte {
	return appendLeft(b, e.place.dso, width)
}

func appendSymbol(h *Hist, b []byte, e *Entry, width int) []byte {
	n := len(b)
	b = h.opts.appendOrigin(b, e.place.frame, e.ip)
	return e.place.appendMark(appendFrameSymbol(b, e.place.frame, e.ip, e.Level, width-(len(b)-n)))
}

// appendFrameSymbol appends the frame's level and symbol, or ip without one.
func appendFrameSymbol(b []byte, f *session.Frame, ip uint64, level byte, width int) []byte {
	b = append(b, '[', level, ']', ' ')
	if sym := f.Sym(); sym != nil {
		return append(b, sym.Name[:min(len(sym.Name), max(width-4, 0))]...)
	}
	return appendAddress(b, ip)
}

// appendAddress appends 16 digits, after 0x unless ip is 0.
func appendAddress(b []byte, ip uint64) []byte { return appendHex(b, ip, hexWidth) }

// appendHex appends at least min digits, after 0x unless ip is 0.
func appendHex(b []byte, ip uint64, min int) []byte {
	if ip != 0 {
		b = append(b, "0x"...)
	}
	var digits [16]byte
	d := strconv.AppendUint(digits[:0], ip, 16)
	for n := min - len(d); n > 0; n-- {
		b = append(b, '0')
	}
	return append(b, d...)
}

func appendCPU(_ *Hist, b []byte, e *Entry, width int) []byte {
	return fmt.Appendf(b, "%.*d", width, e.CPU)
}

func appendTrace(h *Hist, b []byte, e *Entry, width int) []byte {
	s := h.trace(e)
	return append(b, s[:min(len(s), width)]...)
}

// appendShare appends the entry's own figure as a percentage of the total.
func appendShare(get func(*Stat) uint64) func(*Hist, []byte, *Entry, int) []byte {
	return func(h *Hist, b []byte, e *Entry, width int) []byte {
		return h.opts.appendPercent(b, get(&e.Self), get(&h.Total), width)
	}
}

// appendPart appends a part of an entry's period as a percentage.
func appendPart(get func(*Stat) uint64) func(*Hist, []byte, *Entry, int) []byte {
	return func(h *Hist, b []byte, e *Entry, width int) []byte {
		return h.opts.appendPercent(b, get(&e.Self), h.Total.Period, width)
	}
}

func appendChildren(get func(*Stat) uint64) func(*Hist, []byte, *Entry, int) []byte {
	return func(h *Hist, b []byte, e *Entry, width int) []byte {
		if h.opts.NoChildren {
			return appendRight(append(b, ' '), "N/A", width-1)
		}
		return h.opts.appendPercent(b, get(&e.Children), get(&h.Total), width)
	}
}

// appendPercent appends a blank and part as a percentage of all.
func (o *Options) appendPercent(b []byte, part, all uint64, width int) []byte {
	percent := 0.0
	if all != 0 {
		percent = 100 * float64(part) / float64(all)
	}
	var digits [24]byte
	d := strconv.AppendFloat(digits[:0], percent, 'f', 2, 64)
	if o.Separator != "" {
		width = 0
	}
	start := len(b)
	b = append(append(text.AppendBlanks(append(b, ' '), width-2-len(d)), d...), '%')
	return o.Look.Percent(b, start, percent)
}

func appendNumber(get func(*Stat) uint64) func(*Hist, []byte, *Entry, int) []byte {
	return func(h *Hist, b []byte, e *Entry, width int) []byte {
		if h.opts.Separator != "" {
			width = 0
		}
		var digits [20]byte
		d := strconv.AppendUint(digits[:0], get(&e.Self), 10)
		return append(text.AppendBlanks(append(b, ' '), width-1-len(d)), d...)
	}
}
