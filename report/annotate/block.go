package annotate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"gperf/internal/dso"
	"gperf/internal/text"
	"gperf/report/annotate/disasm"
	"gperf/symbolize"
	"gperf/symbolize/srcline"
)

// annotator writes functions.
type annotator struct {
	sym    *symbolize.Symbolizer
	opts   *Options
	files  map[sourceKey][]string // lines of source files, nil for files that are missing or not shown
	hidden *HiddenError           // the first file that is not shown
}

// block is a function that is written.
type block struct {
	annotator *annotator
	fn        *function
	code      *symbolize.Code
	insts     []disasm.Inst
	stats     []Stat // by instruction
	base      uint64 // the address of the function
	marked    int    // the instruction that Place leads to, -1 for none
	at        uint64 // the address of Place
	text      []byte

	last srcline.InlineFrame // whose source line was written last
}

// block returns a function's text. The error is a *symbolize.NoCodeError, a
// *disasm.MachineError or an *OffsetError.
func (a *annotator) block(fn *function) (text []byte, err error) {
	b, err := a.prepare(fn)
	if err != nil {
		return nil, err
	}
	b.write()
	return b.text, nil
}

// prepare returns a function's instructions with counts.
func (a *annotator) prepare(fn *function) (b *block, err error) {
	b = &block{annotator: a, fn: fn, marked: -1}
	off, one := a.opts.Place.in(fn)
	start, end := off-min(off, around), off+around
	if s := fn.symbol(); s != nil {
		start, end = fn.start, fn.start+s.End-s.Start
		if one && off >= s.End-s.Start {
			return nil, &OffsetError{a.opts.Place.String(), s.End - s.Start}
		}
	}
	if err := b.read(start, end); err != nil {
		return nil, err
	}
	if fn.symbol() == nil {
		b.skip(int(off - start))
	}
	if b.insts, err = disasm.All(b.code.Machine, b.code.Bytes, b.code.Addr, a.opts.Syntax); err != nil {
		return nil, err
	}
	b.stats = make([]Stat, len(b.insts))
	for spot, stat := range fn.at {
		if i := b.find(spot.off, spot.caller); i >= 0 {
			b.stats[i].add(*stat)
		}
	}
	if one {
		b.at = b.base + off
		b.marked = b.find(off, true)
	}
	return b, nil
}

// around is how much is read on each side of an address that no symbol is known
// of, in bytes.
const around = 128

// read reads the code from start to end, as the function counts.
func (b *block) read(start, end uint64) (err error) {
	switch d := b.fn.dso; {
	case isMade(dso.KindOf(d.Name)):
		err = &symbolize.NoCodeError{DSO: d.Name, Err: ErrMade}
	case b.fn.kernel:
		b.code, err = b.annotator.sym.KernelCode(start, end)
	default:
		b.code, err = b.annotator.sym.UserCode(d.Name, d.BuildID, start, end)
	}
	if err == nil {
		b.base = b.code.Addr + b.fn.start - start
	}
	return err
}

// skip drops the first bytes of code whose function start is unknown, so that an
// instruction begins at offset at.
func (b *block) skip(at int) {
	n := uint64(disasm.Skip(b.code.Machine, b.code.Bytes, min(at, len(b.code.Bytes))))
	b.code.Bytes, b.code.Addr = b.code.Bytes[n:], b.code.Addr+n
}

// ErrMade: the function is a BPF program or JIT code.
var ErrMade = errors.New("generated code is in no file")

// isMade reports whether code is generated at run time: by a process, or as a BPF program.
func isMade(k dso.Kind) bool {
	return k.InMemory() || k == dso.KindPerfMap || k == dso.KindJITDump || k == dso.KindOther
}

// find returns the instruction at an offset in the function: where a call returned
// to, the call. -1 is none.
func (b *block) find(off uint64, caller bool) int {
	addr := b.base + off
	i, _ := slices.BinarySearchFunc(b.insts, addr, func(in disasm.Inst, addr uint64) int {
		return cmp.Compare(in.End(), addr+1)
	})
	if caller && i > 0 && b.insts[i-1].End() == addr && b.insts[i-1].Kind == disasm.Call {
		return i - 1
	}
	if i == len(b.insts) {
		return -1
	}
	return i
}

// value returns the block's column of an instruction.
func (b *block) value(s Stat) string {
	switch b.annotator.opts.Column {
	case Samples:
		return fmt.Sprintf("%8d", s.Samples)
	case Periods:
		return fmt.Sprintf("%12d", s.Period)
	}
	return fmt.Sprintf("%8.2f", b.percent(s))
}

func (b *block) percent(s Stat) float64 {
	total := b.fn.total
	if b.annotator.opts.Percent.Global {
		total = b.fn.event.total
	}
	if b.annotator.opts.Percent.Hits {
		return 100 * share(s.Samples, total.Samples)
	}
	return 100 * share(s.Period, total.Period)
}

// heads are the columns' titles, as wide as the columns.
var heads = map[Column]string{Percents: " Percent |", Samples: " Samples |", Periods: " Period      |"}

// between begins a line that is no instruction.
func (b *block) between() string {
	return strings.Repeat(" ", len(heads[b.annotator.opts.Column])-1) + ": "
}

func (b *block) printf(format string, args ...any) { b.text = fmt.Appendf(b.text, format, args...) }

// printPercent prints a text in the colour of a percentage.
func (b *block) printPercent(text string, percent float64) {
	start := len(b.text)
	b.text = b.annotator.opts.Look.Percent(append(b.text, text...), start, percent)
}

// paint prints in a colour.
func (b *block) paint(color, format string, args ...any) {
	start := len(b.text)
	b.text = b.annotator.opts.Look.Paint(fmt.Appendf(b.text, format, args...), start, color)
}

func (b *block) write() {
	if b.annotator.opts.Lines {
		b.writeSummary()
	}
	b.writeHead()
	if s := b.fn.symbol(); s != nil {
		b.printf("%s%016x <%s>:\n", b.between(), b.base, s.Name)
	}
	from, to := 0, len(b.insts)
	if b.marked >= 0 {
		from, to = max(0, b.marked-b.annotator.opts.Context), min(to, b.marked+b.annotator.opts.Context+1)
	}
	if from > 0 {
		b.printf("%s...\n", b.between())
	}
	for i := from; i < to; i++ {
		b.writeInst(i)
	}
	if to < len(b.insts) {
		b.printf("%s...\n", b.between())
	}
	b.text = append(b.text, '\n')
}

// writeHead writes the title, as perf does where all that counts is the sampled
// instruction.
func (b *block) writeHead() {
	unit := "local"
	if b.annotator.opts.Percent.Global {
		unit = "global"
	}
	of := "period"
	if b.annotator.opts.Percent.Hits {
		of = "hits"
	}
	name := b.fn.dso.Name
	if !b.annotator.opts.FullPaths {
		name = filepath.Base(name)
	}
	head := fmt.Sprintf("%s\tSource code & Disassembly of %s for %s (%d samples%spercent: %s %s)",
		heads[b.annotator.opts.Column], name, b.fn.event.name, b.fn.total.Samples, b.counted(), unit, of)
	b.printf("%s\n%s\n", head, strings.Repeat("-", len(head)+5)) // perf's are longer, too
}

// counted lists the parts of the samples that led to the function.
func (b *block) counted() string {
	if b.fn.kinds == sampled {
		return ", "
	}
	var words []string
	if b.fn.kinds&sampled != 0 {
		words = append(words, "sampled")
	}
	if b.fn.kinds&fields != 0 {
		for _, f := range b.fn.event.fields {
			words = append(words, f.Name)
		}
	}
	if b.fn.kinds&callers != 0 {
		words = append(words, "callers")
	}
	return ": " + strings.Join(words, ", ") + "; "
}

func (b *block) writeInst(i int) {
	in := &b.insts[i]
	call, known := b.lineOf(in)
	if known && !b.annotator.opts.NoSource {
		b.writeSource(call)
	}
	if b.marked >= 0 && in.Addr == b.at {
		b.printf("%s%s:\n", b.between(), b.annotator.opts.Place.String())
	}
	mark := ' '
	if i == b.marked {
		mark = '>'
	}
	b.printPercent(b.value(b.stats[i]), b.percent(b.stats[i]))
	b.printf(" : ")
	b.paint(text.Magenta, "%c %x:", mark, in.Addr)
	b.printf("   ")
	if b.annotator.opts.Raw {
		b.printf("%-30s ", fmt.Sprintf("% x", in.Bytes))
	}
	b.paint(text.Blue, "%s", in.Text(b.code.Name))
	if known && b.annotator.opts.Lines && b.stats[i].Samples > 0 {
		b.printf(" // %s:%d", call.Path(b.annotator.opts.FullPaths), call.Line)
	}
	b.text = append(b.text, '\n')
}

// lineOf returns the innermost source line of an instruction.
func (b *block) lineOf(in *disasm.Inst) (srcline.InlineFrame, bool) {
	var calls []srcline.InlineFrame
	if at := b.fn.start + in.Addr - b.base; b.fn.kernel {
		calls, _ = b.annotator.sym.KernelSource(at)
	} else {
		calls, _ = b.annotator.sym.UserSource(b.fn.dso.Name, b.fn.dso.BuildID, at)
	}
	if len(calls) == 0 || calls[0].File == "" || calls[0].Line == 0 {
		return srcline.InlineFrame{}, false
	}
	return calls[0], true
}

// writeSource writes a source line, unless it is the last one written: the text,
// after the function if that changes, or only file and line if the file is
// missing.
func (b *block) writeSource(c srcline.InlineFrame) {
	last := b.last
	if b.last = c; c.File == last.File && c.Line == last.Line {
		return
	}
	inlined := ""
	if c.Inlined {
		inlined = fmt.Sprintf(", %s (inlined)", c.Function)
	}
	lines := b.linesOf(c.File)
	if c.Line > len(lines) {
		b.printf("%s%s:%d%s\n", b.between(), c.Path(b.annotator.opts.FullPaths), c.Line, inlined)
		return
	}
	if c.File != last.File || c.Inlined != last.Inlined || c.Inlined && c.Function != last.Function {
		b.printf("%s%s%s\n", b.between(), c.Path(b.annotator.opts.FullPaths), inlined)
	}
	b.printf("%s%s\n", b.between(), strings.TrimSpace(fmt.Sprintf("%-4d %s", c.Line,
		strings.TrimSpace(lines[c.Line-1]))))
}

// writeSummary writes the share of each source line, as perf does.
func (b *block) writeSummary() {
	sums := map[string]float64{}
	for i, s := range b.stats {
		if s.Samples == 0 {
			continue
		}
		line := "unknown"
		if c, ok := b.lineOf(&b.insts[i]); ok {
			line = fmt.Sprintf("%s:%d", c.Path(b.annotator.opts.FullPaths), c.Line)
		}
		sums[line] += b.percent(s)
	}
	b.printf("\nSorted summary for file %s\n%s\n\n", b.fn.dso.Name, strings.Repeat("-", 46))
	lines := slices.SortedFunc(maps.Keys(sums), func(x, y string) int {
		return cmp.Or(cmp.Compare(sums[y], sums[x]), cmp.Compare(x, y))
	})
	for _, line := range lines {
		b.printPercent(fmt.Sprintf("%8.2f", sums[line]), sums[line])
		b.printf(" %s\n", line)
	}
}
