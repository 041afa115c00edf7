package programs

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"gperf/format"
	"gperf/format/tracepoint"
	"gperf/record/event"
	"gperf/record/perfevent"
	"gperf/record/probe"
	"gperf/record/probe/args"
	"gperf/record/probe/kernel"
	"gperf/record/stacks"
)

func rawData(number uint16, words ...uint64) []byte {
	b := binary.LittleEndian.AppendUint16(nil, number)
	b = append(b, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, 42)
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// ownFormat is a format in tracefs.
const ownFormat = "name: kfree_skb\nID: 42\nformat:\n\tfield:unsigned short " +
	"common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n" +
	"\tfield:__data_loc char[] name;\toffset:8;\tsize:4;\tsigned:0;\n\tfield:int n;\toffset:12;\tsize:4;\tsigned:1;\n" +
	"\tfield:int by;\toffset:16;\tsize:4;\tsigned:1;\n\n" +
	`print fmt: "dev \"%s\"" " by %s,", __get_str(name), __print_symbolic(REC->by, { 1, "ONE" }, { 2, "TWO" })` + "\n"

// TestFormats checks that the formats of BPF programs' samples can be parsed like the formats of tracefs, and that
// kprobes are printed like the kernel's own.
func TestFormats(t *testing.T) {
	raw := &kernel.Raw{Name: "sched_switch", Args: []kernel.RawArg{
		{Name: "preempt", Type: "bool", Size: 1},
		{Name: "prev", Type: "struct task_struct *", Size: 8, Shown: kernel.AsAddress},
		{Name: "delta", Type: "int", Size: 4, Signed: true},
		{Name: "vruntime", Type: "u64", Size: 8},
		{Name: "lag", Type: "s64", Size: 8, Signed: true},
	}}
	drop := &kernel.Raw{Name: "kfree_skb", Args: []kernel.RawArg{
		{Name: "location", Type: "void *", Size: 8, Shown: kernel.AsCode},
		{Name: "reason", Type: "enum skb_drop_reason", Size: 4, Signed: true, Shown: kernel.AsEnum, Values: []kernel.EnumValue{{Name: "NO_SOCKET", Number: 3}, {Name: "NEGATIVE", Number: -7}}},
		{Name: "func", Type: "void (*)", Size: 8, Shown: kernel.AsFunction},
	}, Values: []args.Arg{{Name: "len", Fetch: "+112($arg1):u32"}, {Name: "bits", Fetch: "$arg1:b3@5/16"}, {Name: "at",
		Fetch: "$arg1"},
		{Name: "name", Fetch: "+0(+16($arg1)):string"}, {Name: "bytes", Fetch: "+0($arg1):x8[3]"}, {Name: "small", Fetch: "$arg1:s16"}}}
	minus := int64(-7)
	for _, c := range []struct {
		ev   event.Event
		data []byte
		want string
	}{
		{event.Event{Config: 0xffff, Probe: &probe.Probe{Event: "ip_rcv"}}, rawData(0xffff, 0xffffffff81234560), "(ffffffff81234560)"},
		{event.Event{Config: 0xfffe, Probe: &probe.Probe{Kind: probe.Kretprobe, Event: "ip_rcv__return"}},
			rawData(0xfffe, 0xffffffff81234560, 0xffffffff81000001), "(ffffffff81234560 <- ffffffff81000001)"},
		{event.Event{Config: 0xfffd, Raw: raw}, rawData(0xfffd, 1, 0xffff888000000000, uint64(uint32(minus)), 9, uint64(minus)),
			"preempt=1 prev=0xffff888000000000 delta=-7 vruntime=9 lag=-7"},
		{event.Event{Config: 0xfffc, Raw: &kernel.Raw{Name: "nothing"}}, rawData(0xfffc), ""},
		{event.Event{Config: 0xfffb, Raw: drop}, append(rawData(0xfffb, 0x1010, uint64(uint32(minus)), 0x1000, 9, 5, 0xffff888000000000, 4<<16|80, 0x030201, uint64(minus)&0xffff),
			"lo1\x00"...), `location=drop+0x10 reason: NEGATIVE func=drop len=9 bits=5 at=0xffff888000000000 name="lo1" bytes={0x1,0x2,0x3} small=-7`},
		{event.Event{Config: 0xfffa, Raw: &kernel.Raw{Name: "kfree_skb", Own: &kernel.Own{System: "skb", Format: []byte(ownFormat)},
			Values: []args.Arg{{Name: "len", Fetch: "+112($arg1):u32"}, {Name: "dev", Fetch: "+0($arg1):string"}}}},
			append(rawData(0xfffa, 4<<16|40|7<<32, 2, 9, 4<<16|44), "own\x00eth\x00"...),
			`dev "own" by TWO, len=9 dev="eth"`},
	} {
		text, err := SampleFormat(&c.ev)
		if err != nil {
			t.Error(err)
			continue
		}
		f, err := tracepoint.Parse(text, "probe")
		if err != nil || f.PrintErr != nil || f.Refused != "" {
			t.Errorf("%v, %v, refused %q:\n%s", err, f.PrintErr, f.Refused, text)
			continue
		}
		if f.ID != int(c.ev.Config) {
			t.Errorf("ID %d, want %d", f.ID, c.ev.Config)
		}
		symbol := func(ip uint64) (string, uint64, string, bool) { return "drop", ip & 0xff, "", ip>>8 == 0x10 }
		got := string(f.AppendPrint(nil, c.data,
			&tracepoint.Env{Order: binary.LittleEndian, LongSize: 8, Symbol: symbol}))
		if got != c.want {
			t.Errorf("printed %q, want %q\n%s", got, c.want, text)
		}
	}
}

// TestNumber checks that numbers differ from the numbers of tracepoints in the recording.
func TestNumber(t *testing.T) {
	raw := func() event.Event { return event.Event{Type: format.TypeTracepoint, Raw: &kernel.Raw{}} }
	events := []event.Event{raw(), {Type: format.TypeTracepoint, Tracepoint: "a/b", Config: lastTracepoint - 1},
		{Type: format.TypeSoftware, Config: lastTracepoint}, raw(), raw()}
	if err := NumberEvents(events); err != nil {
		t.Fatal(err)
	}
	var got []uint64
	for i := range events {
		got = append(got, events[i].Config)
	}
	if want := []uint64{65535, 65534, 65535, 65533, 65532}; !slices.Equal(got, want) {
		t.Errorf("numbers %v, want %v", got, want)
	}
	many := slices.Repeat([]event.Event{raw()}, maxEvents+1)
	if NumberEvents(many) == nil {
		t.Errorf("%d events are numbered", len(many))
	}
	if err := NumberEvents(many[1:]); err != nil {
		t.Error(err)
	}
}

const testSampled = 10 // id of a BPF output event

// sampledRecord is a sample as a BPF program writes it, or as it should be in the file.
func sampledRecord(id, ip, period uint64, chain []uint64, raw []byte) []byte {
	words := append([]uint64{id, ip, 42<<32 | 42, 5, period, uint64(len(chain))}, chain...)
	data := binary.LittleEndian.AppendUint32(nil, uint32(len(raw)+4))
	data = append(append(data, raw...), 0, 0, 0, 0)
	for i := 0; i < len(data); i += 8 {
		words = append(words, binary.LittleEndian.Uint64(data[i:]))
	}
	return testRecord(format.TypeSample, words...)
}

// testRecord returns a record of 64-bit words.
func testRecord(typ format.Type, words ...uint64) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(typ)|uint64(8+8*len(words))<<48)
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// TestSource checks that BPF programs' samples become samples of the right events, without the program's own
// frames, in the order of the ring, and are counted.
func TestSource(t *testing.T) {
	const function, raw = 0xfffe, 0xffff
	const inKernel = format.ContextKernel
	const (
		function0 = 0xffffffff81000009
		caller    = 0xffffffff81000100
		runner    = 0xffffffff81000200
		site      = 0xffffffff81000300
		program   = 0xffffffffc0000001
	)
	attr := format.Attr{SampleType: format.SampleIdentifier | format.SampleIP | format.SampleTID | format.SampleTime |
		format.SamplePeriod | format.SampleCallchain | format.SampleRaw, SamplePeriod: 1, IDs: []uint64{1}}
	runners := func() kernel.Codes { return kernel.Codes{{Start: 0xffffffff81000280, End: 0xffffffff81000300}} }
	o := &output{layout: format.NewSampleLayout(&attr), raw: map[uint64]bool{raw: true}, runners: runners}
	data, head := make([]byte, 1<<12), uint64(0)
	ring := perfevent.NewRing(data, &head)
	tally := &perfevent.Tally{Layout: o.layout}
	mergers := stacks.NewMergers([]*perfevent.Ring{ring}, []format.Attr{attr}, tally)
	e := stacks.NewEvent(&attr)
	e.Rewrite = o.rewrite
	mergers[0].Add(testSampled, e)
	comm := testRecord(format.TypeComm, 1, 2, 3)
	for _, rec := range [][]byte{
		sampledRecord(testSampled, function0, 0, []uint64{inKernel, function0, caller}, rawData(function, 7)),
		comm,
		sampledRecord(testSampled, program, 0, []uint64{inKernel, program, runner, site}, rawData(raw, 1, 2)),
		sampledRecord(testSampled, program, 0, []uint64{inKernel, program, runner}, rawData(raw)),
		sampledRecord(testSampled, 0x1, 0, nil, rawData(raw)),
	} {
		head += uint64(copy(data[head:], rec))
	}
	var got []byte
	n, err := NewSource(mergers, tally).Drain(func(b []byte) error { got = append(got, b...); return nil })
	want := slices.Concat(
		sampledRecord(ID(function), function0, 1, []uint64{inKernel, function0, caller}, rawData(function, 7)),
		comm,
		sampledRecord(ID(raw), site, 1, []uint64{inKernel, site}, rawData(raw, 1, 2)),
		// A chain of the program's own frames stays as it is.
		sampledRecord(ID(raw), program, 1, []uint64{inKernel, program, runner}, rawData(raw)),
		sampledRecord(ID(raw), 0x1, 1, nil, rawData(raw)))
	if err != nil || n != int(head) || !bytes.Equal(got, want) {
		t.Errorf("%d of %d bytes, %v:\n%x\nwant\n%x", n, head, err, got, want)
	}
	if tally.Samples != 4 {
		t.Errorf("%d samples are counted", tally.Samples)
	}
}

// TestRewriteIP checks that a sample without a callchain gets the ip from the first frames; if several programs
// are attached to the tracepoint, it is not the function that calls them.
func TestRewriteIP(t *testing.T) {
	const raw, function = 0xffff, 0xfffe
	const prog, runner, iterator, site = 0xffffffffc0000001, 0xffffffff81000200, 0xffffffff81000290, 0xffffffff81000300
	const inKernel = format.ContextKernel
	attr := &format.Attr{SampleType: format.SampleIdentifier | format.SampleIP | format.SampleTID | format.SampleTime |
		format.SamplePeriod |
		format.SampleCallchain | format.SampleRaw, SamplePeriod: 1}
	runners := func() kernel.Codes { return kernel.Codes{{Start: 0xffffffff81000280, End: 0xffffffff81000300}} }
	for _, c := range []struct {
		name   string
		number uint16
		chain  []uint64
		ip     uint64
		left   []uint64
	}{
		{"one program", raw, []uint64{inKernel, prog, runner, site, site + 9}, site, []uint64{inKernel, site, site + 9}},
		{"several", raw, []uint64{inKernel, prog, runner, iterator, site}, site, []uint64{inKernel, site}},
		{"on arm64", raw, []uint64{inKernel, prog, prog, iterator, iterator + 8, iterator + 16, site}, site,
			[]uint64{inKernel, site}},
		{"cut short", raw, []uint64{inKernel, prog, runner, iterator}, iterator, []uint64{inKernel, iterator}},
		{"shorter", raw, []uint64{inKernel, prog, runner}, prog, []uint64{inKernel, prog, runner}},
		{"a function", function, []uint64{inKernel, prog, runner, iterator, site}, prog, []uint64{inKernel, prog, runner, iterator, site}},
	} {
		o := output{layout: format.NewSampleLayout(attr), raw: map[uint64]bool{raw: true}, runners: runners}
		got := o.rewrite(sampledRecord(testSampled, prog, 0, c.chain, rawData(c.number, 7)))
		if want := sampledRecord(ID(uint64(c.number)), c.ip, 1, c.left, rawData(c.number, 7)); !bytes.Equal(got, want) {
			t.Errorf("%s:\n%x\nwant\n%x", c.name, got, want)
		}
		o.ipOnly = true
		got = o.rewrite(sampledRecord(testSampled, prog, 0, c.chain, rawData(c.number, 7)))
		want := sampledRecord(ID(uint64(c.number)), c.ip, 1, nil, rawData(c.number, 7))
		at := 8 + 5*8 // where sampledRecord stores the number of frames
		want = slices.Delete(want, at, at+8)
		binary.LittleEndian.PutUint16(want[6:], uint16(len(want)))
		if !bytes.Equal(got, want) {
			t.Errorf("%s, without a callchain:\n%x\nwant\n%x", c.name, got, want)
		}
	}
}

// TestRewriteShort checks that a record that is not a program's sample stays unchanged, and that nothing is read
// past the record's end.
func TestRewriteShort(t *testing.T) {
	for _, typ := range []format.SampleType{0, format.SampleCallchain} {
		o := output{layout: format.NewSampleLayout(&format.Attr{SampleType: format.SampleIdentifier | format.SampleIP |
			format.SampleTID | format.SampleTime | format.SampleRaw | typ})}
		for size := 40; size <= 64; size += 8 {
			rec := testRecord(format.TypeSample, slices.Repeat([]uint64{1 << 40}, size/8-1)...)
			if got := o.rewrite(slices.Clone(rec)); len(got) != len(rec) {
				t.Errorf("%d bytes became %d", len(rec), len(got))
			}
		}
	}
}

// TestReopenHistograms checks that a CPU may come online while all events are histograms, which write no samples.
func TestReopenHistograms(t *testing.T) {
	s := &Sampler{histograms: []*histogram{{}}}
	if err := s.Reopen(&stacks.Merger{Ring: &perfevent.Ring{CPU: 1}}, 1); err != nil {
		t.Error(err)
	}
}
