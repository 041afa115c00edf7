package unwind

import (
	"cmp"
	"debug/elf"
	"fmt"
	"slices"

	"gperf/internal/dso"
)

// Build returns the unwind table of an ELF file of x86-64 or arm64, from its .eh_frame and .debug_frame, and for other
// code of x86-64 from its instructions. The error is ErrNoCFI if nothing is found, or only code of Go, which keeps
// frame pointers, and errMachine for other machines.
func Build(im *dso.Image) (*Table, error) {
	if !im.Is64 {
		return nil, fmt.Errorf("unwind %s (%v): no tables: %w", im.Path, im.Machine, errMachine)
	}
	f, err := readCFI(im)
	if err != nil {
		return nil, err
	}
	f.known = append(f.known, fiberFinder{f, im}.rules()...)
	slices.SortStableFunc(f.known, compareKnown)
	if f.Machine == elf.EM_X86_64 {
		if !f.goFP || f.hasGoCFI() {
			if f.isHaskell(im) {
				f.known = append(f.known, haskell(im, f.covered())...)
			} else {
				f.known = append(f.known, infer(im, f.covered(), maxGap)...)
			}
			slices.SortStableFunc(f.known, compareKnown)
			f.known = append(f.known, outside(f.framed(im), f.known)...)
		}
	} else if f.goFP {
		f.goFrames = goFramesOf(im)
	}
	if len(f.fdes) == 0 && !f.hasSigreturn() && (f.goFP || !slices.ContainsFunc(f.known, func(k known) bool {
		return k.rule.Flags&FlagInferred != 0
	})) {
		return nil, f.noCFI(im)
	}
	return f.Table(), nil
}

func compareKnown(a, b known) int { return cmp.Compare(a.start, b.start) }

// outside returns the parts of the ranges of a that b does not cover. Both are in order.
func outside(a, b []known) (list []known) {
	for _, k := range a {
		for ; len(b) > 0 && b[0].end <= k.start; b = b[1:] {
		}
		for i := 0; i < len(b) && b[i].start < k.end; i++ {
			if b[i].start > k.start {
				list = append(list, known{k.start, b[i].start, k.rule, k.over})
			}
			k.start = max(k.start, b[i].end)
		}
		if k.start < k.end {
			list = append(list, k)
		}
	}
	return list
}

// hasGoCFI reports whether f has the CFI of Go's code: the code without CFI is not Go's then.
func (f *CFI) hasGoCFI() bool {
	return slices.ContainsFunc(f.fdes, func(e fde) bool { return !f.secs[f.cies[e.cie].sec].eh })
}

// covered returns the code with CFI or conventions, by address.
func (f *CFI) covered() []codeSeg {
	list := make([]codeSeg, 0, len(f.fdes)+len(f.known))
	for i := range f.fdes {
		list = append(list, codeSeg{f.fdes[i].start, f.fdes[i].end})
	}
	for _, k := range f.known {
		list = append(list, codeSeg{k.start, k.end})
	}
	slices.SortFunc(list, func(a, b codeSeg) int { return cmp.Compare(a.start, b.start) })
	return list
}

// Table returns the unwind table of f.
func (f *CFI) Table() *Table {
	var (
		m     = machine{f: f}
		size  int
		stats = Stats{FDEs: uint32(len(f.fdes)), Damaged: f.Damaged, Outside: f.Outside}
	)
	for i := range f.fdes {
		size += int(f.fdes[i].len)
	}
	b := newTableBuilder(size / 4)
	b.known = slices.Clone(f.known)
	if f.goFP {
		b.gap = b.rule(ruleFP)
	}
	for i := range f.fdes {
		e := &f.fdes[i]
		m.beginFDE(e)
		ok := true
		if f.goFP && !m.sec.eh {
			ok = f.addGo(b, &m)
		} else {
			for ok && m.next() {
				r := m.rule()
				if r.CFA == CFAUnsupported {
					stats.Unsupported++
				}
				ok = b.addRow(max(m.start, e.start), m.end, r)
			}
		}
		b.ended = true
		if m.bad {
			stats.Damaged++
		} else if ok && i+1 < len(f.fdes) {
			ok = b.bridge(e.end, f.fdes[i+1].start)
		}
		if !ok { // more pages than a table can have
			stats.Damaged += uint32(len(f.fdes) - i)
			break
		}
	}
	if f.goFP { // the code after the last FDE is Go's too
		for _, s := range f.code {
			if b.pos >= s.start && b.pos < s.end {
				b.add(b.pos, s.end, b.gap)
			}
		}
	}
	t := b.finish()
	t.Stats = stats
	return t
}

// bridge covers a gap between two FDEs of one function. The first FDE of glibc's clone3 ends before the system call,
// because it would be wrong in the child, and the second starts in the middle of the child's code. In the gap, the
// parent has only the return address on the stack.
func (b *tableBuilder) bridge(end, next uint64) bool {
	const maxGap, align = 64, 16 // functions start at multiples of align
	if end < next && next-end <= maxGap && next%align != 0 &&
		b.t.Rules[b.t.Rows[len(b.t.Rows)-1].Rule] == (Rule{CFA: CFARSP, CFAOff: 8, RAOff: -8}) {
		return b.add(end, next, b.rule(sp(8)))
	}
	return true
}

// addGo adds the rows of a function compiled by Go.
func (f *CFI) addGo(b *tableBuilder, m *machine) bool {
	if f.abi == &arm64ABI {
		return b.addGoARM64(m, f.goFrames)
	}
	return b.addGoX86(m, &f.goCode)
}

// addGoX86 adds the rows of a function of x86-64. Its CFI describes the CFA but not rbp. A function with a frame saves
// rbp next to the return address. Functions that write sp, to switch stacks, keep rbp: after the check of the stack's
// size they start with "push rbp; mov rsp, rbp". So their rows use rbp after the mov, and rsp before it and after the
// final pop.
func (b *tableBuilder) addGoX86(m *machine, code *goCode) bool {
	const movLen = 3
	pushed := ruleFP
	pushed.CFA = CFARSP
	entry := false // in the previous row, rbp is the caller's
	switches := code.any || inRanges(code.switches, m.loc)
	flags := FlagConvention
	if inRanges(code.injected, m.loc) {
		flags |= FlagSignal
	}
	for m.next() {
		r, start := m.rule(), m.start
		ofGo := r.CFA == CFARSP && r.RA == RAAtCFA && r.FP == FPSame && !m.bad
		switch {
		case !ofGo:
			entry = false
		case r.CFAOff <= 8:
			entry, r.Flags = true, flags
		case !switches:
			r.FP, r.FPOff, r.Flags = FPAtCFA, -16, flags
		case r.CFAOff == 16 && entry:
			start = min(start+movLen, m.end)
			if !b.addRow(m.start, start, pushed) {
				return false
			}
			entry, r = false, ruleFP
		default:
			entry, r = false, ruleFP
		}
		if start < m.end && !b.addRow(start, m.end, r) {
			return false
		}
	}
	return true
}

// addRow adds a row, or the rule of a convention that replaces it.
func (b *tableBuilder) addRow(start, end uint64, r Rule) bool {
	for _, k := range b.known {
		if k.start >= end {
			break
		}
		if from, to := max(k.start, start), min(k.end, end); k.over && from < to {
			return (from == start || b.addRow(start, from, r)) && b.add(from, to, b.rule(k.rule)) &&
				(to == end || b.addRow(to, end, r))
		}
	}
	return b.add(start, end, b.rule(r))
}

// rule returns the rule of the machine's state.
func (m *machine) rule() Rule {
	a, signal := m.f.abi, m.cie.signal
	ra, fp := m.regs[m.cie.ra], m.regs[a.fp]
	cfa := m.cfaRule()
	switch {
	case cfa.Kind == Unspecified, ra.Kind == Unspecified && a.lr < 0:
		return ruleUnsupported
	case ra.Kind == Undefined:
		return ruleEnd
	case int(m.cie.ra) != a.ra && a.lr < 0:
		return ruleUnsupported
	case signal && cfa.Kind == ValExpression && m.isSignal(cfa, ra):
		return ruleSignal
	}
	var r Rule
	if signal {
		r.Flags = FlagSignal
	}
	moved, ok := m.moveToSP(&cfa)
	for _, reg := range [...]*RegRule{&ra, &fp} {
		if reg.Kind == Offset {
			reg.Off -= moved
		}
	}
	if !ok || !m.cfaPart(cfa, &r) || !m.raPart(ra, &r) || !m.fpPart(fp, &r) {
		return ruleUnsupported
	}
	return r
}

// moveToSP moves the CFA to the caller's sp, where walks expect it: in the CFI of GHC's StgRun, it is elsewhere. It
// returns the distance in bytes, and false if that is not constant.
func (m *machine) moveToSP(cfa *RegRule) (int64, bool) {
	sp := m.regs[m.f.abi.sp]
	switch sp.Kind {
	case Unspecified:
		return 0, true
	case ValOffset:
		return 0, sp.Off == 0
	case ValExpression:
		reg, off, ok := matchReg(m.exprBytes(sp))
		moved := off - cfa.Off
		cfa.Off = off
		return moved, ok && cfa.Kind == Register && int(cfa.Reg) == reg
	}
	return 0, false
}

func (m *machine) cfaPart(cfa RegRule, r *Rule) bool {
	if cfa.Kind == ValExpression {
		p, ok := m.f.abi.matchCFA(m.exprBytes(cfa))
		r.CFA, r.CFAOff, r.CFAOff2 = p.CFA, p.CFAOff, p.CFAOff2
		return ok
	}
	if cfa.Off != int64(int32(cfa.Off)) || int(cfa.Reg) >= m.f.abi.general {
		return false
	}
	r.CFAOff = int32(cfa.Off)
	switch int(cfa.Reg) {
	case m.f.abi.sp:
		r.CFA = CFARSP
	case m.f.abi.fp:
		r.CFA = CFARBP
	default:
		r.CFA, r.CFAOff2 = CFAReg, int16(cfa.Reg)
	}
	return true
}

// base is the origin of a rule's offset.
type base uint8

const (
	fromCFA base = iota
	fromSP
	fromFP
)

// near returns from where an offset from the CFA is small enough for a rule, and the offset from there: from the CFA if
// possible, otherwise from the register that the CFA is at an offset from.
func (r *Rule) near(off int64) (base, int64) {
	switch {
	case fits16(off):
	case r.CFA == CFARSP:
		return fromSP, off + int64(r.CFAOff)
	case r.CFA == CFARBP:
		return fromFP, off + int64(r.CFAOff)
	}
	return fromCFA, off
}

// raPart sets the rule's return address; its CFA is set.
func (m *machine) raPart(ra RegRule, r *Rule) bool {
	off, n := ra.Off, m.f.abi.general
	switch ra.Kind {
	case Offset:
		var from base
		from, off = r.near(off)
		r.RA = [...]RA{RAAtCFA, RAAtSP, RAAtFP}[from]
	case Unspecified, SameValue: // in the register itself, if the machine has it
		r.RA, off = RAReg, int64(m.cie.ra)
	case Register:
		r.RA, off = RAReg, int64(ra.Reg)
	default:
		return false
	}
	r.RAOff = int16(off)
	return fits16(off) && (r.RA != RAReg || off < int64(n))
}

// fpPart sets the rule's frame pointer; its CFA is set.
func (m *machine) fpPart(fp RegRule, r *Rule) bool {
	off := fp.Off
	switch fp.Kind {
	case Unspecified, SameValue:
		r.FP = FPSame
		return true
	case Undefined:
		r.FP = FPUndefined
		return true
	case Offset:
		var from base
		from, off = r.near(off)
		r.FP = [...]FP{FPAtCFA, FPAtSP, FPAtFP}[from]
	case Register:
		if int(fp.Reg) >= m.f.abi.general {
			return false
		}
		r.FP, off = FPReg, int64(fp.Reg)
	case Expression:
		reg, n, ok := matchReg(m.exprBytes(fp))
		switch {
		case ok && reg == m.f.abi.fp:
			r.FP = FPAtFP
		case ok && reg == m.f.abi.sp:
			r.FP = FPAtSP
		default:
			return false
		}
		off = n
	default:
		return false
	}
	r.FPOff = int16(off)
	return fits16(off)
}

func fits16(n int64) bool { return n == int64(int16(n)) }

// isSignal reports whether the state is the state of a signal frame in the CFI of x86-64's C libraries: CFA, rip and
// rbp are the registers of the interrupted code, in the ucontext that rt_sigreturn restores.
func (m *machine) isSignal(cfa, ra RegRule) bool {
	if m.f.abi != &x86ABI {
		return false
	}
	p, ok := m.f.abi.matchCFA(m.exprBytes(cfa))
	if !ok || p.CFA != CFADerefRSP || p.CFAOff != SignalRSP || p.CFAOff2 != 0 {
		return false
	}
	at := func(r RegRule, want int64) bool {
		if r.Kind != Expression {
			return false
		}
		reg, off, ok := matchReg(m.exprBytes(r))
		return ok && reg == x86RSP && off == want
	}
	return at(ra, SignalRIP) && at(m.regs[x86RBP], SignalRBP)
}

// exprBytes returns the expression of a rule.
func (m *machine) exprBytes(r RegRule) []byte { return m.sec.expr(r) }

func (s *section) expr(r RegRule) []byte { return s.b[r.Off : r.Off+int64(r.len)] }
