package event

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"gperf/format"
	"gperf/format/tracepoint"
	"gperf/internal/suggest"
	"gperf/record/probe"
	"gperf/record/probe/args"
	"gperf/record/tracefs"
)

// Span is a pair of events: a BPF program makes one sample at the end of each pair.
type Span struct {
	Min time.Duration // shorter spans are not sampled
	// Begin and End are the tracepoints or functions of a pair, nil for other spans.
	Begin, End *SpanEnd
	// Key and EndKey are the fields of Begin and End whose values make a pair; none: the thread.
	Key, EndKey []string
	// Call is a function, nil for other spans.
	Call *probe.Call
	// Hist counts histograms of the durations in the kernel, in place of samples: one for each
	// thread and system call, or for the values of HistKey, fields of Key.
	Hist    bool
	HistKey []string
}

// SpanEnd is one of the tracepoints of a span, or a function of a program.
type SpanEnd struct {
	System, Name string
	ID           uint64
	Format       *tracepoint.Format // of a function: its arguments
	Call         *probe.Call        // the function; nil for a tracepoint
}

// IsSyscalls reports whether the spans are system calls.
func (s *Span) IsSyscalls() bool { return s.Begin == nil && s.Call == nil }

// SpanPrefix is the prefix of spans in the words of -e, and in event names of files.
const SpanPrefix = "span:"

// spanSyscalls names the spans of system calls.
const spanSyscalls = "syscalls"

// spanTermKeys are the terms of spans.
var spanTermKeys = []string{"min", "name", "key", "hist"}

// spanTerms matches the terms of a span, up to the text that follows them: paths have slashes too.
var spanTerms = regexp.MustCompile(`^/((?:(?:` + strings.Join(spanTermKeys, "|") +
	`)=[^/]*|hist(?:,[^/]*)?))/(?:$|[\s,}])`)

// parseSpan parses span:WHAT[/TERMS/].
func parseSpan(spec string, at *Resolver) ([]Event, error) {
	w := &words{spec: eventText(spec), name: strings.TrimPrefix(spec, SpanPrefix)}
	for i := range w.name {
		m := spanTerms.FindStringSubmatch(w.name[i:])
		if m == nil {
			continue
		}
		var err error
		if w.terms, err = parseTerms(spec, m[1]); err != nil {
			return nil, err
		}
		w.terms = joinKeys(w.terms)
		w.name = w.name[:i]
		break
	}
	events, err := w.spans(at)
	if err != nil {
		return nil, err
	}
	for i := range events {
		for _, t := range w.terms {
			if err := events[i].setSpan(w, t); err != nil {
				return nil, err
			}
		}
		for _, name := range events[i].Span.HistKey {
			if !slices.Contains(events[i].Span.Key, name) {
				return nil, w.spec.bad("term hist: " + name + " is not a field of the key: " +
					"span:block:block_rq_issue..block:block_rq_complete/key=dev,sector,hist=dev/")
			}
		}
	}
	return events, nil
}

// spans returns the events of the words without terms.
func (w *words) spans(at *Resolver) ([]Event, error) {
	begin, end, isPair := cutPair(w.name)
	ev := Event{Name: SpanPrefix + w.name, Type: format.TypeTracepoint, Span: &Span{}}
	switch {
	case w.name == spanSyscalls:
		return []Event{ev}, nil
	case !isPair:
		return w.calls(at)
	}
	find, err := w.spanEnd, error(nil)
	if ofFunctions(begin, at) {
		find = w.functionEnd
	}
	if ev.Span.Begin, err = find(begin, at); err != nil {
		return nil, err
	}
	if end == "" {
		return nil, w.spec.badPair()
	}
	if at := strings.IndexByte(end, ':'); at < 0 || strings.HasPrefix(end[at:], "::") { // of C++
		of, _, _ := strings.Cut(begin, ":")
		end = of + ":" + end
	}
	if ev.Span.End, err = find(end, at); err != nil {
		return nil, err
	}
	if a, b := ev.Span.Begin.Call, ev.Span.End.Call; a != nil && a.Path != b.Path {
		return nil, w.spec.bad("both functions of a span are in one file, such as span:./server:begin..end/key=arg1/")
	}
	if c := ev.Span.Begin.Call; c != nil && c.GoID != 0 { // unless there is a key
		ev.Span.Key, ev.Span.EndKey = []string{goroutineField}, []string{goroutineField}
	}
	ev.Name = SpanPrefix + ev.Span.Begin.Name + "_to_" + ev.Span.End.Name
	return []Event{ev}, nil
}

// cutPair returns the ends of a pair, BEGIN..END. Paths have two dots, too, and names of Go's functions three.
func cutPair(name string) (begin, end string, ok bool) {
	for i := 1; i+2 <= len(name); i++ {
		before, after := name[i-1], byte(0)
		if i+2 < len(name) {
			after = name[i+2]
		}
		if name[i:i+2] == ".." && before != '.' && before != '/' && after != '.' && after != '/' {
			return name[:i], name[i+2:], true
		}
	}
	return name, "", false
}

// ofFunctions reports whether an end of a pair is a function of a file, and no tracepoint.
func ofFunctions(end string, at *Resolver) bool {
	system, name, ok := strings.Cut(end, ":")
	if !ok || strings.Contains(system, "/") {
		return ok
	}
	tps, err := at.Tracefs.Find(system, "*")
	return err == nil && len(tps) == 0 && name != ""
}

// goroutineField is the field with the goroutine that calls a function.
const goroutineField = "goroutine"

// functionEnd returns the function of this name, FILE:FUNC, with its arguments as fields.
func (w *words) functionEnd(name string, at *Resolver) (*SpanEnd, error) {
	c, err := probe.FindEntry(at.Resolver, string(w.spec), name)
	if err != nil {
		return nil, err
	}
	e := &SpanEnd{System: c.Path, Name: c.Event, Call: c, Format: &tracepoint.Format{Name: c.Event}}
	add := func(name, typ string, register, size int, signed bool) {
		e.Format.Fields = append(e.Format.Fields, tracepoint.Field{Name: name, Type: typ,
			Offset: tracefs.CommonSize + 8*register, Size: size, Signed: signed})
	}
	for i := range c.Params {
		p := &c.Params[i]
		add(p.Name, p.Type, p.Register, p.Size, p.Signed)
	}
	if c.GoID != 0 {
		add(goroutineField, "u64", args.NumInRegisters, 8, false)
	}
	return e, nil
}

// calls returns the events of functions.
func (w *words) calls(at *Resolver) (events []Event, err error) {
	if err := w.badSpan(); err != nil {
		return nil, err
	}
	l, err := at.FindCalls(string(w.spec), w.name)
	if err != nil {
		if system, name, ok := strings.Cut(w.name, ":"); ok {
			if tps, _ := at.Tracefs.Find(system, name); len(tps) > 0 {
				return nil, w.spec.badPair()
			}
		}
		return nil, err
	}
	for _, c := range l {
		events = append(events, Event{Name: SpanPrefix + c.Event, Type: format.TypeTracepoint, Span: &Span{Call: c}})
	}
	return events, nil
}

// badSpan returns the error for words that are not a span, nil if they may be a function.
func (w *words) badSpan() error {
	what, rest, _ := strings.Cut(w.name, "/")
	var near []string
	if strings.HasPrefix(w.name, "sys") {
		near = suggest.Names(w.name, []string{spanSyscalls})
	}
	switch {
	case what == spanSyscalls && strings.HasSuffix(rest, "/"):
		return w.spec.bad("the terms of system calls are min, hist and name: span:syscalls/min=1ms/")
	case what == spanSyscalls && rest != "":
		return w.spec.bad("the terms of a span are between slashes: span:syscalls/min=1ms/")
	case strings.HasPrefix(what, spanSyscalls+":"):
		return w.spec.bad("a span has no modifiers; --filter selects by its fields: --filter 'duration > 1000000'")
	case w.name != "" && len(near) == 0:
		return nil
	}
	e := &UnknownError{Spec: string(w.spec), All: []string{SpanPrefix + spanSyscalls,
		SpanPrefix + "SYSTEM:NAME..SYSTEM:NAME", SpanPrefix + "FUNCTION", SpanPrefix + "FILE:FUNCTION"}}
	if len(near) > 0 {
		e.Near = []string{SpanPrefix + spanSyscalls}
	}
	return e
}

// setSpan applies a term to a span.
func (ev *Event) setSpan(w *words, t term) error {
	switch {
	case t.key == "min":
		d, err := time.ParseDuration(t.value)
		if err != nil || d < 0 {
			return w.spec.bad("term min: " + t.value + " is not a duration such as 100us, 1ms or 2s")
		}
		ev.Span.Min = d
		return nil
	case t.key == "key":
		ev.Span.Key, ev.Span.EndKey = keyFields(t.value)
		return ev.Span.checkKey(w)
	case t.key == "hist":
		ev.Span.Hist = true
		if t.value != "" {
			ev.Span.HistKey = strings.Split(t.value, ",")
		}
		return nil
	case slices.Contains(spanTermKeys, t.key):
		return ev.set(w, t)
	}
	return w.spec.unknownTerm(t, "", spanTermKeys)
}

// keyFields returns the fields of a key at the begin and at the end: NAME is the same at both, NAME:NAME are two.
func keyFields(list string) (begin, end []string) {
	for word := range strings.SplitSeq(list, ",") {
		first, last, both := strings.Cut(word, ":")
		if !both {
			last = first
		}
		begin, end = append(begin, first), append(end, last)
	}
	return begin, end
}

// joinKeys appends words without a value to the preceding term key or hist: key=dev,sector.
func joinKeys(l []term) (joined []term) {
	for _, t := range l {
		last := len(joined) - 1
		if last >= 0 && (joined[last].key == "key" || joined[last].key == "hist" && joined[last].value != "") &&
			t.value == "" && !slices.Contains(spanTermKeys, t.key) {
			joined[last].value += "," + t.key
			continue
		}
		joined = append(joined, t)
	}
	return joined
}

// badPair returns the error for words that are not two tracepoints.
func (t eventText) badPair() error {
	return t.bad("a span has two tracepoints: span:block:block_rq_issue..block:block_rq_complete/key=dev,sector/, or " +
		"two functions of a file: span:./server:begin..end/key=arg1/")
}

// spanEnd returns the tracepoint of this name.
func (w *words) spanEnd(name string, at *Resolver) (*SpanEnd, error) {
	system, name, ok := strings.Cut(name, ":")
	if !ok || strings.ContainsAny(name, "*?[") {
		return nil, w.spec.badPair()
	}
	tps, err := at.Tracefs.Find(system, name)
	if err != nil {
		return nil, err
	}
	if len(tps) == 0 {
		return nil, &UnknownError{Spec: system + ":" + name, Near: at.Tracefs.Near(system, name)}
	}
	e := &SpanEnd{System: system, Name: name, ID: tps[0].ID}
	text, err := at.Tracefs.Read("events/" + system + "/" + name + "/format")
	if err == nil {
		e.Format, err = tracepoint.Parse(text, system)
	}
	return e, err
}

// maxKeys limits the fields of a key.
const maxKeys = 4

// checkKey returns an error unless the tracepoints have the fields of the key, as numbers.
func (s *Span) checkKey(w *words) error {
	switch {
	case s.Begin == nil:
		return w.spec.bad("term key: the key of calls is the thread")
	case len(s.Key) > maxKeys:
		return w.spec.bad(fmt.Sprintf("term key: a key has up to %d fields", maxKeys))
	}
	for i, end := range []*SpanEnd{s.Begin, s.End} {
		var names []string
		for _, f := range end.Format.Fields {
			if !f.Array && !f.Dynamic && !f.String {
				names = append(names, f.Name)
			}
		}
		own := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			return strings.HasPrefix(name, "common_")
		})
		for _, name := range [...][]string{s.Key, s.EndKey}[i] {
			if !slices.Contains(names, name) {
				return w.spec.bad(fmt.Sprintf("term key: %s:%s has no number %q; it has %s; without key, spans are of "+
					"one thread", end.System, end.Name, name, strings.Join(own, ", ")))
			}
		}
	}
	return nil
}
