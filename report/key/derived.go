package key

import (
	"cmp"
	"net"
	"strings"

	"gperf/format"
	"gperf/format/fields"
	"gperf/format/tracepoint"
	"gperf/internal/packet"
	"gperf/internal/session"
	"gperf/symbolize"
)

// derivedKeys are the keys that gperf makes of others, for events without a field of the same name.
var derivedKeys = []string{"event", "period", "duration", "kind", "goroutine", "waker_comm", "waker_pid",
	"waker_tid", "errno", "src", "dst", "peer", "saddr", "daddr"}

// ReadsChain reports whether the value of a key depends on the callchain.
func ReadsChain(name string) bool { return name == "kind" }

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
	case "kind":
		if session.IsWait(a) {
			return kindReader(word)
		}
	case "goroutine":
		if session.IsGoroutineWait(a) {
			r := countReader(word, func(s *session.Sample) int64 { return int64(s.Addr) })
			return &r
		}
	case "waker_comm", "waker_pid", "waker_tid":
		if session.IsWait(a) && session.HasWakers(p.file) {
			r := waker(word)
			return &r
		}
	case "errno":
		if t != nil && HasSyscalls(t) && t.Field("ret") != nil {
			return p.errno(t.Field("ret"))
		}
	case "src", "dst", "saddr", "daddr", "peer":
		if t != nil {
			return p.end(word, t)
		}
	}
	return nil
}

// hasEnds reports whether a tracepoint has the addresses and ports of a socket or segment, as those of tcp and sock.
func hasEnds(t *tracepoint.Format) bool {
	const sockaddr = 28 // sizeof(struct sockaddr_in6), with the port
	has := func(addr, port string) bool {
		f := t.Field(addr)
		return f != nil && (f.Size == sockaddr || t.Field(port) != nil)
	}
	return has("saddr", "sport") && has("daddr", "dport")
}

// ofSocket reports whether the source of a tracepoint's addresses is its socket, not the sender of a segment.
func ofSocket(t *tracepoint.Format) bool {
	return t.Field("skaddr") != nil || t.Field("skbaddr") == nil
}

// kindReader returns the reader of the kind of a wait.
func kindReader(word string) *reader {
	r := ofLeaf(textReader(word, func(s *session.Sample) string { return cmp.Or(s.WaitKind(), Missing) }))
	r.texts = session.WaitKinds
	return &r
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

// end returns the reader of an end of a packet or socket.
func (p *rawData) end(word string, t *tracepoint.Format) *reader {
	switch flow := t.Field("flow"); {
	case flow != nil && word != "peer":
		return p.flowEnd(word, flow)
	case flow != nil || !hasEnds(t):
	case word == "src", word == "dst", word == "peer" && ofSocket(t):
		return p.socketEnd(word, t)
	}
	return nil
}

// flowEnd returns the reader of an end of a packet's flow: of its address, or of its protocol, address and port.
func (p *rawData) flowEnd(word string, flow *tracepoint.Field) *reader {
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

// socketEnd returns the reader of an end of a socket, from the text of its tracepoint (TP_printk in
// include/trace/events/tcp.h and sock.h).
func (p *rawData) socketEnd(word string, t *tracepoint.Format) *reader {
	from, whole := "d", "dest" // whole: of tcp:tcp_probe
	if word == "src" {
		from, whole = "s", "src"
	}
	r := textReader(word, func(s *session.Sample) string {
		text := string(t.AppendPrint(nil, s.Raw, &p.env))
		end := tracepoint.Printed(text, whole)
		if end == "" {
			addr := tracepoint.Printed(text, from+"addr")
			if tracepoint.Printed(text, "family") == "AF_INET6" {
				addr = tracepoint.Printed(text, from+"addrv6")
			}
			end = net.JoinHostPort(addr, tracepoint.Printed(text, from+"port"))
		}
		if proto := protocolOf(t, text); proto != "" {
			return proto + " " + end
		}
		return end
	})
	return &r
}

// protocolOf returns the protocol of a socket's tracepoint, "" if it does not say so.
func protocolOf(t *tracepoint.Format, text string) string {
	if name, ok := strings.CutPrefix(tracepoint.Printed(text, "protocol"), "IPPROTO_"); ok {
		return strings.ToLower(name)
	}
	if t.System == "tcp" {
		return t.System
	}
	return ""
}
