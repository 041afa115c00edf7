package main

import (
	bin "encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gperf/format"
)

// craftedField is a field of a tracepoint; size 0 means that a __data_loc refers to the bytes.
type craftedField struct {
	name, typ string
	size      int
}

// packetFields are the fields that gperf record adds to events with packets.
var packetFields = []craftedField{
	{"packet", "u64", 8}, {"cgroup", "u64", 8}, {"len", "u32", 4}, {"mark", "u32", 4}, {"netns", "u32", 4},
	{"ifindex", "s32", 4}, {"dev", "char", 16}, {"sport", "u16", 2}, {"dport", "u16", 2}, {"proto", "u8", 1},
	{"tcpflags", "u8", 1}, {"seq", "u32", 4}, {"ack", "u32", 4}, {"vlan", "u16", 2}, {"flow", "char", 0},
	{"saddr", "char", 0}, {"daddr", "char", 0}, {"sk", "char", 0}, {"bytes", "u8", 0}, {"bytes_at", "u8", 1}, {"wire_len", "u32", 4},
}

// packetEvents are events with packets, and the fields of the events themselves.
var packetEvents = map[string][]craftedField{
	"skb:kfree_skb": {{"skbaddr", "void *", 8}, {"location", "void *", 8}, {"protocol", "unsigned short", 2},
		{"reason", "enum skb_drop_reason", 4}},
	"skb:consume_skb":       {{"skbaddr", "void *", 8}, {"location", "void *", 8}},
	"net:netif_receive_skb": {{"skbaddr", "void *", 8}, {"len", "unsigned int", 4}, {"name", "char", 0}},
	"net:net_dev_queue":     {{"skbaddr", "void *", 8}, {"len", "unsigned int", 4}, {"name", "char", 0}},
	"net:net_dev_xmit": {{"skbaddr", "void *", 8}, {"len", "unsigned int", 4}, {"rc", "int", 4},
		{"name", "char", 0}},
	"packet:hop":     {{"func", "u64", 8}, {"skbaddr", "u64", 8}},
	"packet:verdict": {{"skbaddr", "u64", 8}, {"verdict", "char", 0}},
	"other:event":    {{"skbaddr", "u64", 8}}, // without a packet
}

// fields are a packet's values by name: numbers, texts or bytes.
type fields map[string]any

// packetSample is a sample of an event with a packet.
type packetSample struct {
	event  string
	time   uint64 // ns
	values fields
}

// packetRecording is a recording to craft.
type packetRecording struct {
	events  []string
	samples []packetSample
	without []string // fields of packets that the events lack
	clock   bool     // the recording contains the time of day
}

// The recorded process, the stack, and the functions of the kernel.
const (
	craftedPID          = 812
	craftedComm         = "nginx"
	ipRcv        uint64 = 0xffffffff81000100
	nftDoChain   uint64 = 0xffffffff81000200
	skbConsume   uint64 = 0xffffffff81000300
	devXmit      uint64 = 0xffffffff81000400
	craftedWall         = 1700000000_000000000 // when the recording's clock shows 0
	craftedNames        = "ffffffff81000000 T _text\nffffffff81000000 T _stext\nffffffff81000100 T ip_rcv\n" +
		"ffffffff81000200 t nft_do_chain\nffffffff81000300 T skb_consume_udp\n" +
		"ffffffff81000400 T dev_hard_start_xmit\nffffffff81000500 T _etext\n"
)

// layoutOf returns all fields of an event.
func (r *packetRecording) layoutOf(event string) []craftedField {
	list := slices.Clone(packetEvents[event])
	if event == "other:event" {
		return list
	}
	for _, f := range packetFields {
		own := slices.ContainsFunc(list, func(o craftedField) bool { return o.name == f.name })
		if !own && !slices.Contains(r.without, f.name) {
			list = append(list, f)
		}
	}
	return list
}

// text returns the format file of an event.
func (r *packetRecording) text(event string, id int) format.TracepointText {
	system, name, _ := strings.Cut(event, ":")
	var b strings.Builder
	fmt.Fprintf(&b, "name: %s\nID: %d\nformat:\n", name, id)
	line := func(decl string, at, size int) {
		fmt.Fprintf(&b, "\tfield:%s;\toffset:%d;\tsize:%d;\tsigned:0;\n", decl, at, size)
	}
	line("unsigned short common_type", 0, 2)
	line("unsigned char common_flags", 2, 1)
	line("unsigned char common_preempt_count", 3, 1)
	line("int common_pid", 4, 4)
	at := 8
	for _, f := range r.layoutOf(event) {
		switch {
		case f.size == 0:
			line("__data_loc "+f.typ+"[] "+f.name, at, 4)
		case f.size == 16:
			line(fmt.Sprintf("%s %s[%d]", f.typ, f.name, f.size), at, f.size)
		default:
			line(f.typ+" "+f.name, at, f.size)
		}
		at += max(f.size, 4)
	}
	args := `"skb=%lx", REC->skbaddr`
	if name == "kfree_skb" {
		args = `"reason: %s", __print_symbolic(REC->reason, { 3, "NO_SOCKET" }, { 12, "NETFILTER_DROP" })`
	}
	fmt.Fprintf(&b, "\nprint fmt: %s\n", args)
	return format.TracepointText{System: system, Text: []byte(b.String())}
}

// raw returns the raw data of a sample.
func (r *packetRecording) raw(s *packetSample, id int) []byte {
	le := bin.LittleEndian
	b := le.AppendUint32(le.AppendUint16(nil, uint16(id)), 0)
	b = append(b, 0, 0)
	layout := r.layoutOf(s.event)
	size := len(b)
	for _, f := range layout {
		size += max(f.size, 4)
	}
	var end []byte
	for _, f := range layout {
		field := make([]byte, max(f.size, 4))
		switch v := s.values[f.name].(type) {
		case nil:
		case int:
			copy(field, le.AppendUint64(nil, uint64(v)))
		case uint64:
			copy(field, le.AppendUint64(nil, v))
		case string:
			if f.size > 0 {
				copy(field, v)
				break
			}
			le.PutUint32(field, uint32(len(v)+1)<<16|uint32(size+len(end)))
			end = append(append(end, v...), 0)
		case []byte:
			le.PutUint32(field, uint32(len(v))<<16|uint32(size+len(end)))
			end = append(end, v...)
		}
		b = append(b, field...)
	}
	b = append(b, end...)
	sized := le.AppendUint32(nil, uint32(len(b)))
	sized = append(sized, b...)
	return append(sized, make([]byte, -len(sized)&7)...)
}

// write writes the recording with a writer of a file or of a pipe; between is called after each sample.
func (r *packetRecording) write(t *testing.T, open func([]format.Attr, []format.Section) (*format.Writer, error),
	between func(n int)) {
	t.Helper()
	tracing := &format.TracingData{LongSize: 8, PageSize: 4096}
	var attrs []format.Attr
	for i, e := range r.events {
		tracing.Events = append(tracing.Events, r.text(e, 100+i))
		attrs = append(attrs, format.Attr{Type: format.TypeTracepoint, Config: uint64(100 + i), SamplePeriod: 1,
			SampleType: usual | format.SampleIdentifier | format.SampleCallchain | format.SampleRaw,
			Flags:      format.FlagSampleIDAll, IDs: []uint64{uint64(1 + i)}})
	}
	early := []format.Section{format.StringSection(format.FeatureArch, "x86_64"), tracing.Section()}
	if r.clock {
		early = append(early, format.ClockDataSection(1, craftedWall, 0))
	}
	w, err := open(attrs, early)
	if err != nil {
		t.Fatal(err)
	}
	put := func(b []byte) {
		if err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	id := attrs[0].SampleIDSize()
	kernel := format.Mmap{Misc: format.MiscKernel, PID: -1, Start: ipRcv &^ 0xfff, Len: 1 << 28, Pgoff: ipRcv &^ 0xfff,
		Filename: "[kernel.kallsyms]_text"}
	comm := format.Comm{PID: craftedPID, TID: craftedPID, Comm: craftedComm}
	put(comm.Append(kernel.Append(nil, id), id))
	for n := range r.samples {
		s := &r.samples[n]
		event := slices.Index(r.events, s.event)
		chain := u64s(4, format.ContextKernel, nftDoChain+0x20, ipRcv+0x30, format.ContextUser)
		put(sample(format.MiscKernel, u64s(uint64(1+event), nftDoChain+0x20), pidTID(craftedPID, craftedPID),
			u64s(s.time), chain, r.raw(s, 100+event)))
		if between != nil {
			put(format.AppendMark(nil, format.TypeFinishedRound))
			between(n)
		}
	}
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
}

// save writes the recording to a file, and returns the path.
func (r *packetRecording) save(t *testing.T) (path string) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "perf.data"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r.write(t, func(attrs []format.Attr, early []format.Section) (*format.Writer, error) {
		return format.NewWriter(f, attrs, early)
	}, nil)
	return f.Name()
}

// stream writes the recording to a pipe, a round per sample.
func (r *packetRecording) stream(t *testing.T, to io.Writer, between func(n int)) {
	t.Helper()
	r.write(t, func(attrs []format.Attr, early []format.Section) (*format.Writer, error) {
		return format.NewPipeWriter(to, attrs, early)
	}, between)
}

// craftedKallsyms returns the path of the recorded kernel's symbols.
func craftedKallsyms(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kallsyms")
	if err := os.WriteFile(path, []byte(craftedNames), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
