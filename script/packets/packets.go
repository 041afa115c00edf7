// Package packets decodes the packets of samples, joins the samples of each packet to a block of text with a line per
// hop, and writes the packets' bytes as pcapng.
//
// A sample has a packet if its tracepoint has the text field flow. All other fields are optional.
package packets

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"gperf/format"
	"gperf/format/tracepoint"
	"gperf/internal/session"
)

// errNone: no event of the recording has packets.
var errNone = errors.New("the recording has no events with packets: gperf records them for skb:*, " +
	"net:* and packet:drops")

// Packet is the packet of a sample. Numbers and texts that the sample does not have are 0 and "". Texts
// are valid UTF-8 without control characters.
type Packet struct {
	Number uint64 // of the followed packet, 0 if it is not followed
	SKB    uint64 // address of its sk_buff
	Len    uint32 // of the sk_buff, in bytes: of its headers, those count that the kernel has not read yet
	// WireLen is the length in bytes from the first header on.
	WireLen  uint32
	Mark     uint32
	NetNS    uint32 // inode number of the network namespace
	VLAN     uint16
	Dev      string
	Flow     string // as "tcp 10.0.0.7:443 > 10.0.0.9:51044"
	TCPFlags uint8
	Sock     string // process of the socket, as "nginx/812"
	Reader   string // process that reads a Delivered packet, as "nginx/812"

	// Hop is the function that the packet passed, or else the event. The next fields contain the event's report.
	Hop      string
	Kind     Kind
	Location string // code that freed the packet, as "nft_do_chain+0x3e8"
	Reason   string // of a drop
	Verdict  string

	// Bytes are the packet's first bytes, which belong to the sample. They begin with the network header
	// if Network is set, otherwise with the Ethernet header.
	Bytes   []byte
	Network bool
}

// Kind is the step of a packet that an event reports.
type Kind uint8

const (
	Passed    Kind = iota // the packet passed a function
	Received              // from a device
	Queued                // for a device
	Sent                  // the driver took the packet
	Delivered             // a process reads it from its socket
	Consumed              // the kernel freed the packet after use
	Dropped
)

// Ends reports whether the kernel freed the packet.
func (k Kind) Ends() bool { return k >= Consumed }

// kinds are the tracepoints that report more than that the packet passed.
var kinds = map[string]Kind{
	"kfree_skb": Dropped, "consume_skb": Consumed, "net_dev_xmit": Sent,
	"net_dev_queue": Queued, "net_dev_start_xmit": Queued, "qdisc_enqueue": Queued, "qdisc_dequeue": Queued,
	"netif_receive_skb": Received, "netif_receive_skb_entry": Received, "netif_receive_skb_list_entry": Received,
	"netif_rx": Received, "netif_rx_entry": Received, "napi_gro_receive_entry": Received,
	"skb_copy_datagram_iovec": Delivered,
}

// decoder reads the packets of samples.
type decoder struct {
	events    []*event // by event of the recording, nil for those without packets
	env       tracepoint.Env
	functions map[uint64]symbol
	texts     map[string]string // equal texts share memory
}

type symbol struct{ name, withOffset string }

// event has the fields of a tracepoint; those that it lacks are nil.
type event struct {
	name      string
	kind      Kind
	reasons   map[int64]string
	number    *tracepoint.Field
	skb       *tracepoint.Field
	len, mark *tracepoint.Field
	netns     *tracepoint.Field
	vlan      *tracepoint.Field
	dev, flow *tracepoint.Field
	sock      *tracepoint.Field
	fn        *tracepoint.Field
	location  *tracepoint.Field
	reason    *tracepoint.Field
	returned  *tracepoint.Field // result of sending
	verdict   *tracepoint.Field
	bytes, at *tracepoint.Field
	wireLen   *tracepoint.Field
	tcpFlags  *tracepoint.Field
}

// newDecoder returns the decoder of a recording's packets. The error is errNone.
func newDecoder(s *session.Session) (*decoder, error) {
	d := &decoder{env: session.TracepointEnv(s.File, s.Symbols), functions: map[uint64]symbol{},
		texts: map[string]string{}, events: make([]*event, len(s.File.Attrs))}
	if d.count(s.File) == 0 {
		return nil, errNone
	}
	return d, nil
}

// count prepares the events with packets, and returns their number.
func (d *decoder) count(f *format.File) (n int) {
	for i := range d.events {
		if t := f.Tracepoint(i); t != nil {
			d.events[i] = newEvent(f.EventName(i), t)
		}
		if d.events[i] != nil {
			n++
		}
	}
	return n
}

// newEvent returns the fields of a tracepoint, or nil if it has no packets.
func newEvent(name string, t *tracepoint.Format) *event {
	e := &event{name: clean([]byte(name)), kind: kinds[t.Name], flow: textField(t, "flow")}
	if e.flow == nil {
		return nil
	}
	e.number, e.skb = t.Field("packet"), firstField(t, "skbaddr", "skb")
	e.len, e.mark, e.netns, e.vlan = t.Field("len"), t.Field("mark"), t.Field("netns"), t.Field("vlan")
	if e.dev = textField(t, "dev"); e.dev == nil {
		e.dev = textField(t, "name") // of the tracepoints net:*
	}
	e.sock, e.verdict = textField(t, "sk"), textField(t, "verdict")
	e.fn, e.location, e.reason = t.Field("func"), t.Field("location"), t.Field("reason")
	e.returned, e.at = t.Field("rc"), t.Field("bytes_at")
	e.wireLen, e.tcpFlags = t.Field("wire_len"), t.Field("tcpflags")
	if b := t.Field("bytes"); b != nil && b.Array {
		e.bytes = b
	}
	if e.reason != nil {
		e.reasons = map[int64]string{}
		for _, s := range t.Symbols(e.reason) {
			e.reasons[s.Value] = clean([]byte(s.Name))
		}
	}
	return e
}

func firstField(t *tracepoint.Format, names ...string) *tracepoint.Field {
	for _, name := range names {
		if f := t.Field(name); f != nil {
			return f
		}
	}
	return nil
}

// textField returns a field if it is a text.
func textField(t *tracepoint.Format, name string) *tracepoint.Field {
	if f := t.Field(name); f != nil && f.String {
		return f
	}
	return nil
}

// decode returns the packet of a sample, and whether it has one.
func (d *decoder) decode(s *session.Sample) (p Packet, ok bool) {
	e := d.events[s.Event]
	if e == nil {
		return p, false
	}
	d.read(&p, e, s.Raw)
	if p.Kind == Delivered {
		p.Reader = clean([]byte(s.Comm)) + "/" + strconv.Itoa(int(s.PID))
	}
	return p, true
}

// read decodes the raw data of a sample.
func (d *decoder) read(p *Packet, e *event, raw []byte) {
	p.Number, p.SKB = d.number(e.number, raw), d.number(e.skb, raw)
	p.Len, p.Mark = uint32(d.number(e.len, raw)), uint32(d.number(e.mark, raw))
	p.NetNS, p.VLAN = uint32(d.number(e.netns, raw)), uint16(d.number(e.vlan, raw))
	p.WireLen, p.TCPFlags = uint32(d.number(e.wireLen, raw)), uint8(d.number(e.tcpFlags, raw))
	p.Dev, p.Flow = d.text(e.dev, raw), d.text(e.flow, raw)
	p.Sock, p.Verdict = d.text(e.sock, raw), d.text(e.verdict, raw)
	p.Hop, p.Kind = e.name, e.kind
	if ip := d.number(e.fn, raw); ip != 0 {
		p.Hop = d.function(ip).name
		if p.Kind == Passed {
			p.Kind = kindOf(p.Hop)
		}
	}
	if p.Kind == Sent && d.number(e.returned, raw) != 0 {
		p.Kind = Queued // the driver was busy
	}
	if ip := d.number(e.location, raw); ip != 0 {
		p.Location = d.function(ip).withOffset
	}
	if p.Kind == Dropped && e.reason != nil {
		p.Reason = e.reasonText(int64(d.number(e.reason, raw)))
	}
	if e.bytes != nil {
		p.Bytes, p.Network = e.bytes.Bytes(raw, d.env.Order), d.number(e.at, raw) == 1
	}
}

func (e *event) reasonText(reason int64) string {
	if name, ok := e.reasons[reason]; ok {
		return name
	}
	return "reason " + strconv.FormatInt(reason, 10) // of a module, such as mac80211
}

// kindOf returns the meaning of a function that a packet passes, by the function's name.
func kindOf(function string) Kind {
	switch {
	case function == "skb_copy_datagram_iter" || function == "skb_consume_udp":
		return Delivered
	case receives(function):
		return Received
	}
	return Passed
}

// receives reports whether a function is on the way from a device to a socket, by its name.
func receives(function string) bool {
	for _, part := range []string{"rcv", "recv", "receive", "skb_consume_udp", "skb_free_datagram"} {
		if strings.Contains(function, part) {
			return true
		}
	}
	return false
}

func (d *decoder) number(f *tracepoint.Field, raw []byte) uint64 {
	if f == nil {
		return 0
	}
	v, _ := f.Uint(raw, d.env.Order)
	return v
}

// maxShared limits the memory of texts and functions: the number of each that is remembered.
const maxShared = 1 << 14

func (d *decoder) text(f *tracepoint.Field, raw []byte) string {
	if f == nil {
		return ""
	}
	b, _, _ := bytes.Cut(f.Bytes(raw, d.env.Order), []byte{0})
	b = b[:min(len(b), maxText)]
	if s, ok := d.texts[string(b)]; ok {
		return s
	}
	if len(d.texts) == maxShared {
		clear(d.texts)
	}
	s := clean(b)
	d.texts[string(b)] = s
	return s
}

// maxText limits texts, in bytes. A flow of IPv6 in a tunnel has less than half of them.
const maxText = 512

// clean replaces invalid UTF-8, and characters that are not printable on one line.
func clean(b []byte) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(string(b), "?"))
}

// function returns the kernel function at an address.
func (d *decoder) function(ip uint64) symbol {
	if f, ok := d.functions[ip]; ok {
		return f
	}
	if len(d.functions) == maxShared {
		clear(d.functions)
	}
	hex := "0x" + strconv.FormatUint(ip, 16)
	f := symbol{hex, hex}
	if d.env.Symbol != nil {
		if name, off, _, ok := d.env.Symbol(ip); ok {
			name = clean([]byte(name))
			f = symbol{name, name + "+0x" + strconv.FormatUint(off, 16)}
		}
	}
	d.functions[ip] = f
	return f
}
