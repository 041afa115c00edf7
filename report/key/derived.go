package key

import (
	"strings"

	"gperf/format"
	"gperf/format/fields"
	"gperf/format/tracepoint"
	"gperf/internal/packet"
	"gperf/internal/session"
	"gperf/symbolize"
)

// derivedKeys are the keys that gperf makes of others, for events without a field of the same name.
var derivedKeys = []string{"event", "period", "duration", "errno", "src", "dst", "saddr", "daddr"}

// Derived returns the derived keys that events of a recording have.
func Derived(f *format.File) []string { return (&parser{file: f}).derivedKeys() }

func (p *parser) derivedKeys() (names []string) {
	for _, name := range derivedKeys {
		for i := range p.file.Attrs {
			if p.derived(name, i) != nil {
				names = append(names, name)
				break
			}
		}
	}
	return names
}

// NewDerived returns the values of derived keys, which events of the recording may lack.
func NewDerived(f *format.File, sym *symbolize.Symbolizer, names []string) *Keys {
	k := &Keys{byEvent: make([][]reader, len(f.Attrs)), groups: map[string]*Group{}}
	p := newParser(f, sym, UsualQuantum)
	for i := range f.Attrs {
		for _, name := range names {
			r := p.derived(name, i)
			if r == nil {
				r = new(missing(name))
			}
			k.byEvent[i] = append(k.byEvent[i], *r)
		}
	}
	return k
}

// derived returns the reader of a derived key, nil for events that lack it.
func (p *parser) derived(word string, event int) *reader {
	a, t := &p.file.Attrs[event], p.file.Tracepoint(event)
	switch word {
	case "event":
		r := constant(word, p.file.EventName(event))
		return &r
	case "period":
		return periodReader(word)
	case "duration":
		if session.IsWait(a) {
			return periodReader(word)
		}
	case "errno":
		if t != nil && HasSyscalls(t) && t.Field("ret") != nil {
			return p.errno(t.Field("ret"))
		}
	case "src", "dst", "saddr", "daddr":
		if t != nil && t.Field("flow") != nil {
			return p.end(word, t.Field("flow"))
		}
	}
	return nil
}

func periodReader(word string) *reader {
	r := countReader(word, func(s *session.Sample) int64 { return int64(s.Period) })
	return &r
}

// errno returns the reader of the error that a system call returned.
func (p *parser) errno(ret *tracepoint.Field) *reader {
	r := textReader("errno", func(s *session.Sample) string {
		if name := fields.ErrorName(p.int(ret, s)); name != "" {
			return name
		}
		return Missing
	})
	r.texts = fields.ErrorNames
	return &r
}

// end returns the reader of an end of a packet's flow: of its address, or of its protocol, address and port.
func (p *parser) end(word string, flow *tracepoint.Field) *reader {
	r := textReader(word, func(s *session.Sample) string {
		proto, source, end := packet.Ends(string(p.bytes(flow, s)))
		if strings.HasPrefix(word, "s") {
			end = source
		}
		switch {
		case end == "":
			return Missing
		case strings.HasSuffix(word, "addr"):
			return packet.Addr(end)
		}
		return proto + " " + end
	})
	return &r
}
