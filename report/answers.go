package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gperf/format"
	"gperf/format/syscalls"
	"gperf/format/tracepoint"
)

// answers are the words by which an event is sorted by default instead of perf's, ""
// for perf's. The text of a tracepoint has pointers and times that differ in each
// sample; these tell what the event was recorded for.
func (p *keyParser) answers(event int) string {
	f := p.file.Tracepoint(event)
	switch {
	case f == nil || p.raw:
		return ""
	case f.System == "raw_syscalls" && f.Field("id") != nil:
		return "syscall"
	case f.Field("__probe_ip") != nil || f.Field("__probe_func") != nil:
		return p.ofFields(event, []string{"comm", "dso", "symbol"}, func(fd *tracepoint.Field) bool { return !strings.HasPrefix(fd.Name, "__probe_") })
	}
	return p.ofFields(event, nil, func(fd *tracepoint.Field) bool { return fd.Name == "location" || fd.Name == "reason" })
}

// ofFields are words, and those for some of an event's fields.
func (p *keyParser) ofFields(event int, words []string, some func(*tracepoint.Field) bool) string {
	f := p.file.Tracepoint(event)
	for i := range f.Fields {
		if fd := &f.Fields[i]; !isCommon(fd) && some(fd) {
			words = append(words, fmt.Sprintf("%%%d.%s", event+1, fd.Name))
		}
	}
	return strings.Join(words, ",")
}

// newSyscallKey makes a column of the names of system calls.
func newSyscallKey(event int, fd *tracepoint.Field, names syscalls.Names) *SortKey {
	k := newFieldKey(event, fd, true)
	k.Name, k.Head, k.figure, k.min = syscallKey, "Syscall", false, len("Syscall")
	text := func(h *Hist, e *Entry) string {
		nr, _ := fd.Uint(e.raw, h.traces.env.Order)
		return names.Name(int64(nr))
	}
	k.width = func(h *Hist, e *Entry) int { return len(text(h, e)) }
	k.sort = func(h *Hist, a, b *Entry) int { return cmp.Compare(text(h, b), text(h, a)) }
	k.append = func(h *Hist, b []byte, e *Entry, width int) []byte { return appendLeft(b, text(h, e), width) }
	return k
}

// syscallKey is the key for the names of raw_syscalls' system calls.
const syscallKey = "syscall"

// syscallKeys are those of the file's events.
func (p *keyParser) syscallKeys() (found []*SortKey) {
	names := syscalls.Of(p.file.String(format.FeatureArch))
	for i := range p.file.Attrs {
		if f := p.file.Tracepoint(i); f != nil && f.System == "raw_syscalls" && f.Field("id") != nil {
			found = append(found, newSyscallKey(i, f.Field("id"), names))
		}
	}
	return found
}

// layouts are those of the events: one, but for events that are sorted by default by
// what they were recorded for. Groups that are shown together have one, too.
type layouts struct {
	byEvent []*layout
	list    []*layout // each once
}

func newLayouts(f *format.File, opts *Options) (*layouts, error) {
	p := keyParser{file: f, raw: opts.RawTrace, mode: opts.Mode}
	base := p.defaultSort()
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

// choosesKeys says whether an event's keys are left to gperf.
func (o *Options) choosesKeys() bool {
	return o.Mode == ModeSamples && o.Fields == "" && (o.Sort == "" || o.Sort[0] == '+')
}

// uses is what any of them uses.
func (l *layouts) uses() (u uses) {
	for _, one := range l.list {
		u |= one.uses
	}
	return u
}

// columns are those of all layouts: a key's once.
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
