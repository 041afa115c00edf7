package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gperf/format"
	"gperf/format/fields"
	"gperf/format/tracepoint"
	"gperf/report/key"
)

// answers returns the default keys of an event, or "" to sort it as perf does: by a
// tracepoint's text, whose pointers and times differ in each sample. For a pipe, gperf
// sorts all events as perf does, because perf chooses before it reads them.
func (p *keyParser) answers(event int) string {
	f := p.file.Tracepoint(event)
	switch {
	case f == nil || p.raw || p.file.Pipe && !p.live:
		return ""
	case key.HasSyscalls(f):
		return "syscall"
	case f.Field("__probe_ip") != nil || f.Field("__probe_func") != nil:
		return p.fieldWords(event, []string{"comm", "dso", "symbol"}, func(fd *tracepoint.Field) bool {
			return !strings.HasPrefix(fd.Name, "__probe_")
		})
	}
	words := p.fieldWords(event, nil, func(fd *tracepoint.Field) bool {
		return fd.Name == "location" || fd.Name == "reason"
	})
	if words == "" && p.live {
		return defaultTraceSort
	}
	return words
}

// EventKeys returns the names of the keys that sort the entries of each event without --sort, by the name of the event.
// live means gperf top.
func EventKeys(f *format.File, live bool) map[string][]string {
	p := keyParser{file: f, live: live}
	keys := map[string][]string{}
	for i := range f.Attrs {
		var names []string
		for word := range strings.SplitSeq(cmp.Or(p.answers(i), p.defaultSort()), ",") {
			if _, field, ok := strings.Cut(word, "."); ok && word[0] == '%' { // see fieldWords
				word = field
			}
			names = append(names, word)
		}
		keys[f.EventName(i)] = names
	}
	return keys
}

// fieldWords returns words with the keys of an event's fields that match.
func (p *keyParser) fieldWords(event int, words []string, match func(*tracepoint.Field) bool) string {
	f := p.file.Tracepoint(event)
	for i := range f.Fields {
		if fd := &f.Fields[i]; !isCommon(fd) && match(fd) {
			words = append(words, fmt.Sprintf("%%%d.%s", event+1, fd.Name))
		}
	}
	return strings.Join(words, ",")
}

// newSyscallKey returns a key that shows the names of system calls.
func newSyscallKey(event int, f *tracepoint.Format, names fields.SyscallTable) *SortKey {
	fd := f.Field("id")
	k := newFieldKey(event, fd, true)
	k.Name, k.Head, k.figure, k.min = key.Syscall, "Syscall", false, len("Syscall")
	text := func(h *Hist, e *Entry) string {
		nr, _ := fd.Uint(e.raw, h.traces.env.Order)
		return names.Name(key.SyscallNumber(f, int64(nr), e.extra.is32))
	}
	// Equal numbers of 64-bit and 32-bit programs are different system calls.
	is32, sameNumber := func(x *extra) uint64 {
		if x.is32 {
			return 1
		}
		return 0
	}, k.cmp
	k.uses, k.value = k.uses|usesExtra, is32
	k.cmp = func(h *Hist, a, b *Entry) int {
		return cmp.Or(sameNumber(h, a, b), cmp.Compare(is32(a.extra), is32(b.extra)))
	}
	k.width = func(h *Hist, e *Entry) int { return len(text(h, e)) }
	k.sort = func(h *Hist, a, b *Entry) int { return cmp.Compare(text(h, b), text(h, a)) }
	k.append = func(h *Hist, b []byte, e *Entry, width int) []byte { return appendLeft(b, text(h, e), width) }
	return k
}

// syscallKeys returns the syscall key of each event of system calls.
func (p *keyParser) syscallKeys() (found []*SortKey) {
	names := fields.SyscallsOf(p.file.String(format.FeatureArch))
	for i := range p.file.Attrs {
		if f := p.file.Tracepoint(i); f != nil && key.HasSyscalls(f) {
			found = append(found, newSyscallKey(i, f, names))
		}
	}
	return found
}

// layouts holds the layout of each event: the same for all, except for events that have
// default keys of their own. Events of a group that is shown together share one.
type layouts struct {
	byEvent []*layout
	list    []*layout // each once
}

func newLayouts(f *format.File, opts *Options) (*layouts, error) {
	p := keyParser{file: f, raw: opts.RawTrace, mode: opts.Mode, live: opts.live}
	base := p.defaultSort()
	if opts.history {
		base = branchHistorySort
	}
	words := make([]string, max(1, len(f.Attrs)))
	for i := range f.Attrs {
		if opts.choosesKeys() {
			words[i] = p.answers(i)
		}
	}
	if opts.Groups != GroupsApart {
		for leader, g := range eventGroups(f, opts) {
			clear(words[leader:min(leader+int(g.Members), len(words))])
		}
	}
	l := &layouts{}
	known := map[string]*layout{}
	for _, w := range words {
		if known[w] == nil {
			made, err := newLayout(f, opts, cmp.Or(w, base))
			if err != nil {
				return nil, err
			}
			known[w] = made
			l.list = append(l.list, made)
		}
		l.byEvent = append(l.byEvent, known[w])
	}
	return l, nil
}

// choosesKeys reports whether the user left the keys to gperf.
func (o *Options) choosesKeys() bool {
	return o.Mode == ModeSamples && o.Fields == "" && (o.Sort == "" || o.Sort[0] == '+')
}

// uses returns the uses of all layouts together.
func (l *layouts) uses() (u uses) {
	for _, one := range l.list {
		u |= one.uses
	}
	return u
}

// columns returns the columns of all layouts, each once.
func (l *layouts) columns() (list []*SortKey) {
	for _, one := range l.list {
		for _, k := range one.columns {
			if !slices.Contains(list, k) {
				list = append(list, k)
			}
		}
	}
	return list
}
