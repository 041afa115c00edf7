package programs

import (
	"encoding/binary"
	"slices"

	"gperf/bpf"
	"gperf/format"
	"gperf/record/event"
	"gperf/record/probe"
	"gperf/record/tracefs"
)

// call is an event of a function's calls.
type call struct {
	ev   *event.Event
	span bpf.Span
}

// sameProgram reports whether the same BPF programs can run at both functions.
func (c *call) sameProgram(o *call) bool {
	a, b := c.ev.Span, o.ev.Span
	return c.span.Filter == nil && o.span.Filter == nil && a.Min == b.Min && a.Hist == b.Hist &&
		a.Call.Path == b.Call.Path &&
		(a.Call.Returns == nil) == (b.Call.Returns == nil)
}

// attachCalls attaches programs to the entries and returns of functions: as few as possible.
func (a *attachments) attachCalls(list []call) error {
	for len(list) > 0 {
		first := list[0]
		c := &bpf.Calls{Span: first.span, Path: first.ev.Span.Call.Path, Go: first.ev.Span.Call.Go,
			GoID: first.ev.Span.Call.GoID}
		list = slices.DeleteFunc(list, func(o call) bool {
			to := o.ev.Span.Call
			again := slices.ContainsFunc(c.Functions, func(f bpf.Function) bool {
				return f.Address == to.Address && f.Off == to.Begin && f.Symbol == to.Symbol
			})
			if again || o.ev != first.ev && !first.sameProgram(&o) {
				return false
			}
			c.Functions = append(c.Functions, bpf.Function{ID: o.span.ID, Address: to.Address,
				Kprobe: bpf.Kprobe{Symbol: to.Symbol, FromText: to.FromText}, Off: to.Begin, Returns: to.Returns})
			return true
		})
		if err := a.bpf.AttachCalls(c); err != nil {
			return &SamplerError{first.ev.Name, err}
		}
	}
	return nil
}

// callFields returns the fields of a function's calls, and the print format of these fields.
func callFields(c *probe.Call) (fields []tracefs.FormatField, print string) {
	text, exprs := "duration=%llu start=%llu", ", REC->duration, REC->start"
	names := map[string]bool{"duration": true, "start": true, "ip": true, "retval": c.Result != nil}
	add := func(p *probe.Param, name string, at int) {
		f := tracefs.FormatField{Type: p.Type, Name: name, Offset: at, Size: p.Size, Signed: p.Signed}
		fields = append(fields, f)
		verb, expr := fieldVerb(&f)
		text += " " + name + "=" + verb
		exprs += ", " + expr
	}
	fields = append(fields, tracefs.FormatField{Type: "unsigned long", Name: "ip", Offset: bpf.CallIP, Size: 8})
	for i := range c.Params {
		p := &c.Params[i]
		name := p.Name
		for names[name] {
			name += "_"
		}
		names[name] = true
		add(p, name, bpf.CallArgs+8*p.Register)
	}
	if c.Result != nil {
		add(c.Result, "retval", bpf.CallRetval)
	}
	if c.GoID != 0 && !names["goroutine"] {
		add(&probe.Param{Type: "u64", Size: 8}, "goroutine", bpf.CallGoroutine)
	}
	return fields, `"` + text + `"` + exprs
}

// setFunction makes a sample belong to the function whose call ended: the callchain in the sample is now the
// caller's. raw is the position of the raw data, chain the position of the callchain or -1.
func (o *output) setFunction(rec []byte, c *probe.Call, raw, chain int) []byte {
	le := binary.LittleEndian
	if raw+bpf.CallSize > len(rec) {
		return rec
	}
	ip, context := le.Uint64(rec[raw+bpf.CallIP:]), uint64(format.ContextUser)
	if !c.Kind.User() {
		ip, context = c.Address, format.ContextKernel
		le.PutUint64(rec[raw+bpf.CallIP:], ip)
	}
	if ip != 0 && c.Kind.User() {
		ip -= c.Begin - c.Off
		le.PutUint64(rec[raw+bpf.CallIP:], ip)
	}
	if c.Returns != nil || ip == 0 { // the sample is in the function
		return rec
	}
	le.PutUint64(rec[format.HeaderSize+o.layout.IP:], ip)
	if chain < 0 {
		return rec
	}
	at := chain + 8
	end := at + 8*int(le.Uint64(rec[chain:]))
	for at < end && le.Uint64(rec[at:]) != context {
		at += 8
	}
	own := le.AppendUint64(nil, ip)
	switch {
	case at < end:
		at += 8
	case !c.Kind.User(): // without the kernel's frames
		return rec
	default: // BPF walks the stack
		own = le.AppendUint64(le.AppendUint64(nil, context), ip)
	}
	le.PutUint64(rec[chain:], le.Uint64(rec[chain:])+uint64(len(own)/8))
	return slices.Insert(rec, at, own...)
}
