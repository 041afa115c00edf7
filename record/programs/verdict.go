package programs

import (
	"cmp"
	"encoding/binary"
	"errors"
	"os"
	"slices"

	"gperf/bpf"
	"gperf/format"
	"gperf/internal/packet"
	"gperf/internal/procfs"
	"gperf/record/event"
	"gperf/record/perfevent"
	"gperf/record/probe/kernel"
)

// verdicts makes the texts of the verdicts that dropped packets.
type verdicts struct {
	at, tableAt, chainAt int // positions in the raw data
	rules                *ruleTexts
	rule                 packet.Rule // of the current sample
}

// read reads the verdict of a sample with this raw data.
func (v *verdicts) read(raw []byte) {
	v.rule = packet.ReadRule(raw[v.at : v.at+packet.VerdictSize])
	v.rule.Table, v.rule.Chain = dynamicText(raw, v.tableAt), dynamicText(raw, v.chainAt)
}

// dynamicText returns the text whose __data_loc is at a position of raw data.
func dynamicText(raw []byte, at int) string {
	loc := binary.LittleEndian.Uint32(raw[at:])
	from, n := int(loc&0xffff), int(loc>>16)
	if n == 0 || from+n > len(raw) {
		return ""
	}
	return string(raw[from : from+n-1])
}

// netfilterCode is the functions of netfilter in this kernel, by name.
type netfilterCode struct {
	functions map[string][]bpf.CodeRange
	err       error
}

func findNetfilter() netfilterCode {
	kallsyms, err := os.Open(procfs.Kallsyms)
	if err != nil {
		return netfilterCode{nil, err}
	}
	defer kallsyms.Close()
	found := map[string][]bpf.CodeRange{}
	for _, f := range kernel.FunctionCode(kallsyms, bpf.IsNetfilterFunction) {
		found[f.Name] = append(found[f.Name], bpf.CodeRange{Start: f.Start, Size: f.End - f.Start})
	}
	return netfilterCode{found, nil}
}

// attachVerdict attaches programs to the functions of netfilter.
func (a *attachments) attachVerdict(ev *event.Event, l *kernel.Layout) error {
	code := a.netfilter()
	functions, err := code.functions, code.err
	if err != nil {
		return &SamplerError{ev.Name, err}
	}
	p := ev.Raw.Packet
	v := &bpf.Verdict{ID: uint16(ev.Config), Size: l.Size, At: l.VerdictAt, TableAt: l.TableAt, ChainAt: l.ChainAt,
		Packet:    bpf.Packet{At: l.PacketAt, BytesAt: l.BytesAt, Snap: p.Snap},
		Functions: functions,
		Left: func(part string, err error) {
			a.opts.verbose(ev.Name + ": verdicts of " + part + " are not found: " + err.Error())
		}}
	if v.Filter, err = filterOf(ev, l.Format(uint16(ev.Config))); err != nil {
		return &perfevent.FilterError{Event: ev.Name, Filter: ev.Filter, Err: err}
	}
	texts := newPackets(l, &a.sockets)
	texts.verdicts = &verdicts{at: l.VerdictAt, tableAt: l.TableAt, chainAt: l.ChainAt}
	a.packets[ev.Config] = texts
	a.dropping = droppingCode(functions)
	switch err := a.bpf.AttachVerdict(v); {
	case errors.Is(err, bpf.ErrNoFirewall) && ev.Raw.Verdict.Optional:
		a.opts.verbose(ev.Name + ": " + err.Error())
		return nil
	case err != nil:
		return &SamplerError{ev.Name, err}
	}
	if ev.Raw.Verdict.RuleText && functions[bpf.ChainFunction] != nil {
		failed := func(err error) { a.opts.verbose(ev.Name + ": " + err.Error()) }
		texts.verdicts.rules = newRuleTexts(v.Generation, failed)
	}
	return nil
}

// droppingCode returns the code of the functions that free dropped packets, sorted.
func droppingCode(functions map[string][]bpf.CodeRange) (codes kernel.Codes) {
	for name, l := range functions {
		for _, c := range l {
			if bpf.DropsPackets(name) {
				codes = append(codes, kernel.Code{Start: c.Start, End: c.Start + c.Size})
			}
		}
	}
	slices.SortFunc(codes, func(a, b kernel.Code) int { return cmp.Compare(a.Start, b.Start) })
	return codes
}

func (o *SamplerOptions) verbose(text string) {
	if o.Verbose != nil {
		o.Verbose(text)
	}
}

// maxDropFrames limits the frames from the function that frees a packet to that which runs a hook's functions.
const maxDropFrames = 12

// ownDropFrames returns the number of a sample's innermost frames up to the function that runs a hook's functions:
// at least own. frames are the kernel's frames, to which other contexts may follow.
func (o *output) ownDropFrames(frames []byte, own int) int {
	le := binary.LittleEndian
	for i, found := own, false; i < min(len(frames)/8, own+maxDropFrames); i++ {
		drops := o.dropping.Has(le.Uint64(frames[8*i:]))
		if found && !drops {
			break // the caller; below it, other hooks may run
		}
		if found = drops; found {
			own = i + 1
		}
	}
	if 8*own < len(frames) && le.Uint64(frames[8*own:]) < format.ContextMax {
		return own
	}
	return own - 1 // the caller is not recorded
}
