package programs

import (
	"bytes"
	"encoding/binary"
	"testing"

	"gperf/bpf"
	"gperf/format"
	"gperf/format/tracepoint"
	"gperf/record/event"
	"gperf/record/probe"
)

// callData is the raw data of a call's span.
func callData(number uint16, ip uint64) []byte {
	return rawData(number, 500, 1000, ip, 1<<32|41, 2, 3, 4, 5, 6, 7, 19)
}

// TestCallFormat checks that arguments are parts of registers, and that the arguments' names do not hide the
// span's fields.
func TestCallFormat(t *testing.T) {
	ev := &event.Event{Name: "span:handle", Config: 0xffff, Span: &event.Span{Call: &probe.Call{
		GoID: 152, Params: []probe.Param{{Name: "start", Type: "s32", Size: 4, Signed: true},
			{Name: "request", Type: "void *", Register: 2, Size: 8}},
		Result: &probe.Param{Name: "retval", Type: "u8", Size: 1}}}}
	text, err := SampleFormat(ev)
	if err != nil {
		t.Fatal(err)
	}
	f, err := tracepoint.Parse(text, "span")
	if err != nil || f.PrintErr != nil {
		t.Fatalf("%v, %v:\n%s", err, f.PrintErr, text)
	}
	got := string(f.AppendPrint(nil, callData(0xffff, 9), &tracepoint.Env{Order: binary.LittleEndian, LongSize: 8}))
	if want := "duration=500 start=1000 start_=41 request=0x3 retval=7 goroutine=19"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestRewriteCall checks that the function is the innermost frame of the span.
func TestRewriteCall(t *testing.T) {
	const number, inKernel, inUser = 0xffff, format.ContextKernel, format.ContextUser
	const function, caller, program = 0x1000, 0x2000, 0x3000
	attr := &format.Attr{SampleType: format.SampleIdentifier | format.SampleIP | format.SampleTID | format.SampleTime |
		format.SamplePeriod | format.SampleCallchain | format.SampleRaw, SamplePeriod: 1}
	for _, c := range []struct {
		name        string
		call        probe.Call
		chain, want []uint64
		ip          uint64
	}{
		{"kernel", probe.Call{Probe: &probe.Probe{}, Address: function}, []uint64{inKernel, caller, inUser, program},
			[]uint64{inKernel, function, caller, inUser, program}, function},
		{"kernel, user frames only", probe.Call{Probe: &probe.Probe{}, Address: function}, []uint64{inUser, program},
			[]uint64{inUser, program}, function},
		{"kernel, hidden address", probe.Call{Probe: &probe.Probe{}}, []uint64{inKernel, caller}, []uint64{inKernel, caller},
			caller},
		{"program by fp", probe.Call{Probe: &probe.Probe{Kind: probe.Uprobe}}, []uint64{inUser, caller, program},
			[]uint64{inUser, function, caller, program}, function},
		{"program by BPF", probe.Call{Probe: &probe.Probe{Kind: probe.Uprobe}}, nil, []uint64{inUser, function}, function},
		{"return instruction", probe.Call{Probe: &probe.Probe{Kind: probe.Uprobe}, Returns: []uint64{1}},
			[]uint64{inUser, caller}, []uint64{inUser, caller}, caller},
	} {
		o := output{layout: format.NewSampleLayout(attr), spans: map[uint64]*event.Span{number: {Call: &c.call}}}
		ip, wantIP := uint64(0), c.call.Address
		if c.call.Kind.User() {
			ip, wantIP = function, function
		}
		got := o.rewrite(sampledRecord(testSampled, caller, 0, c.chain, callData(number, ip)))
		if want := sampledRecord(ID(number), c.ip, 500, c.want, callData(number, wantIP)); !bytes.Equal(got, want) {
			t.Errorf("%s:\n%x\nwant\n%x", c.name, got, want)
		}
	}
	short := sampledRecord(testSampled, caller, 0, nil, callData(number, 0)[:bpf.CallSize-16])
	o := output{layout: format.NewSampleLayout(attr),
		spans: map[uint64]*event.Span{number: {Call: &probe.Call{Probe: &probe.Probe{}, Address: function}}}}
	if got := o.rewrite(bytes.Clone(short)); len(got) != len(short) {
		t.Errorf("a short sample of %d bytes has %d", len(short), len(got))
	}
}
