package event

import (
	"cmp"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gperf/format"
	"gperf/internal/procfs"
	"gperf/internal/suggest"
)

const sysfsPMUs = "/sys/bus/event_source/devices"

// PMU is a performance monitoring unit in sysfs.
type PMU struct {
	Name string
	Type format.EventType
	dir  string
}

// PMUs returns the PMUs of this machine, by name.
func (f *Resolver) PMUs() (l []PMU) {
	dir := f.sysfs()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if p, ok := readPMU(dir, e.Name()); ok {
			l = append(l, p)
		}
	}
	return l
}

func (f *Resolver) sysfs() string {
	if f.Sysfs != "" {
		return f.Sysfs
	}
	return sysfsPMUs
}

func readPMU(dir, name string) (PMU, bool) {
	p := PMU{Name: name, dir: filepath.Join(dir, name)}
	if strings.ContainsAny(name, "/") || strings.Trim(name, ".") == "" {
		return p, false
	}
	n, err := strconv.ParseUint(p.read("type"), 10, 32)
	p.Type = format.EventType(n)
	return p, err == nil
}

// read reads a file of one line; it returns "" if there is none.
func (p *PMU) read(name string) string {
	b, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (p *PMU) list(name string) (l []string) {
	entries, err := os.ReadDir(filepath.Join(p.dir, name))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		l = append(l, e.Name())
	}
	return l
}

// aliasProperties are the suffixes of files next to an event's file, with properties for
// printing its counts.
var aliasProperties = []string{".scale", ".unit", ".per-pkg", ".snapshot", ".retire_latency", ".mean", ".min", ".max"}

// Events returns the names of the PMU's events.
func (p *PMU) Events() (l []string) {
	for _, n := range p.list("events") {
		if !slices.ContainsFunc(aliasProperties, func(s string) bool { return strings.HasSuffix(n, s) }) {
			l = append(l, n)
		}
	}
	return l
}

// Terms returns the names of the fields that configure its events.
func (p *PMU) Terms() []string { return p.list("format") }

// Core reports whether the named hardware events, and the raw ones, belong to this PMU.
func (p *PMU) Core() bool {
	return p.Name == "cpu" || p.read("cpus") != "" || strings.HasPrefix(p.Name, "armv")
}

// legacy returns the named hardware event that p counts.
func (p *PMU) legacy(name string) (Event, bool) {
	ev, ok := plainEvent(name)
	switch {
	case !ok:
	case ev.Type == format.TypeRaw: // a number of the PMU's own events
		ev.Type = p.Type
		return ev, true
	case ev.Type == format.TypeSoftware:
		return ev, p.Type == format.TypeSoftware
	}
	return ev, ok && p.Core()
}

// otherWords are PMUs whose events have a syntax of their own.
var otherWords = map[string]string{
	"tracepoint": "tracepoints are recorded as SYSTEM:NAME",
	"breakpoint": "breakpoints are recorded as mem:ADDR[/LEN][:ACCESS]",
	"kprobe":     "probes of the kernel are recorded as kprobe:FUNCTION or kretprobe:FUNCTION",
	"uprobe":     "probes of programs are recorded as uprobe:FILE:FUNCTION or uretprobe:FILE:FUNCTION",
}

// pmuEvent parses an event in a PMU's syntax; it leaves the terms that are not the PMU's in
// w.terms.
func (w *words) pmuEvent(at *Resolver) ([]Event, error) {
	if why := otherWords[w.name]; why != "" {
		return nil, w.spec.bad(why)
	}
	p, ok := readPMU(at.sysfs(), w.name)
	switch {
	case !ok && w.name == "cpu": // without this PMU: names mean the same as without cpu/…/
		p = PMU{Name: "cpu", Type: format.TypeRaw}
	case !ok:
		var names []string
		for _, p := range at.PMUs() {
			names = append(names, p.Name)
		}
		return nil, &UnknownError{Spec: string(w.spec), Kind: "PMU", Near: suggest.Names(w.name, names), All: names}
	}
	ev := Event{Name: string(w.spec), Type: p.Type}
	var err error
	if ev.CPUs, err = p.cpus(); err != nil {
		return nil, w.spec.bad(err.Error())
	}
	var left []term
	for _, t := range w.terms {
		taken, err := ev.setPMUTerm(w, &p, t)
		if err != nil {
			return nil, err
		}
		if !taken {
			left = append(left, t)
		}
	}
	w.terms = left
	return []Event{ev}, nil
}

// setPMUTerm applies a term to the event if it is one of the PMU's, or an event's name.
func (ev *Event) setPMUTerm(w *words, p *PMU, t term) (bool, error) {
	if f := p.read("format/" + t.key); f != "" && t.known() {
		return true, ev.setField(w, t, f)
	}
	if _, ok := ev.config(t.key); ok {
		f := t.key + ":0-63"
		return true, ev.setField(w, t, f)
	}
	if t.value == "" {
		if alias := p.read("events/" + t.key); alias != "" && t.known() {
			return true, ev.setAlias(w, p, t.key, alias)
		}
		if e, ok := p.legacy(t.key); ok {
			ev.Type, ev.Config = e.Type, e.Config
			return true, nil
		}
	}
	if slices.Contains(commonTerms, t.key) || refusedTerms[t.key] != "" {
		return false, nil
	}
	return false, w.spec.unknownTerm(t, p.Name, slices.Concat(p.Events(), p.Terms(),
		[]string{"config", "config1", "config2", "config3"}, commonTerms))
}

// known reports whether the key can be a file's name.
func (t term) known() bool { return !strings.ContainsAny(t.key, "/.") }

// setAlias applies the terms of a named event.
func (ev *Event) setAlias(w *words, p *PMU, name, text string) error {
	terms, err := parseTerms(string(w.spec), text)
	if err != nil {
		return err
	}
	for _, t := range terms {
		f := p.read("format/" + t.key)
		if _, ok := ev.config(t.key); ok {
			f = t.key + ":0-63"
		}
		switch {
		case f == "" || !t.known():
			return w.spec.bad(fmt.Sprintf("event %s of PMU %s: unknown term %s in %q", name, p.Name, t.key, text))
		case t.value == "?":
			if !slices.ContainsFunc(w.terms, func(o term) bool { return o.key == t.key }) {
				return w.spec.bad(fmt.Sprintf("event %s needs a value: %s=…", name, t.key))
			}
			continue
		}
		if err := ev.setField(w, t, f); err != nil {
			return err
		}
	}
	return nil
}

// config returns the config word for its name in a format.
func (ev *Event) config(name string) (*uint64, bool) {
	switch name {
	case "config":
		return &ev.Config, true
	case "config1":
		return &ev.Config1, true
	case "config2":
		return &ev.Config2, true
	case "config3":
		return &ev.Config3, true
	}
	return nil, false
}

// setField writes a value into the bits of a format, the lowest bit into the first:
// "config:0-7,32-35".
func (ev *Event) setField(w *words, t term, text string) error {
	mask, into, err := ev.bits(text)
	if err != nil {
		return w.spec.bad(fmt.Sprintf("term %s: %v", t.key, err))
	}
	n := uint64(1<<bits.OnesCount64(mask) - 1)
	v, err := t.number(w, n)
	if err != nil {
		return err
	}
	*into &^= mask
	for m := mask; m != 0; m &= m - 1 {
		*into |= (v & 1) * (m & -m)
		v >>= 1
	}
	return nil
}

// bits parses a format.
func (ev *Event) bits(text string) (mask uint64, into *uint64, err error) {
	word, ranges, _ := strings.Cut(text, ":")
	into, ok := ev.config(word)
	if !ok {
		return 0, nil, fmt.Errorf("this kernel configures it by %q, which gperf does not support", text)
	}
	for r := range strings.SplitSeq(ranges, ",") {
		from, to, ranged := strings.Cut(r, "-")
		if !ranged {
			to = from
		}
		a, err1 := strconv.ParseUint(from, 10, 6)
		b, err2 := strconv.ParseUint(to, 10, 6)
		if err1 != nil || err2 != nil || b < a {
			return 0, nil, fmt.Errorf("its format %q is invalid", text)
		}
		mask |= (1<<(b-a+1) - 1) << a
	}
	return mask, into, nil
}

// cpus returns the CPUs that the PMU counts on, nil if it counts on all. For PMUs shared by
// several CPUs, these are the ones to open events on.
func (p *PMU) cpus() ([]int, error) {
	s := cmp.Or(p.read("cpumask"), p.read("cpus"))
	if s == "" {
		return nil, nil
	}
	l, err := procfs.ParseCPUList(s)
	if err != nil {
		return nil, fmt.Errorf("CPUs of PMU %s: invalid list %q", p.Name, s)
	}
	return l, nil
}
