package event

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"gperf/format"
	"gperf/internal/suggest"
	"gperf/record/probe"
	"gperf/record/probe/kernel"
	"gperf/record/tracefs"
)

// Resolver resolves names of events on this machine.
type Resolver struct {
	*probe.Resolver
	Sysfs    string // directory of the PMUs; "": /sys/bus/event_source/devices
	Kallsyms string // file of the kernel's symbols; "": /proc/kallsyms
}

// Parse parses one -e argument, a comma-separated list, into events, in its order. Globs
// yield one event for each match.
func Parse(list string, at *Resolver) ([]Event, error) {
	var events []Event
	for _, spec := range split(list) {
		l, err := parseItem(spec, at)
		if err != nil {
			return nil, err
		}
		events = append(events, l...)
	}
	return events, nil
}

// ownTerms matches the terms of an event whose words contain slashes themselves: the terms
// are identified by their keys.
var ownTerms = regexp.MustCompile(`^/(?:(?:` + strings.Join(commonTerms, "|") + `)(?:=[^,/]*)?(?:,|(/)))+`)

// termsAt returns the length of these terms at the start of s, 0 for none.
func termsAt(s string) int {
	if m := ownTerms.FindStringSubmatchIndex(s); m != nil && m[2] >= 0 {
		return m[3]
	}
	if m := spanTerms.FindStringSubmatchIndex(s); m != nil {
		return m[3] + len("/")
	}
	return 0
}

// withArguments matches a tracepoint followed by arguments.
var withArguments = regexp.MustCompile(`^([\w-]+:[^\s,/]+)\s+([^\s,].*)$`)

// hasSlashes reports whether an event may contain slashes that do not delimit terms.
func hasSlashes(spec string) bool { return isPlace(spec) || withArguments.MatchString(spec) }

// isPlace reports whether an event is a place: in code, or in memory.
func isPlace(spec string) bool {
	return probe.IsSpec(spec) || strings.HasPrefix(spec, breakpointPrefix) || strings.HasPrefix(spec, SpanPrefix)
}

// split splits a list of events at its commas, except those inside an event: in a group, in
// terms, in the parameters of a C++ function, between quotes.
func split(list string) (specs []string) {
	start, groups := 0, 0 // of the next event; open groups
	slashes := hasSlashes(strings.TrimSpace(list))
	for i := 0; ; i++ {
		if i += eventLen(list[i:], slashes); i == len(list) {
			return append(specs, strings.TrimSpace(list[start:]))
		}
		if list[i] == '}' { // modifiers follow
			groups = max(0, groups-1)
			slashes = false
			continue
		}
		switch {
		case list[i] == '{':
			groups++
		case groups == 0:
			specs = append(specs, strings.TrimSpace(list[start:i]))
			start = i + 1
		}
		slashes = hasSlashes(strings.TrimSpace(list[i+1:]))
	}
}

// eventLen returns the length of the event at the start of s: up to a comma or a brace, or
// all of s. slashes is the result of hasSlashes for the event.
func eventLen(s string, slashes bool) int {
	if slashes {
		return placeLen(s)
	}
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ',', '{', '}':
			return i
		case '/':
			i += termsLen(s[i:]) - 1
		}
	}
	return len(s)
}

// placeLen is eventLen of an event whose slashes belong to a path. Commas separate events
// only outside of brackets (of C++ parameters and templates), quotes and terms.
func placeLen(s string) int {
	brackets := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '/':
			i += max(termsAt(s[i:]), 1) - 1
		case '"':
			i += quoteLen(s[i:]) - 1
		case '(', '<', '[':
			brackets++
		case ')', '>', ']':
			brackets = max(0, brackets-1)
		case ',', '}':
			if brackets == 0 {
				return i
			}
		}
	}
	return len(s)
}

// termsLen returns the length of the terms at the start of s, with both slashes.
func termsLen(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '/':
			return i + 1
		case '"', '\'':
			i += quoteLen(s[i:]) - 1
		}
	}
	return len(s)
}

// quoteLen returns the length of the quoted text at the start of s, with its quotes.
func quoteLen(s string) int {
	if n := strings.IndexByte(s[1:], s[0]); n >= 0 {
		return n + 2
	}
	return len(s)
}

var groupHead = regexp.MustCompile(`^[\w-]*\{`)

// parseItem parses an event, or a group.
func parseItem(spec string, at *Resolver) ([]Event, error) {
	head := groupHead.FindString(spec)
	if head == "" {
		return parse(spec, at)
	}
	bad := eventText(spec).bad
	end := strings.LastIndexByte(spec, '}')
	if end < 0 {
		return nil, bad("the group's } is missing")
	}
	mods, modified := strings.CutPrefix(spec[end+1:], ":")
	if !modified && mods != "" {
		return nil, bad("a group can only be followed by modifiers (:u)")
	}
	var events []Event
	for _, s := range split(spec[len(head):end]) {
		if groupHead.MatchString(s) {
			return nil, bad("groups cannot be nested")
		}
		l, err := parse(s, at)
		if err != nil {
			return nil, err
		}
		events = append(events, l...)
	}
	events[0].Group = head[:len(head)-1]
	for i := range events {
		ev := &events[i]
		ev.Member = i > 0
		if modified {
			if err := ev.modify(spec, mods); err != nil {
				return nil, err
			}
		}
		ev.Silent = ev.Member && events[0].SampleRead && ev.Terms.Period == 0 && ev.Terms.Freq == 0
	}
	return events, nil
}

// words is an event of the command line, split into its parts.
type words struct {
	spec     eventText
	name     string // the part before the terms, including modifiers if there are no terms
	args     string // arguments of a tracepoint
	terms    []term // nil: none
	mods     string
	modified bool
}

// cutWords splits off the terms of an event, and the modifiers after them.
func cutWords(spec string) (w *words, err error) {
	w = &words{spec: eventText(spec), name: spec}
	if m := withArguments.FindStringSubmatch(spec); m != nil && !isPlace(spec) {
		w.name, w.args = m[1], m[2]
		return w, nil
	}
	begin, end := strings.IndexByte(spec, '/'), strings.LastIndexByte(spec, '/')
	if hasSlashes(spec) {
		for begin = 0; begin < len(spec); begin++ {
			if n := termsAt(spec[begin:]); n > 0 {
				end = begin + n - 1
				break
			}
		}
		if begin == len(spec) {
			return w, nil
		}
	}
	if begin < 0 {
		return w, nil
	}
	if begin == end {
		if meant := probe.Suggest(spec); meant != "" {
			return nil, &UnknownError{Spec: spec, Near: []string{meant}}
		}
		return nil, w.spec.bad("the / after the terms of a PMU's event is missing")
	}
	w.name = spec[:begin]
	w.mods, w.modified = strings.CutPrefix(spec[end+1:], ":")
	w.modified = w.modified || w.mods != ""
	w.terms, err = parseTerms(spec, spec[begin+1:end])
	return w, err
}

// nameAndMods splits the name into n parts at colons; the part after a further colon is the
// modifiers.
func (w *words) nameAndMods(n int) []string {
	l := strings.SplitN(w.name, ":", n+1)
	if len(l) > n {
		w.mods, w.modified = l[n]+w.mods, true
		l = l[:n]
	}
	return l
}

// parse parses one event, or a glob of them:
//
//	NAME[/TERMS/][:MODIFIERS]
//	SYSTEM:NAME[/TERMS/][:MODIFIERS]
//	SYSTEM:NAME ARG...
//	PMU/TERMS/[MODIFIERS]
//	mem:ADDR[/LEN][:ACCESS][/TERMS/][:MODIFIERS]
//	KIND:PROBE[/TERMS/][:MODIFIERS]
//	nf:drop [FIELD...]
//	span:WHAT[/TERMS/]
func parse(spec string, at *Resolver) ([]Event, error) {
	events, err := parseOne(spec, at)
	if err != nil {
		return nil, systemCall(spec, err)
	}
	return events, nil
}

// parseOne is parse without the advice for system calls.
func parseOne(spec string, at *Resolver) ([]Event, error) {
	if strings.HasPrefix(spec, SpanPrefix) {
		return parseSpan(spec, at)
	}
	w, err := cutWords(spec)
	if err != nil {
		return nil, err
	}
	events, err := w.events(at)
	if err != nil {
		return nil, err
	}
	for i := range events {
		ev := &events[i]
		for _, t := range w.terms {
			if err := ev.set(w, t); err != nil {
				return nil, err
			}
		}
		if !w.modified {
			continue
		}
		if err := ev.modify(spec, w.mods); err != nil {
			return nil, err
		}
		if ev.Weak {
			return nil, w.spec.bad("modifier 'W' is for event groups")
		}
	}
	return events, nil
}

// events resolves the name.
func (w *words) events(at *Resolver) ([]Event, error) {
	base, _, colon := strings.Cut(w.name, ":")
	ev, plain := plainEvent(base)
	switch {
	case w.name == "":
		return nil, w.spec.bad("empty event name")
	case packetProbe.MatchString(string(w.spec)):
		return w.packetProbes(at)
	case probe.IsSpec(string(w.spec)):
		return w.probes(at)
	case w.name == PacketDrops:
		return w.packetDrops(at)
	case w.name == XDPDrop, w.name == TCDrop:
		return w.programDrops()
	case strings.HasPrefix(w.name, kernel.RawPrefix):
		return w.rawTracepoint()
	case strings.HasPrefix(w.name, netfilterSystem):
		return w.netfilterDrop(at)
	case strings.HasPrefix(w.name, breakpointPrefix):
		return w.breakpoint(at)
	case plain:
		w.nameAndMods(1)
		ev.Name = string(w.spec)
		return []Event{ev}, nil
	case colon:
		return w.tracepoints(at)
	case w.terms != nil:
		return w.pmuEvent(at)
	}
	return nil, &UnknownError{Spec: string(w.spec), Near: nearEvents(w.name, at)}
}

// identifier matches the name of a tracepoint or of a C function.
var identifier = regexp.MustCompile(`^[A-Za-z_]\w*$`)

// nearEvents returns events that a single word may mean: a tracepoint without its system, a
// function of the C library or of the kernel, or a similar name.
func nearEvents(name string, at *Resolver) []string {
	events := suggest.Names(name, plainNames())
	if !identifier.MatchString(name) {
		return events
	}
	tracepoints := at.Tracefs.Near("", name)
	if len(tracepoints) > 0 && strings.HasSuffix(tracepoints[0], ":"+name) {
		return tracepoints
	}
	for _, spec := range []string{"uprobe:libc:" + name, "kprobe:" + name} {
		if l, err := at.Find(spec); err == nil && len(l) > 0 {
			return []string{spec}
		}
	}
	return append(events, tracepoints...)
}

// withModifiers matches a probe's spec followed by modifiers, or by a short name.
var withModifiers = regexp.MustCompile(`^(\S*[^:\s]):([` + modifiers + `]+)$`)

// findProbes finds the probes of a spec. Apparent modifiers are a name if the part before
// them is not a probe: kprobe:MODULE:FUNCTION, usdt:FILE:NAME.
func (w *words) findProbes(at *Resolver) ([]*probe.Probe, error) {
	if m := withModifiers.FindStringSubmatch(w.name); m != nil {
		if l, err := at.Find(m[1]); err == nil {
			w.mods, w.modified = m[2]+w.mods, true
			return l, nil
		}
	}
	return at.Find(w.name)
}

// probes returns the events of a probe's spec, one for each place.
func (w *words) probes(at *Resolver) (events []Event, err error) {
	l, err := w.findProbes(at)
	if err != nil {
		return nil, err
	}
	for _, p := range l {
		events = append(events, Event{Name: p.String(), Type: format.TypeTracepoint, Probe: p})
	}
	return events, nil
}

// rawTracepoint returns the events of raw_tracepoint:NAME.
func (w *words) rawTracepoint() ([]Event, error) {
	l := w.nameAndMods(2)
	if w.modified || w.terms != nil {
		return nil, w.spec.bad("a raw tracepoint supports neither modifiers nor terms")
	}
	names := l[1:]
	if strings.ContainsAny(l[1], `*?[\`) {
		if _, err := path.Match(l[1], ""); err != nil {
			return nil, w.spec.bad(tracefs.ErrGlob.Error())
		}
		all, err := kernel.RawTracepoints(kernel.BTFDir)
		if err != nil {
			return nil, err
		}
		names = slices.DeleteFunc(all, func(name string) bool { ok, _ := path.Match(l[1], name); return !ok })
	}
	found, err := kernel.FindRaw(names...)
	if err != nil {
		return nil, err
	}
	var events []Event
	for _, raw := range found {
		if raw, err = w.withValues(raw); err != nil {
			return nil, err
		}
		events = append(events, Event{Name: kernel.RawPrefix + raw.Name, Type: format.TypeTracepoint, Raw: raw})
	}
	if len(events) == 0 {
		return nil, w.spec.noRaw(l[1])
	}
	return events, nil
}

// withValues adds the arguments of a tracepoint.
func (w *words) withValues(raw *kernel.Raw) (*kernel.Raw, error) {
	if w.args == "" {
		return raw, nil
	}
	with, err := raw.WithValues(string(w.spec), w.args)
	var bad *probe.SpecError
	if errors.As(err, &bad) {
		return nil, w.spec.bad(bad.Msg)
	}
	return with, err
}

// withArguments makes an event with a tracepoint's fields and arguments, which requires a BPF
// program. raw describes its arguments; nil: the kernel does not.
func (w *words) withArguments(tp *tracefs.Tracepoint, raw *kernel.Raw) (ev Event, err error) {
	ev = tracepointEvent(tp)
	switch {
	case w.modified:
		return ev, w.spec.bad("a tracepoint with arguments supports no modifiers")
	case raw == nil:
		return ev, w.spec.bad(fmt.Sprintf("%s has no arguments: the kernel's BTF has no prototype of it", ev.Name))
	}
	if raw, err = w.withValues(raw); err != nil {
		return ev, err
	}
	return Event{Name: ev.Name, Type: ev.Type, Raw: raw}, nil
}

// tracepointEvent returns the event of a tracepoint.
func tracepointEvent(tp *tracefs.Tracepoint) Event {
	return Event{Name: tp.System + ":" + tp.Name, Type: format.TypeTracepoint, Config: tp.ID,
		Tracepoint: tp.System + "/" + tp.Name}
}

// findOwn describes the arguments of tracepoints, "system/name", for samples that also have the tracepoints' own
// fields. It returns nil for those that the kernel's BTF does not describe. It reads that once, which takes long.
func findOwn(fs *tracefs.FS, tracepoints []string) ([]*kernel.Raw, error) {
	var names []string
	for _, tp := range tracepoints {
		names = append(names, path.Base(tp))
	}
	slices.Sort(names)
	found, err := kernel.FindRaw(slices.Compact(names)...)
	if err != nil {
		return nil, err
	}
	l := make([]*kernel.Raw, len(tracepoints))
	for i, tp := range tracepoints {
		at := slices.IndexFunc(found, func(r *kernel.Raw) bool { return r.Name == path.Base(tp) })
		if at < 0 {
			continue
		}
		text, err := fs.Read("events/" + tp + "/format")
		if err != nil {
			return nil, err
		}
		raw := *found[at] // systems may have tracepoints of one name
		raw.Own = &kernel.Own{System: path.Dir(tp), Format: text}
		l[i] = &raw
	}
	return l, nil
}

// noRaw returns the error for an unknown raw tracepoint.
func (t eventText) noRaw(name string) error {
	all, _ := kernel.RawTracepoints(kernel.BTFDir)
	e := &UnknownError{Spec: string(t), Near: suggest.Names(name, all)}
	for i := range e.Near {
		e.Near[i] = kernel.RawPrefix + e.Near[i]
	}
	return e
}

func (w *words) tracepoints(at *Resolver) (events []Event, err error) {
	l := w.nameAndMods(2)
	tps, err := at.Tracefs.Find(l[0], l[1])
	if errors.Is(err, tracefs.ErrGlob) {
		return nil, w.spec.bad(err.Error())
	}
	if err != nil {
		return nil, err
	}
	if len(tps) == 0 {
		e := &UnknownError{Spec: string(w.spec), Near: at.Tracefs.Near(l[0], l[1])}
		if meant := probe.Suggest(string(w.spec)); len(e.Near) == 0 && meant != "" {
			e.Near = []string{meant}
		}
		return nil, e
	}
	for i := range tps {
		events = append(events, tracepointEvent(&tps[i]))
	}
	if w.args == "" {
		return events, nil
	}
	raws, err := findOwn(at.Tracefs, tracepointsOf(events))
	if err != nil {
		return nil, err
	}
	for i := range tps {
		if events[i], err = w.withArguments(&tps[i], raws[i]); err != nil {
			return nil, err
		}
	}
	return events, nil
}

func tracepointsOf(events []Event) (l []string) {
	for i := range events {
		l = append(l, events[i].Tracepoint)
	}
	return l
}
