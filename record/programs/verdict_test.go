package programs

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"gperf/format"
	"gperf/format/tracepoint"
	"gperf/internal/packet"
	"gperf/record/event"
	"gperf/record/probe/kernel"
)

// verdictData is the raw data that a BPF program writes for a dropped packet. flags are is_policy and is_queue.
func verdictData(l *kernel.Layout, by packet.By, rule uint32, handle uint64, flags ...byte) []byte {
	le := binary.LittleEndian
	raw := make([]byte, l.Size)
	le.PutUint16(raw, 0xffff)
	le.PutUint32(raw[l.PacketAt+24:], 84) // len
	le.PutUint32(raw[l.PacketAt+32:], 5)  // netns
	copy(raw[l.PacketAt+40:], "eth0")
	v := raw[l.VerdictAt:]
	le.PutUint64(v, handle)
	le.PutUint32(v[8:], rule)
	v[12] = byte(by)
	copy(v[13:], flags)
	copy(v[20:], "input")
	copy(v[36:], "inet")
	for _, name := range []struct {
		at   int
		text string
	}{{l.TableAt, "filter\x00"}, {l.ChainAt, "in\x00"}} {
		le.PutUint32(raw[name.at:], uint32(len(name.text))<<16|uint32(len(raw)))
		raw = append(raw, name.text...)
	}
	return append(raw, make([]byte, -len(raw)&7)...)
}

func TestVerdictSamples(t *testing.T) {
	ev := &event.Event{Name: "nf:drop", Config: 0xffff, Raw: &kernel.Raw{Name: "kfree_skb",
		Packet:  &kernel.Packet{PacketArg: kernel.PacketArg{Arg: 1}, Shown: packet.Default},
		Verdict: &kernel.Verdict{RuleText: true}}}
	l, err := ev.Raw.Layout()
	if err != nil {
		t.Fatal(err)
	}
	text, err := SampleFormat(ev)
	if err != nil {
		t.Fatal(err)
	}
	f, err := tracepoint.Parse(text, "nf")
	if err != nil || f.PrintErr != nil {
		t.Fatalf("%v, %v:\n%s", err, f.PrintErr, text)
	}
	attr := &format.Attr{SampleType: format.SampleIdentifier | format.SampleIP | format.SampleTID | format.SampleTime |
		format.SamplePeriod | format.SampleCallchain | format.SampleRaw, SamplePeriod: 1}
	known := map[ruleKey]string{{"inet", "filter", 7}: "udp dport 53 drop"}
	rules := &ruleTexts{netns: 5, known: []listedRules{{0, known}}}
	p := newPackets(l, &sockets{})
	p.verdicts = &verdicts{at: l.VerdictAt, tableAt: l.TableAt, chainAt: l.ChainAt, rules: rules}
	o := output{layout: format.NewSampleLayout(attr), packets: map[uint64]*packets{0xffff: p}}
	for _, c := range []struct {
		name, verdict, rule string
		raw                 []byte
	}{
		{"nft", "table inet filter chain in rule 4 handle 7", "udp dport 53 drop", verdictData(l, packet.ByNFT, 4, 7, 0)},
		{"nft policy", "table inet filter chain in policy", "", verdictData(l, packet.ByNFT, 0, 0, 1)},
		{"nft queue", "table inet filter chain in rule 4 handle 7 queue", "udp dport 53 drop", verdictData(l, packet.ByNFT, 4, 7, 0, 1)},
		{"iptables", "table filter chain in rule 3", "", verdictData(l, packet.ByXT, 3, 0, 0)},
		{"ebtables policy", "table filter chain in policy", "", verdictData(l, packet.ByEBT, 0, 0, 1)},
		{"conntrack", "connection tracking", "", verdictData(l, packet.ByConntrack, 0, 0, 0)},
		{"unknown", "unknown function of hook input", "", verdictData(l, packet.ByUnknown, 0, 0, 0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := o.rewrite(sampledRecord(testSampled, 1, 0, nil, c.raw))
			at := o.layout.Raw(rec[format.HeaderSize:]) + format.HeaderSize
			got := string(f.AppendPrint(nil, rec[at+4:], &tracepoint.Env{Order: binary.LittleEndian, LongSize: 8}))
			want := "verdict=" + c.verdict + " hook=input flow=unknown tcpflags= dev=eth0 len=84 netns=5 rule_text=" +
				c.rule
			if got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
	t.Run("hostile", func(t *testing.T) {
		raw := verdictData(l, packet.ByNFT, 4, 7, 0)
		binary.LittleEndian.PutUint32(raw[l.TableAt:], 0xffffffff)
		binary.LittleEndian.PutUint32(raw[l.ChainAt:], 0x0000ffff)
		rec := o.rewrite(sampledRecord(testSampled, 1, 0, nil, raw))
		if !strings.Contains(string(rec), "table inet  rule 4 handle 7\x00") {
			t.Errorf("%q", rec)
		}
		for n := range len(raw) { // cut samples
			o.rewrite(sampledRecord(testSampled, 1, 0, nil, raw[:n&^7]))
		}
	})
}

// TestCutPackets checks that samples whose raw data ends early get no texts.
func TestCutPackets(t *testing.T) {
	raw := &kernel.Raw{Name: "received", Args: []kernel.RawArg{{Name: "skb", Type: "struct sk_buff *", Size: 8}}}
	raw, ok := raw.WithPacket()
	l, err := raw.Layout()
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	attr := &format.Attr{SampleType: format.SampleIdentifier | format.SampleIP | format.SampleTID | format.SampleTime |
		format.SamplePeriod | format.SampleCallchain | format.SampleRaw, SamplePeriod: 1}
	o := output{layout: format.NewSampleLayout(attr), packets: map[uint64]*packets{0xffff: newPackets(l, &sockets{})}}
	data := make([]byte, l.Size)
	binary.LittleEndian.PutUint16(data, 0xffff)
	for n := 8; n <= len(data); n += 8 {
		before := sampledRecord(testSampled, 1, 0, nil, data[:n])
		rec := o.rewrite(slices.Clone(before))
		if texts := strings.Contains(string(rec), "unknown"); texts != (n == len(data)) || len(rec) != len(before) {
			t.Errorf("%d of %d bytes: texts: %v, %d bytes instead of %d", n, len(data), texts, len(rec), len(before))
		}
	}
}

// TestVerdictFrames checks that a stack begins with the caller of the function that ran the hook.
func TestVerdictFrames(t *testing.T) {
	const hook, other, inUser = 0x2010, 0x9000, format.ContextUser
	o := output{dropping: kernel.Codes{{Start: 0x2000, End: 0x2100}, {Start: 0x3000, End: 0x3100}}}
	for _, c := range []struct {
		name   string
		frames []uint64
		want   int
	}{
		{"freed in the hook", []uint64{1, 2, other, hook, other, other}, 4},
		{"freed in a chain", []uint64{1, 2, other, other, other, hook, other}, 6},
		{"of a list", []uint64{1, 2, other, hook, 0x3050, other}, 5},
		{"within another hook", []uint64{1, 2, other, hook, other, other, hook, other}, 4},
		{"elsewhere", []uint64{1, 2, other, other}, 2},
		{"without callers", []uint64{1, 2, other, hook}, 3},
		{"with user frames only", []uint64{1, 2, other, hook, inUser, other}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b []byte
			for _, ip := range c.frames {
				b = binary.LittleEndian.AppendUint64(b, ip)
			}
			if got := o.ownDropFrames(b, 2); got != c.want {
				t.Errorf("%d frames of the kernel's own, want %d", got, c.want)
			}
		})
	}
}
