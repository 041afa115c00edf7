//go:build linux

package unwind

import (
	"debug/elf"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

var numWalks = flag.Int("walks", 40_000, "number of changed walks that TestWalksChanged compares, for each machine")

// target is a recorded walk to change, and the addresses and values that a change has to hit.
type target struct {
	*process
	regs   []uint64
	frames []uint64
	stack  []uint64 // addresses of words that the walk reads
	code   []uint64 // addresses of code that it reads
	rowsOf []uint32 // indexes of rows that it uses
}

// targets returns the recorded walks of a machine.
func targets(t testing.TB, m elf.Machine) (list []target) {
	var u Unwinder
	for _, p := range capturedProcesses(t, m) {
		for _, th := range p.threads {
			list = append(list, newTarget(p, th.Regs, &u))
		}
	}
	return list
}

func newTarget(p *process, regs []uint64, u *Unwinder) target {
	g := target{process: p, regs: regs}
	p.log = func(addr uint64, n int) {
		switch {
		case n == 8 && p.mapping(addr) < 0:
			g.stack = append(g.stack, addr)
		case n > 1: // a byte is of HotSpot's segment map: with changes there, one address belongs to two blobs
			g.code = append(g.code, addr)
		}
	}
	g.frames = p.walk(u, regs).frames
	p.log = nil
	for i, ip := range g.frames {
		if m, vaddr := p.place(Frame{IP: ip, Return: i > 0}); m != nil {
			if row, ok := p.row(m.Table, vaddr); ok {
				g.rowsOf = append(g.rowsOf, row)
			}
		}
	}
	return g
}

// source is where changes get their numbers from: bytes, or a generator if it is set.
type source struct {
	bytes []byte
	rnd   *rand.Rand
}

// word returns a number.
func (s *source) word() uint64 {
	if s.rnd != nil {
		return s.rnd.Uint64()
	}
	var b [8]byte
	s.bytes = s.bytes[copy(b[:], s.bytes):]
	return binary.LittleEndian.Uint64(b[:])
}

// below returns a number below n, which is at most 1 << 16.
func (s *source) below(n int) int {
	if s.rnd != nil {
		return s.rnd.IntN(n)
	}
	var b [2]byte
	s.bytes = s.bytes[copy(b[:1+min(1, n>>8)], s.bytes):]
	return int(binary.LittleEndian.Uint16(b[:])) % n
}

// pick returns an element of a list, the zero value if it is empty.
func pick[T any](s *source, list []T) (v T) {
	if len(list) > 0 {
		v = list[s.below(min(len(list), 1<<16))]
	}
	return v
}

// change is a changed walk.
type change struct {
	*target
	source
	regs    []uint64
	patches []patch
	undo    []patch
}

// newChange changes a walk. The process has the changes until revert.
func newChange(g *target, s source) *change {
	c := &change{target: g, source: s, regs: slices.Clone(g.regs)}
	kinds := []func(){c.register, c.word, c.word, c.word, c.instruction, c.row, c.rule, c.mapping}
	for range 1 + c.below(6) {
		pick(&c.source, kinds)()
	}
	return c
}

// revert undoes the patches.
func (c *change) revert() {
	for _, u := range slices.Backward(c.undo) {
		c.set(u)
	}
	c.undo = c.undo[:0]
}

// apply applies the patches again.
func (c *change) apply() {
	for _, p := range c.patches {
		c.undo = append(c.undo, c.set(p))
	}
}

// register changes a register, mostly one of those that all walks use.
func (c *change) register() {
	n := c.below(len(c.regs))
	if a := abiOf(c.machine); c.below(3) > 0 {
		n = pick(&c.source, []int{a.ip, a.sp, a.fp, a.fp, max(a.lr, 0)})
	}
	switch c.below(3) {
	case 0:
		c.regs[n] = c.value()
	case 1:
		c.regs[n] += 8 * c.near(5)
	case 2:
		c.regs[n] += c.near(5)
	}
}

// near returns a number whose absolute value is below n.
func (c *change) near(n int) uint64 { return uint64(c.below(2*n-1) - n + 1) }

// word changes a word of the stack.
func (c *change) word() {
	at := pick(&c.source, c.stack) + 8*uint64(pick(&c.source, []int{0, 0, 0, 1, -1, 2}))
	c.write(inMemory, at, binary.LittleEndian.AppendUint64(nil, c.value()))
}

// value returns a number that has a meaning in the walk.
func (c *change) value() uint64 {
	switch c.below(10) {
	case 0:
		return 0
	case 1:
		return c.source.word()
	case 2, 3:
		return pick(&c.source, c.frames)
	case 4:
		return pick(&c.source, c.frames) + c.near(40)
	case 5:
		m := pick(&c.source, c.maps)
		return m.Start + c.source.word()%(m.End-m.Start+1)
	case 6, 7:
		return pick(&c.source, c.stack)
	case 8:
		return pick(&c.source, c.stack) + 8*c.near(40)
	}
	return pick(&c.source, c.target.regs)
}

// write changes bytes of a region, if it has them.
func (c *change) write(region int, at uint64, b []byte) {
	for len(b) > 0 {
		word := c.part(region, at&^7)
		if len(word) < 8 {
			return
		}
		w := [8]byte(word)
		n := copy(w[at%8:], b)
		p := patch{uint64(region), at &^ 7, binary.NativeEndian.Uint64(w[:])}
		c.patches, c.undo = append(c.patches, p), append(c.undo, c.set(p))
		b, at = b[n:], at+uint64(n)
	}
}

// instructions are the instructions that walks look for in code.
var instructions = map[elf.Machine][]string{
	elf.EM_X86_64: {"\xc3", "\xf3\xc3", "\xf2\xc3", "\xc2\x10\x00", "\x55", "\x5d", "\xc9", "\x5b", "\x5c", "\x41\x5c",
		"\x48\x89\xe5", "\x48\x8b\xec", "\x48\x89\xec", "\x48\x8b\xe5", "\x48\x83\xec\x18", "\x48\x83\xc4\x18",
		"\x48\x81\xc4\x88\x00\x00\x00", "\x48\x8d\x65\xf0", "\xc5\xf8\x77", "\xf3\x0f\x1e\xfa", "\xff\xd1", "\xff\x10",
		"\xe8\x00\x01\x00\x00", "\xff\x15\x00\x00\x00\x00", "\xff\x50\x08", "\x41\xff\xd4", "\xff\x94\x24\x80\x00\x00\x00",
		"\x48\x89\x6c\x24\x10", "\x49\x3b\xa7\x48\x03\x00\x00", "\x4d\x8b\x57\x48", "\x41\x5d", "\x41\xff", "\x5f", "\x90"},
	elf.EM_AARCH64: {"\xc0\x03\x5f\xd6", "\xff\x0b\x5f\xd6", "\x3f\x23\x03\xd5", "\xbf\x23\x03\xd5", "\x5f\x24\x03\xd5",
		"\xfd\x7b\xbf\xa9", "\xfd\x7b\xbc\xa9", "\xfd\x7b\x01\xa9", "\xff\x83\x00\xd1", "\xff\x83\x00\x91",
		"\xfd\x03\x00\x91", "\xfd\x43\x00\x91", "\x20\x00\x00\x94", "\x20\x01\x3f\xd6", "\x1f\x20\x03\xd5",
		"\x00\x08\x3f\xd7"},
}

// instruction writes up to three instructions that end or begin at a place of code that the walk reads.
func (c *change) instruction() {
	var code []byte
	for range 1 + c.below(3) {
		code = append(code, pick(&c.source, instructions[c.machine])...)
	}
	at := pick(&c.source, c.frames)
	if c.below(2) == 0 {
		at = pick(&c.source, c.code)
	}
	if c.below(2) == 0 {
		at -= uint64(len(code))
	}
	c.write(inMemory, at, code)
}

// row gives a row that the walk uses another rule of its table, or moves it.
func (c *change) row() {
	if len(c.rowsOf) == 0 {
		return
	}
	i := pick(&c.source, c.rowsOf)
	r := c.rows[i]
	if first, n := c.rulesOf(i); c.below(2) == 0 || r.Off == 0 {
		r.Rule = uint16(c.below(n - first))
	} else if i+1 < uint32(len(c.rows)) && c.rows[i+1].Off > r.Off {
		r.Off += uint16(c.below(int(c.rows[i+1].Off - r.Off)))
	}
	c.write(inRows, uint64(i)*uint64(unsafe.Sizeof(r)), rawBytes([]Row{r}))
}

// rulesOf returns the indexes of the first rule of a row's table, and of the next table's.
func (c *change) rulesOf(row uint32) (first, next int) {
	next = len(c.rules)
	for _, t := range slices.Backward(c.tables) {
		if t.NumPages > 0 && c.pages[t.Pages].First <= row {
			return int(t.Rules), next
		}
		next = int(t.Rules)
	}
	return 0, next
}

// rule replaces the rule of a row that the walk uses.
func (c *change) rule() {
	if len(c.rowsOf) == 0 {
		return
	}
	i := pick(&c.source, c.rowsOf)
	first, _ := c.rulesOf(i)
	r := c.anyRule()
	c.write(inRules, uint64(first+int(c.rows[i].Rule))*uint64(unsafe.Sizeof(r)), rawBytes([]Rule{r}))
}

// anyRule returns a rule that tables may have.
func (c *change) anyRule() Rule {
	a := abiOf(c.machine)
	reg := func() int16 {
		return pick(&c.source, []int16{0, 3, 9, 10, 12, int16(max(a.lr, 13)), int16(max(a.lr, 2))})
	}
	r := Rule{CFA: CFA(c.below(int(numCFA))), RA: RA(c.below(int(numRA))), FP: FP(c.below(int(numFP))),
		Flags: Flags(c.below(2 * int(FlagFiber))), CFAOff: int32(8 * c.near(20)), CFAOff2: int16(8 * c.near(20)),
		RAOff: -8 * int16(c.below(4)), FPOff: -8 * int16(c.below(6))}
	if r.CFA == CFAReg {
		r.CFAOff2 = reg()
	}
	if r.RA == RAReg {
		r.RAOff = reg()
	}
	if r.FP == FPReg {
		r.FPOff = reg()
	}
	if r.CFA != CFAGoroutine && r.RA == RAGoroutine {
		r.RA = RAAtCFA
	}
	if r.CFA != CFAGoroutine && r.FP == FPGoroutine {
		r.FP = FPAtCFA
	}
	return r
}

// mapping makes a mapping one without a table, or shorter.
func (c *change) mapping() {
	i := c.process.mapping(pick(&c.source, c.frames))
	if i < 0 {
		return
	}
	m, ip := c.maps[i], pick(&c.source, c.frames)
	switch kind := c.below(4); {
	case kind < 2:
		m.Table, m.Bias = []uint32{hostFP, hostMade}[kind], 0
	case kind == 2 && ip > m.Start && ip < m.End:
		m.End = ip
	case kind == 3 && ip > m.Start && ip < m.End:
		m.Start = ip
	}
	c.write(inMaps, uint64(i)*uint64(unsafe.Sizeof(m)), rawBytes([]hostMapping{m}))
}

// TestWalksChanged compares walks whose registers, memory, tables and mappings were changed at random. -walks sets
// their number.
func TestWalksChanged(t *testing.T) {
	for m, name := range hostTargets {
		t.Run(name, func(t *testing.T) {
			list := targets(t, m)
			w := newComparison(t, startHost(t, m))
			for i := range list {
				w.changed(&list[i], rand.New(rand.NewPCG(1, uint64(i))), *numWalks/len(list)+1)
			}
			w.report()
		})
	}
}

// changed compares n changes of a walk, in batches: the two programs exchange data rarely.
func (w *comparison) changed(g *target, rnd *rand.Rand, n int) {
	w.host.load(g.process)
	changes, results := make([]*change, 64), make([]goResult, 64)
	for ; n > 0; n -= len(changes) {
		for i := range changes {
			c := newChange(g, source{rnd: rnd})
			w.host.walk(c.regs, c.patches)
			changes[i], results[i] = c, g.walk(&w.u, c.regs)
			c.revert()
		}
		w.host.flush()
		for i, c := range changes {
			w.compare(c, w.host.next(), results[i])
		}
	}
}

// compare compares the results of a changed walk.
func (w *comparison) compare(c *change, inC result, inGo goResult) {
	w.walks++
	if same(&inC, &inGo) {
		return
	}
	c.apply()
	defer c.revert()
	w.differ(newDifference(c.process, inC, inGo), c.describe())
}

// describe returns the changes.
func (c *change) describe() (s string) {
	for i, v := range c.regs {
		if v != c.target.regs[i] {
			s += fmt.Sprintf("  register %d: %x\n", i, v)
		}
	}
	for _, p := range c.patches {
		s += fmt.Sprintf("  region %d at %x: %x\n", p.region, p.at, p.value)
	}
	return s
}

// FuzzWalks compares changed walks. The numbers select a recorded walk and its changes.
func FuzzWalks(f *testing.F) {
	hosts, lists, loaded := map[bool]*host{}, map[bool][]target{}, map[bool]*process{}
	for m := range hostTargets {
		arm := m == elf.EM_AARCH64
		hosts[arm], lists[arm] = startHost(f, m), targets(f, m)
	}
	f.Add(false, uint16(0), []byte{})
	f.Add(true, uint16(3), []byte{1, 2, 3, 4, 5, 6, 7, 8})
	f.Fuzz(func(t *testing.T, arm bool, walk uint16, numbers []byte) {
		h, list := hosts[arm], lists[arm]
		g := &list[int(walk)%len(list)]
		if h.t = t; loaded[arm] != g.process {
			h.load(g.process)
			loaded[arm] = g.process
		}
		w := newComparison(t, h)
		c := newChange(g, source{bytes: numbers})
		h.walk(c.regs, c.patches)
		h.flush()
		inGo := g.walk(&w.u, c.regs)
		c.revert()
		w.compare(c, h.next(), inGo)
	})
}
