package report

import (
	"slices"
	"strconv"
	"strings"

	"gperf/format"
	"gperf/format/tracepoint"
	"gperf/report/key"
)

// layout is the columns and the sort keys.
type layout struct {
	columns []*SortKey
	sorts   []*SortKey
	uses    uses
	order   string // the keys, as words
	byName  bool   // the first key is the symbol, so that call graphs need not begin with it
	latency latencyMode
	levels  [][]*SortKey // of a hierarchy
	// hiddenLevel is set where perf's hierarchy contains a further level, of an empty column.
	// The figures stand where perf's do.
	hiddenLevel bool
	derived     []string // the names of the keys from derivedKey
}

const (
	defaultSort       = "comm,dso,symbol"
	defaultBranchSort = "comm,dso_from,symbol_from,symbol_to,cycles"
	defaultMemorySort = "local_weight,mem,sym,dso,symbol_daddr,dso_daddr,snoop,tlb,locked,blocked," +
		"local_ins_lat,local_p_stage_cyc"
	defaultTraceSort = "trace"
	defaultLiveSort  = "dso,symbol"
	allFields        = "trace_fields"
)

// newLayout makes the layout as perf does (setup_sorting of
// tools/perf/util/sort.c): overheads come first, sort keys become columns, and
// columns sort entries with equal keys. defaults are the keys without --sort.
func newLayout(f *format.File, opts *Options, defaults string) (*layout, error) {
	l := &layout{byName: opts.Fields == "" && strings.HasPrefix(opts.Sort, "sym")}
	var err error
	if l.latency, err = opts.latencyOf(f); err != nil {
		return nil, err
	}
	p := keyParser{file: f, raw: opts.RawTrace, mode: opts.Mode}
	strict := isStrict(opts.Fields)
	words := sortWords(opts, strict, defaults)
	if !strict {
		words = l.overheadWords(words, !opts.NoChildren)
	}
	l.order = opts.Sort
	if opts.Sort == "" || opts.Sort[0] == '+' {
		l.order = defaults + strings.Replace(opts.Sort, "+", ",", 1)
	}
	if opts.Parents.Show {
		words += ",parent"
	}
	if err := p.add(&l.sorts, "--sort", words); err != nil {
		return nil, err
	}
	if !strict {
		l.columns = l.figureColumns(opts)
	}
	if err := p.add(&l.columns, "--fields", strings.TrimPrefix(opts.Fields, "+")); err != nil {
		return nil, err
	}
	for _, k := range l.sorts {
		l.columns = appendNew(l.columns, k)
	}
	for _, k := range l.columns {
		l.sorts = appendNew(l.sorts, k)
	}
	if !strict && !opts.NoChildren && !opts.Hierarchy {
		l.rename("overhead", "Self")
	}
	if opts.Hierarchy { // perf elides no columns here, and ignores --column-widths
		l.setLevels(&p, words+","+opts.Fields)
		l.hiddenLevel = strings.Contains(opts.Sort, "symbol")
	} else {
		l.elide(&opts.Filter)
		l.setWidths(opts.Widths)
	}
	for _, k := range l.sorts {
		if l.uses |= k.uses; k.derived {
			l.derived = append(l.derived, k.Name)
		}
	}
	return l, nil
}

// rename gives a column another head.
func (l *layout) rename(name, head string) {
	for i, k := range l.columns {
		if k.Name == name {
			renamed := *k
			renamed.Head = head
			l.columns[i] = &renamed
		}
	}
}

// setWidths sets the widths of the first columns.
func (l *layout) setWidths(widths []int) {
	for i := range min(len(widths), len(l.columns)) {
		k := *l.columns[i]
		k.user = widths[i]
		l.columns[i] = &k
	}
}

// elide drops the columns that a filter makes equal for all entries, unless no
// column would be left.
func (l *layout) elide(f *Filter) {
	if !slices.ContainsFunc(l.columns, func(k *SortKey) bool {
		return (k.cmp != nil && k.field == nil) && len(f.list(k)) != 1
	}) {
		return
	}
	for i, k := range l.columns {
		if k.cmp != nil && len(f.list(k)) == 1 {
			elided := *k
			elided.elided = true
			l.columns[i] = &elided
			if j := slices.Index(l.sorts, k); j >= 0 {
				l.sorts[j] = &elided
			}
		}
	}
}

// list returns the filter's values of key k.
func (f *Filter) list(k *SortKey) []string {
	switch k.Name {
	case "comm":
		return f.Comms
	case "dso":
		return f.Where.DSOs
	case "symbol":
		return f.Where.Names()
	}
	return nil
}

func appendNew(list []*SortKey, k *SortKey) []*SortKey {
	for _, have := range list {
		if have == k || k.derived && have.derived && have.Name == k.Name {
			return list
		}
		if k.field != nil && have.field != nil && have.field.format == k.field.format {
			return list
		}
	}
	return append(list, k)
}

// shown reports whether a column is part of an event's block.
func (k *SortKey) shown(event int) bool {
	return !k.elided && (k.field == nil || k.field.event == event)
}

// figureColumns returns the first columns: overheads that the keys name, and those
// of the options.
func (l *layout) figureColumns(o *Options) (list []*SortKey) {
	for _, name := range l.overheadColumns(!o.NoChildren) {
		if k := lookupExact(name); slices.Contains(l.sorts, k) {
			list = append(list, k)
		}
	}
	for _, c := range [...]struct {
		shown bool
		name  string
	}{{o.CPUModes, "overhead_sys"}, {o.CPUModes, "overhead_us"}, {o.Samples, "sample"}, {o.Period, "period"}} {
		if c.shown {
			list = append(list, lookupExact(c.name))
		}
	}
	return list
}

func lookupExact(name string) *SortKey {
	return figures[slices.IndexFunc(figures, func(k *SortKey) bool { return k.Name == name })]
}

// keyParser turns words into keys.
type keyParser struct {
	file *format.File
	raw  bool
	mode Mode
	live bool // the defaults are perf top's
}

// sortWords returns the words of --sort, or the defaults. perf adds ipc_null or ipc_lbr to
// words with "symbol"; gperf does not, because these columns are empty unless the command
// has disassembled the functions.
func sortWords(opts *Options, strict bool, defaults string) string {
	words := opts.Sort
	switch {
	case words == "" && strict:
		return ""
	case words == "":
		words = defaults
	case words[0] == '+':
		words = defaults + "," + words[1:]
	}
	return words
}

// defaultSort returns the default keys: the tracepoints' text if all events are tracepoints.
// perf chooses before it reads the events of a pipe.
func (p *keyParser) defaultSort() string {
	for i := range p.file.Attrs {
		if p.file.Pipe || p.file.Attrs[i].Type != format.TypeTracepoint {
			switch p.mode {
			case ModeBranches:
				return defaultBranchSort
			case ModeMemory:
				return defaultMemorySort
			}
			if p.live {
				return defaultLiveSort
			}
			return defaultSort
		}
	}
	if p.raw {
		return allFields
	}
	return defaultTraceSort
}

func (p *keyParser) add(list *[]*SortKey, option, words string) error {
	for word := range strings.FieldsFuncSeq(words, func(r rune) bool { return strings.ContainsRune("{}, ", r) }) {
		found := p.parse(word)
		if len(found) == 0 {
			return &KeyError{Option: option, Key: word, Fields: p.fields()}
		}
		for _, k := range found {
			if k.mode != ModeSamples && k.mode != p.mode {
				return &KeyError{Option: option, Key: word, Mode: k.mode}
			}
			*list = appendNew(*list, k)
		}
	}
	return nil
}

// parse returns the keys of a word: a key's name, or [EVENT.]FIELD[/raw] of
// tracepoints, where EVENT is %NUMBER, a name or a part of it, and FIELD may be
// * for all. It returns nil for an unknown word.
func (p *keyParser) parse(word string) []*SortKey {
	derived := slices.Contains(key.Derived(p.file), word)
	if k := lookupKey(word); k != nil && (k.Name == word || !derived) { // src is a key of packets, or means srcline
		return []*SortKey{k}
	}
	if word == key.Syscall {
		return p.syscallKeys()
	}
	event, name, qualified := strings.Cut(word, ".")
	if !qualified {
		event, name = "", word
	}
	name, option, hasOption := strings.Cut(name, "/")
	if hasOption && option != "raw" {
		return nil
	}
	all := name == allFields && !qualified || name == "*" && qualified
	raw := p.raw || hasOption
	var found []*SortKey
	for i := range p.file.Attrs {
		f := p.file.Tracepoint(i)
		if f == nil || qualified && !p.means(event, i) {
			continue
		}
		for j := range f.Fields {
			fd := &f.Fields[j]
			if fd.Name == name || all && !isCommon(fd) {
				found = append(found, newFieldKey(i, fd, raw))
			}
		}
	}
	if len(found) == 0 && derived {
		return []*SortKey{derivedKey(word)}
	}
	if len(found) == 0 {
		for _, k := range originKeys {
			if len(word) <= len(k.Name) && strings.EqualFold(word, k.Name[:len(word)]) {
				return []*SortKey{k}
			}
		}
	}
	return found
}

func isCommon(fd *tracepoint.Field) bool { return strings.HasPrefix(fd.Name, "common_") }

// means reports whether word names event i.
func (p *keyParser) means(word string, i int) bool {
	if n, ok := strings.CutPrefix(word, "%"); ok {
		number, err := strconv.Atoi(n)
		return err == nil && number == i+1
	}
	name := p.file.EventName(i)
	return name == word || !strings.Contains(word, ":") && strings.Contains(name, word)
}

// fields names the fields that can be sorted by.
func (p *keyParser) fields() []string {
	var names []string
	for i := range p.file.Attrs {
		if f := p.file.Tracepoint(i); f != nil {
			if key.HasSyscalls(f) && !slices.Contains(names, key.Syscall) {
				names = append(names, key.Syscall)
			}
			for j := range f.Fields {
				if fd := &f.Fields[j]; !isCommon(fd) && !slices.Contains(names, fd.Name) {
					names = append(names, fd.Name)
				}
			}
		}
	}
	for _, name := range key.Derived(p.file) {
		if !slices.Contains(Keys(), name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// appendRaw appends the tracepoint data that the keys use.
func (l *layout) appendRaw(b []byte, event int, raw []byte, t *traces) []byte {
	for _, k := range l.sorts {
		switch {
		case k.uses&usesRaw == 0 || t.formats[event] == nil:
		case k.field == nil:
			return append(b[:0], raw...)
		case k.field.event == event:
			b = append(b, k.field.format.Bytes(raw, t.env.Order)...)
			b = append(b, 0)
		}
	}
	return b
}
