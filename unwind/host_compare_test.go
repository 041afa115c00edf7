//go:build linux

package unwind

import (
	"debug/elf"
	"fmt"
	"maps"
	"slices"
	"testing"
)

// hostEndOf are the ends in C for the reasons in Go.
var hostEndOf = [NumReasons]hostEnd{
	EndOfStack: hostEntry, NoMapping: hostNoMapping, NoTable: hostFramePtr, NoRule: hostNoRule,
	Unreadable: hostUnreadable, Depth: hostDepth, NoProgress: hostUnreadable, ZeroReturn: hostZero,
}

// end returns the end of a walk in Go as C reports it.
func (g *goResult) end() hostEnd {
	if g.again {
		return hostUnsupported
	}
	return hostEndOf[g.why]
}

func same(c *result, g *goResult) bool { return c.end == g.end() && slices.Equal(c.frames, g.frames) }

// difference is a walk with different results in C and in Go.
type difference struct {
	*process
	c result
	g goResult

	common int    // number of equal frames, from the innermost on
	rule   Rule   // of the last of these
	table  uint32 // of its mapping
	entry  bool   // it is at the entry point of its program
}

// newDifference finds the last frame at which two results are the same.
func newDifference(p *process, c result, g goResult) *difference {
	d := &difference{process: p, c: c, g: g, table: hostPending}
	for n := min(len(c.frames), len(g.frames)); d.common < n && c.frames[d.common] == g.frames[d.common]; {
		d.common++
	}
	f := d.frame(d.common - 1)
	if m, _ := p.place(f); m != nil {
		d.rule, _ = p.ruleOf(f)
		d.table = m.Table
		d.entry = m.Table < uint32(len(p.tables)) && f.IP-m.Bias-p.tables[m.Table].Entry < hostEntrySize
	}
	return d
}

// hostEntrySize is ENTRY_SIZE of bpf/code.h.
const hostEntrySize = 64

// frame returns a frame of both walks. In a result, Return is false also for the code to which a signal's handler
// returns.
func (d *difference) frame(n int) (f Frame) {
	for i := range n + 1 {
		interrupts := i > 0 && f.Return && !d.g.raw[i-1].Return
		if i > 0 && !f.Return {
			r, _ := d.ruleOf(f)
			interrupts = r.CFA == CFASignal || r.CFA != CFANone && r.Flags&FlagSignal != 0
		}
		f = Frame{IP: d.g.raw[i].IP, Return: i > 0 && !interrupts}
	}
	return f
}

// inC and inGo report whether the walk ended at the last common frame.
func (d *difference) inC() bool  { return len(d.c.frames) == d.common }
func (d *difference) inGo() bool { return len(d.g.frames) == d.common }

// afterSignal reports whether a signal interrupted a common frame.
func (d *difference) afterSignal() bool {
	for n := range d.common {
		if r, _ := d.ruleOf(d.frame(n)); r.CFA == CFASignal {
			return true
		}
	}
	return false
}

// uncovered reports whether a rule is that of code without CFI, or leads there.
func (r *Rule) uncovered() bool {
	return r.CFA == CFANone || r.RA == RAReg && r.Flags&FlagConvention != 0
}

// accepted are the differences between the walks that are meant to be, each with its reason.
var accepted = []struct {
	why string
	is  func(d *difference) bool
}{
	{"C counts the frames before it looks for the caller of the last one", func(d *difference) bool {
		return d.c.end == hostDepth && d.common == hostFrames
	}},
	{"C knows the entry point of a program also where no row covers it: all tables have such a row", func(d *difference) bool {
		return d.c.end == hostEntry && d.inC() && d.entry && d.rule.uncovered()
	}},
	{"C keeps a register that functions need not preserve, Go asks for full CFI", func(d *difference) bool {
		return d.g.again && d.inGo() && d.rule.CFA == CFAReg && d.scratch(int(d.rule.CFAOff2))
	}},
	{"Go asks for full CFI if the frame pointer is not known: copies of stacks may begin above it", func(d *difference) bool {
		return d.g.again && d.inGo() && d.rule.CFA == CFARBP && d.rule.Flags&FlagConvention != 0
	}},
	{"C does not keep the registers of code that a signal interrupted", func(d *difference) bool {
		r := d.rule
		return d.common > 1 && !d.frame(d.common-1).Return && (r.RA == RAReg && r.uncovered() ||
			d.inC() && d.c.end == hostUnsupported && (r.CFA == CFAReg || r.RA == RAReg || r.FP == FPReg))
	}},
	{"C finds the goroutine by the sampled registers, not by those of code that a signal interrupted", func(d *difference) bool {
		return d.rule.CFA == CFAGoroutine && d.afterSignal()
	}},
	{"C reads words of Go's structs as 0 if it cannot read them", func(d *difference) bool {
		return d.rule.CFA == CFAGoroutine && d.inGo() && (d.g.why == Unreadable || d.inC() && d.c.end != hostEntry)
	}},
	{"only C reports a frame pointer that leads to a call in no mapping", func(d *difference) bool {
		return d.c.end == hostNoMapping && d.inC() && d.inGo() && (d.g.why == NoTable || d.g.why == NoRule)
	}},
	{"Go reads all registers that a signal's handler saved, C those it keeps: they may be on two pages", func(d *difference) bool {
		return d.rule.CFA == CFASignal && d.inGo() && d.g.why == Unreadable
	}},
	{"Go has one reason for the end in code of HotSpot", func(d *difference) bool {
		return d.table == hostHotSpot && d.inC() && d.inGo() && d.g.why == NoRule && d.c.end >= hostNoRule
	}},
}

// scratch reports whether functions need not preserve a register: is_scratch of bpf/x86.h and bpf/arm64.h.
func (d *difference) scratch(reg int) bool {
	if d.machine == elf.EM_AARCH64 {
		return reg < 18
	}
	return reg < 12 && (x86ABI.saved|1<<x86RSP)>>reg&1 == 0
}

// comparison compares walks.
type comparison struct {
	t        testing.TB
	host     *host
	u        Unwinder
	walks    int
	accepted map[string]int // number of accepted differences, by reason
	failed   int
}

func newComparison(t testing.TB, h *host) *comparison {
	return &comparison{t: t, host: h, accepted: map[string]int{}}
}

// maxReported is the number of differences that a test reports in detail.
const maxReported = 5

// differ counts a difference, and reports it unless it is accepted.
func (w *comparison) differ(d *difference, changes string) {
	for _, a := range accepted {
		if a.is(d) {
			w.accepted[a.why]++
			return
		}
	}
	if w.failed++; w.failed > maxReported {
		return
	}
	inC, inGo := fmt.Sprint(d.c.end, d.tail(d.c.frames)), fmt.Sprint(d.g.why, ", again ", d.g.again, d.tail(d.g.frames))
	w.t.Errorf("%s: the walks differ after %d frames, at the rule %v (table %#x)\nin C:  %s\nin Go: %s\n%s",
		d.name, d.common, d.rule, d.table, inC, inGo, changes)
}

// tail formats the frames around the first different one.
func (d *difference) tail(frames []uint64) string {
	const around = 4
	return hexes(frames[min(max(d.common-around, 0), len(frames)):min(d.common+around, len(frames))])
}

// report prints the numbers of walks and of differences.
func (w *comparison) report() {
	w.t.Logf("%d walks", w.walks)
	for _, why := range slices.Sorted(maps.Keys(w.accepted)) {
		w.t.Logf("%d accepted: %s", w.accepted[why], why)
	}
	if w.failed > maxReported {
		w.t.Errorf("%d walks differ", w.failed)
	}
}

// TestWalks compares the walks of the recorded stacks in C, in Go, and when they were recorded; -update records their
// results again.
func TestWalks(t *testing.T) {
	for m, name := range hostTargets {
		t.Run(name, func(t *testing.T) {
			w := newComparison(t, startHost(t, m))
			missing := maps.Clone(capturedKinds[m])
			for _, file := range captures(t, m) {
				c, err := readCapture(file)
				if err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				for i := range c.Stops {
					w.recorded(c.process(file, &c.Stops[i]), missing)
				}
				if *update {
					if err := c.write(file); err != nil {
						t.Fatal(err)
					}
				}
			}
			w.report()
			for what := range missing {
				t.Errorf("no recorded walk has a frame of kind %s", what)
			}
		})
	}
}

// capturedKinds are kinds of frames that recorded walks have: see kind.
var capturedKinds = map[elf.Machine]map[string]bool{
	elf.EM_X86_64: {"none": true, "sp": true, "fp": true, "plt": true, "signal": true, "inferred": true, "made": true,
		"hotspot": true},
	elf.EM_AARCH64: {"sp": true, "fp": true, "signal": true},
}

var cfaKinds = [numCFA]string{CFANone: "none", CFARSP: "sp", CFARBP: "fp", CFADerefRSP: "*sp", CFADerefRBP: "*fp",
	CFAPLT: "plt", CFAReg: "reg", CFASignal: "signal", CFAGoroutine: "goroutine"}

// kind describes how the caller of a frame is found.
func (p *process) kind(f Frame) string {
	r, m := p.ruleOf(f)
	switch {
	case m == nil:
		return ""
	case m.Code != nil:
		return "hotspot"
	case m.Made:
		return "made"
	case r.Flags&FlagInferred != 0:
		return "inferred"
	}
	return cfaKinds[r.CFA]
}

// recorded compares the recorded walks of a process, and removes the kinds of their frames from missing.
func (w *comparison) recorded(p *process, missing map[string]bool) {
	w.host.load(p)
	for i := range p.threads {
		th := &p.threads[i]
		w.host.walk(th.Regs, nil)
		w.host.flush()
		c, g := w.host.next(), p.walk(&w.u, th.Regs)
		if w.walks++; !same(&c, &g) {
			w.differ(newDifference(p, c, g), "")
		}
		if *update {
			th.Want, th.End = g.frames, g.end()
		}
		if th.End != g.end() || !slices.Equal(th.Want, g.frames) {
			w.t.Errorf("%s: %v%s\nrecorded: %v%s", p.name, g.end(), hexes(g.frames), th.End, hexes(th.Want))
		}
		for _, f := range g.raw {
			delete(missing, p.kind(f))
		}
	}
}
