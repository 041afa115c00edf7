package unwind

import (
	"bytes"
	"cmp"
	"debug/elf"
	"slices"

	"gperf/internal/dso"
)

// Code without CFI is mostly assembly, C libraries such as musl, and the files of the C runtime that every program
// contains. infer finds its frames from the instructions: it follows the control flow from the functions' entries, and
// counts the bytes on the stack.

// maxInferred limits the code of a file that infer reads, in bytes.
const maxInferred = 16 << 20

// maxGap is the largest range without CFI in which Build infers frames: larger ones are V8's builtins, see framed.
const maxGap = 1 << 20

// minGap is the smallest range without CFI that may contain a function: padding is shorter.
const minGap = 16

// inference is the inferred frames of a file.
type inference struct {
	gaps   []gap // by address
	states []frameState
	index  map[frameState]int32
	fixed  map[uint64]bool // entries of functions: their state is entryState
	todo   []uint64        // entries that are not followed yet
	jumps  []pendingCode   // code after indirect jumps: cases of switches
	refs   []uint64        // addresses of code that instructions compute
}

// coldSuffix is in the names of the parts of functions that compilers move away. They begin with a frame of any size.
var coldSuffix = []byte(".cold")

// gap is a range of code without CFI.
type gap struct {
	start uint64
	code  []byte
	// at has for each byte the number of the state if an instruction begins there, or one of the negative numbers.
	at []int32
}

const (
	notReached = -1 - iota
	insideInstruction
	refused // flows into it disagree
)

// infer returns the rules of the code of im outside the covered ranges, which are sorted. It skips ranges of more than
// longest bytes.
func infer(im *dso.Image, covered []codeSeg, longest uint64) []known {
	n := &inference{index: map[frameState]int32{}, fixed: map[uint64]bool{}}
	n.findGaps(im, covered, longest)
	if len(n.gaps) == 0 {
		return nil
	}
	start := im.Entry()
	n.fixed[start] = true
	var labels []uint64
	functions(im, func(s *symbol) {
		switch {
		case n.find(s.value) == nil || bytes.Contains(s.name, coldSuffix):
		case s.typ == elf.STT_FUNC || s.typ == elf.STT_GNU_IFUNC:
			n.enter(s.value)
		case s.typ == elf.STT_NOTYPE:
			labels = append(labels, s.value)
		}
	})
	n.follow(start, frameState{cfa: 8, end: true}, false)
	n.followAll()
	for _, list := range [...][]uint64{n.refs, labels, n.starts()} {
		for _, vaddr := range list {
			if p := n.find(vaddr); p != nil && *p == notReached {
				n.follow(vaddr, entryState, true)
				n.followAll()
			}
		}
	}
	return n.rules()
}

// findGaps adds the gaps of up to longest bytes.
func (n *inference) findGaps(im *dso.Image, covered []codeSeg, longest uint64) {
	total := 0
	eachGap(im, covered, longest, func(start uint64, code []byte) {
		if total+len(code) > maxInferred {
			return
		}
		total += len(code)
		g := gap{start: start, code: code, at: make([]int32, len(code))}
		for i := range g.at {
			g.at[i] = notReached
		}
		n.gaps = append(n.gaps, g)
	})
	slices.SortFunc(n.gaps, func(a, b gap) int { return cmp.Compare(a.start, b.start) })
}

// eachGap passes the executable sections' code outside the covered ranges, which are sorted, with its vaddr. It leaves
// out padding, and ranges of more than longest bytes.
func eachGap(im *dso.Image, covered []codeSeg, longest uint64, use func(start uint64, code []byte)) {
	add := func(s *elf.Section, start, end uint64) {
		if end-start < minGap || end-start > longest {
			return
		}
		if code, err := im.Bytes(s.Offset+start-s.Addr, end-start); err == nil && paddingAt(code) < end-start {
			use(start, code)
		}
	}
	for _, s := range im.Sections {
		if s.Flags&elf.SHF_EXECINSTR == 0 || s.Type != elf.SHT_PROGBITS || s.Size > im.Size || s.Addr+s.Size < s.Addr {
			continue
		}
		pos, end := s.Addr, s.Addr+s.Size
		i, _ := slices.BinarySearchFunc(covered, pos, func(c codeSeg, v uint64) int { return cmp.Compare(c.end, v) })
		for ; i < len(covered) && covered[i].start < end; i++ {
			if c := covered[i]; c.start > pos {
				add(s, pos, c.start)
			}
			pos = max(pos, covered[i].end)
		}
		if pos < end {
			add(s, pos, end)
		}
	}
}

// paddingLen returns the length of the padding at the start of code, one no-operation or breakpoint, or 0.
func paddingLen(code []byte) int {
	i := 0
	for i < len(code) && (code[i] == 0x66 || code[i] == 0x2e) {
		i++
	}
	switch {
	case code[0] == 0xcc:
		return 1
	case i < len(code) && code[i] == 0x90:
		return i + 1
	case i+1 < len(code) && code[i] == 0x0f && code[i+1] == 0x1f:
		in, ok := decodeInstruction(code, 0)
		if ok {
			return in.len
		}
	}
	return 0
}

// align is the alignment of functions.
const align = 16

// paddingAt returns the number of bytes of padding at the start of code.
func paddingAt(code []byte) (n uint64) {
	for n < uint64(len(code)) {
		size := paddingLen(code[n:])
		if size == 0 {
			break
		}
		n += uint64(size)
	}
	return n
}

// locate returns the gap that contains vaddr, nil if there is none.
func (n *inference) locate(vaddr uint64) *gap {
	i, ok := slices.BinarySearchFunc(n.gaps, vaddr, func(g gap, v uint64) int { return cmp.Compare(g.start, v) })
	if !ok {
		i--
	}
	if i < 0 || vaddr-n.gaps[i].start >= uint64(len(n.gaps[i].code)) {
		return nil
	}
	return &n.gaps[i]
}

// find returns the state number at vaddr, nil outside the gaps.
func (n *inference) find(vaddr uint64) *int32 {
	g := n.locate(vaddr)
	if g == nil {
		return nil
	}
	return &g.at[vaddr-g.start]
}

// enter adds the entry of a function.
func (n *inference) enter(vaddr uint64) {
	if !n.fixed[vaddr] && n.find(vaddr) != nil {
		n.fixed[vaddr] = true
		n.todo = append(n.todo, vaddr)
	}
}

// followAll follows the functions that are known, those that they call, and the cases of their switches.
func (n *inference) followAll() {
	for len(n.todo)+len(n.jumps) > 0 {
		if last := len(n.todo) - 1; last >= 0 {
			vaddr := n.todo[last]
			n.todo = n.todo[:last]
			n.follow(vaddr, entryState, false)
			continue
		}
		last := len(n.jumps) - 1
		j := n.jumps[last]
		n.jumps = n.jumps[:last]
		if p := n.find(j.vaddr); p != nil && *p == notReached && !n.fixed[j.vaddr] {
			n.followCase(j)
		}
	}
}

// function is the flow through one function.
type function struct {
	entry    uint64
	guess    bool        // that code at entry has this state is a guess, which the flow must confirm
	cases    *frameState // at the cases of a switch; nil if the flow is none
	todo     []pendingCode
	marked   []*int32        // the bytes of code that the flow has reached
	noReturn map[uint64]bool // addresses after calls that do not return
	returns  bool            // it returns, or goes on in another function or in code with the same state
	// called means that the function has a caller although it clears rbp, as outermost functions do: it returns
	// after that, or goes on elsewhere.
	called    bool
	outermost bool // the state at entry is one without a caller
	// To add when the flow does not contradict itself:
	calls []uint64
	jumps []pendingCode
	refs  []uint64
}

// pendingCode is code that is reached with a state.
type pendingCode struct {
	vaddr uint64
	state frameState
	// call is the address after the first call on the way that may not return, because a function can begin after it:
	// one with padding after it if padded is set. It is 0 if there is none.
	call   uint64
	padded bool
}

// maxNoReturn limits the calls of a function that turn out not to return.
const maxNoReturn = 16

// follow follows the flow from an address on. If a guess is wrong that there is a function, or code contradicts itself,
// follow keeps nothing.
func (n *inference) follow(vaddr uint64, state frameState, guess bool) {
	n.followFunction(&function{entry: vaddr, guess: guess, noReturn: map[uint64]bool{}}, state)
}

// followCase follows a case of a switch. The next case begins where its flow ends.
func (n *inference) followCase(p pendingCode) {
	n.followFunction(&function{entry: p.vaddr, guess: true, cases: &p.state, noReturn: map[uint64]bool{}}, p.state)
}

func (n *inference) followFunction(f *function, state frameState) {
	guess := f.guess
	f.outermost = state.end
	for range maxNoReturn {
		called := f.called
		f.todo = append(f.todo[:0], pendingCode{vaddr: f.entry, state: state})
		f.calls, f.jumps, f.refs, f.returns = f.calls[:0], f.jumps[:0], f.refs[:0], false
		ok, call := n.followOnce(f)
		if ok && (f.returns || !guess || n.isPrologue(f.entry)) {
			for _, c := range f.calls {
				n.enter(c)
			}
			n.jumps = append(n.jumps, f.jumps...)
			n.refs = append(n.refs, f.refs...)
			return
		}
		again := !ok && (f.called != called || call != 0 && !f.noReturn[call])
		for _, at := range f.marked {
			if *at = notReached; !again && !guess {
				*at = refused
			}
		}
		f.marked = f.marked[:0]
		if !again {
			return
		}
		if f.called == called {
			f.noReturn[call] = true
		}
	}
}

// isPrologue reports whether a function probably begins at vaddr: with a push of a register that it preserves, or with
// room for a frame.
func (n *inference) isPrologue(vaddr uint64) bool {
	g := n.locate(vaddr)
	if g == nil {
		return false
	}
	in, ok := decodeInstruction(g.code[vaddr-g.start:], vaddr)
	s := entryState
	in.apply(&s)
	preserved := in.reg == 3 || in.reg == regFP || in.reg >= 12
	return ok && s.cfa > entryState.cfa && vaddr%align == 0 && (in.op&0xf8 != 0x50 || preserved)
}

// followOnce follows the flow until it ends or contradicts itself: after a call that does not return, in most cases.
func (n *inference) followOnce(f *function) (ok bool, call uint64) {
	for len(f.todo) > 0 {
		p := f.todo[len(f.todo)-1]
		f.todo = f.todo[:len(f.todo)-1]
		if ok, call = n.straight(f, p); !ok {
			return false, call
		}
	}
	return true, 0
}

// straight follows the instructions from p on, until the flow ends, branches or joins another. If ok is false, the flow
// contradicts known facts.
func (n *inference) straight(f *function, p pendingCode) (ok bool, call uint64) {
	g := n.locate(p.vaddr)
	for g != nil && p.vaddr-g.start < uint64(len(g.code)) && !f.noReturn[p.vaddr] {
		if p.vaddr != f.entry && n.fixed[p.vaddr] { // another function: a tail call, or the end of one without return
			tail := p.state.cfa == entryState.cfa
			f.returns = f.returns || tail
			return !tail || f.mayEnd(&p.state), 0
		}
		i := p.vaddr - g.start
		if at := g.at[i]; at != notReached {
			if at >= 0 && n.states[at] == p.state {
				f.returns = f.returns || p.state.cfa != entryState.cfa
				return true, 0
			}
			return at == refused, p.call
		}
		in, ok := decodeInstruction(g.code[i:], p.vaddr)
		if !ok || !n.mark(f, g, int(i), in.len, p.state) {
			return false, p.call
		}
		p.vaddr += uint64(in.len)
		if in.isAddress() {
			f.refs = append(f.refs, p.vaddr+uint64(int64(in.disp)))
		}
		kind := in.apply(&p.state)
		if p.state.end && f.called {
			p.state.end = false
			p.state.loseFP()
		}
		if f.cases != nil && (kind == flowJump || kind == flowReturn || kind == flowEnd) {
			f.jumps = append(f.jumps, pendingCode{vaddr: p.vaddr, state: *f.cases})
		}
		switch kind {
		case flowCall:
			if in.target == p.vaddr { // its address, for position-independent code
				p.state.push(8)
				break
			}
			f.calls = append(f.calls, in.target)
			pad := paddingAt(g.code[p.vaddr-g.start:])
			if n.isPrologue(p.vaddr + pad) {
				return true, 0 // the call does not return
			}
			if (p.vaddr+pad)%align == 0 && (p.call == 0 || !p.padded && pad > 0) {
				p.call, p.padded = p.vaddr, pad > 0
			}
		case flowBranch:
			f.todo = append(f.todo, pendingCode{in.target, p.state, p.call, p.padded})
		case flowJump:
			f.todo = append(f.todo, pendingCode{in.target, p.state, p.call, p.padded})
			return true, 0
		case flowIndirect:
			if !f.mayEnd(&p.state) {
				return false, 0
			}
			if p.state.rule().CFA != CFANone {
				f.jumps = append(f.jumps, p)
			}
			return true, 0
		case flowReturn:
			f.returns = true
			// With other than the return address on the stack, the flow never gets here: it follows an exit.
			returned := p.state.cfa == entryState.cfa || p.state.cfa == unknownCFA
			if returned && !f.mayEnd(&p.state) {
				return false, 0
			}
			return p.state.end || p.state.cfa == entryState.cfa && (p.state.saved == 0 || !f.guess) ||
				p.state.cfa == unknownCFA && !f.guess, p.call
		case flowEnd:
			return true, 0
		}
		if f.guess && p.state.cfa < entryState.cfa && (p.state.cfa != unknownCFA || p.state.fp == 0) {
			return false, p.call // it pops values that its caller pushed
		}
	}
	return true, 0
}

// mayEnd reports whether the flow may leave the function in this state. A function that clears rbp, and that may return
// to a caller nevertheless, is not outermost.
func (f *function) mayEnd(s *frameState) bool {
	f.called = f.called || s.end && !f.outermost
	return !s.end || f.outermost
}

// mark stores the state of an instruction. It returns false if the instruction overlaps another one.
func (n *inference) mark(f *function, g *gap, i, size int, s frameState) bool {
	for j := i; j < i+size; j++ {
		if g.at[j] != notReached {
			return false
		}
	}
	number, ok := n.index[s]
	if !ok {
		number = int32(len(n.states))
		n.states = append(n.states, s)
		n.index[s] = number
	}
	for j := i; j < i+size; j++ {
		g.at[j] = insideInstruction
		f.marked = append(f.marked, &g.at[j])
	}
	g.at[i] = number
	return true
}

// starts returns the addresses after padding at which functions may begin.
func (n *inference) starts() (list []uint64) {
	for k := range n.gaps {
		g := &n.gaps[k]
		list = append(list, g.start)
		for i := 0; i < len(g.code); i++ {
			if g.at[i] != notReached {
				continue
			}
			size := paddingLen(g.code[i:])
			if size == 0 {
				continue
			}
			if i += size - 1; (g.start+uint64(i)+1)%align == 0 {
				list = append(list, g.start+uint64(i)+1)
			}
		}
	}
	return list
}

// rules returns the rules of the reached code.
func (n *inference) rules() (list []known) {
	for k := range n.gaps {
		g := &n.gaps[k]
		var r Rule
		for i, at := range g.at {
			switch {
			case at >= 0:
				r = n.states[at].rule()
			case at != insideInstruction:
				r = Rule{}
			}
			if r.CFA == CFANone {
				continue
			}
			vaddr := g.start + uint64(i)
			if last := len(list) - 1; last >= 0 && list[last].end == vaddr && list[last].rule == r {
				list[last].end++
			} else {
				list = append(list, known{start: vaddr, end: vaddr + 1, rule: r})
			}
		}
	}
	return list
}
