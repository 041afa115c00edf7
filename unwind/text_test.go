package unwind

// The texts of tables and rules, which tests compare.

import (
	"bufio"
	"debug/elf"
	"fmt"
	"io"
	"iter"
	"strconv"
)

// Rows yields all rows by address. A row is valid until the next one.
func (f *CFI) Rows() iter.Seq[*FullRow] {
	return func(yield func(*FullRow) bool) {
		m := machine{f: f}
		var r FullRow
		for i := range f.fdes {
			for m.beginFDE(&f.fdes[i]); m.next(); {
				if r.take(&m); m.end <= f.fdes[i].start {
					continue // outside the FDE
				}
				r.Start = max(r.Start, f.fdes[i].start)
				if !yield(&r) {
					return
				}
			}
		}
	}
}

// text returns a rule as readelf -wF prints it.
func (r RegRule) text(name func(int) string) string {
	switch r.Kind {
	case SameValue:
		return "s"
	case Offset:
		return fmt.Sprintf("c%+d", r.Off)
	case ValOffset:
		return fmt.Sprintf("v%+d", r.Off)
	case Register:
		return name(int(r.Reg))
	case Expression:
		return "exp"
	case ValExpression:
		return "vexp"
	case Signed:
		return "signed"
	}
	return "u"
}

// WriteText writes all rows, grouped by FDE, in the format of readelf -wF:
//
//	FDE pc=0000000000026000..0000000000026370
//	0000000000026000 rsp+16 ra=c-8
//	0000000000026006 rsp+24 rbp=c-16 ra=c-8
//
// It omits unspecified registers.
func (f *CFI) WriteText(w io.Writer) error {
	name := x86Name
	if f.Machine == elf.EM_AARCH64 {
		name = arm64Name
	}
	b := bufio.NewWriter(w)
	next := uint64(0)
	for r := range f.Rows() {
		if e := f.find(r.Start); e.start == r.Start || r.Start != next {
			fmt.Fprintf(b, "FDE pc=%016x..%016x", e.start, e.end)
			if r.Signal {
				b.WriteString(" signal frame")
			}
			b.WriteString("\n")
		}
		next = r.End
		fmt.Fprintf(b, "%016x %s", r.Start, r.cfaText(name))
		for i, reg := range r.Regs {
			if reg.Kind == Unspecified {
				continue
			}
			n := name(i)
			if i == r.RA {
				n = "ra"
			}
			fmt.Fprintf(b, " %s=%s", n, reg.text(name))
		}
		b.WriteString("\n")
	}
	return b.Flush()
}

func (r *FullRow) cfaText(name func(int) string) string {
	switch r.CFA.Kind {
	case Register:
		return fmt.Sprintf("%s%+d", name(int(r.CFA.Reg)), r.CFA.Off)
	case ValExpression:
		return "exp"
	}
	return "none"
}

// WriteText writes one line for each row: its first vaddr and its rule.
//
//	0000000000026000 cfa=rsp+16 ra=c-8 fp=s
//
// It omits rows that only begin a page.
func (t *Table) WriteText(w io.Writer) error {
	b := bufio.NewWriter(w)
	last := -1
	for i, p := range t.Pages {
		for _, r := range t.Rows[p.First : p.First+p.N] {
			if int(r.Rule) != last {
				fmt.Fprintf(b, "%016x %v\n", (t.Base+uint64(i))<<pageBits|uint64(r.Off), t.Rules[r.Rule])
			}
			last = int(r.Rule)
		}
	}
	return b.Flush()
}

// String returns the rule as formulas: "cfa=rsp+16 ra=c-8 fp=c-16".
func (r Rule) String() string {
	var cfa, ra, fp string
	switch r.CFA {
	case CFANone:
		if r.Flags&FlagFramed != 0 {
			return "none framed"
		}
		return "none"
	case CFAUnsupported:
		return "unsupported"
	case CFASignal:
		return "signal"
	case CFARSP:
		cfa = fmt.Sprintf("rsp%+d", r.CFAOff)
	case CFARBP:
		cfa = fmt.Sprintf("rbp%+d", r.CFAOff)
	case CFADerefRSP:
		cfa = fmt.Sprintf("*(rsp%+d)%+d", r.CFAOff, r.CFAOff2)
	case CFADerefRBP:
		cfa = fmt.Sprintf("*(rbp%+d)%+d", r.CFAOff, r.CFAOff2)
	case CFAPLT:
		cfa = fmt.Sprintf("plt(%d)%+d", r.CFAOff2, r.CFAOff)
	case CFAReg:
		cfa = fmt.Sprintf("%s%+d", x86Name(int(r.CFAOff2)), r.CFAOff)
	case CFAGoroutine:
		cfa = fmt.Sprintf("g%+d", r.CFAOff)
	}
	switch r.RA {
	case RAUndefined:
		return "end"
	case RAAtCFA:
		ra = fmt.Sprintf("c%+d", r.RAOff)
	case RAReg:
		ra = x86Name(int(r.RAOff))
	case RAAtSP:
		ra = fmt.Sprintf("*(rsp%+d)", r.RAOff)
	case RAAtFP:
		ra = fmt.Sprintf("*(rbp%+d)", r.RAOff)
	case RAGoroutine:
		ra = "g"
	}
	switch r.FP {
	case FPSame:
		fp = "s"
	case FPAtCFA:
		fp = fmt.Sprintf("c%+d", r.FPOff)
	case FPAtFP:
		fp = fmt.Sprintf("*(rbp%+d)", r.FPOff)
	case FPAtSP:
		fp = fmt.Sprintf("*(rsp%+d)", r.FPOff)
	case FPUndefined:
		fp = "u"
	case FPReg:
		fp = x86Name(int(r.FPOff))
	case FPGoroutine:
		fp = "g"
	}
	s := "cfa=" + cfa + " ra=" + ra + " fp=" + fp
	if r.Flags&FlagSignal != 0 {
		s += " signal"
	}
	if r.Flags&FlagConvention != 0 {
		s += " convention"
	}
	if r.Flags&FlagInferred != 0 {
		s += " inferred"
	}
	return s
}

var x86Names = [...]string{
	"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp",
	"r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rip",
}

// x86Name returns the name of a register by its DWARF number.
func x86Name(n int) string {
	switch {
	case n >= 0 && n < len(x86Names):
		return x86Names[n]
	case n < x86Regs && n > 0:
		return "xmm" + strconv.Itoa(n-17)
	}
	return "r" + strconv.Itoa(n)
}

// i386Name returns the name of a register by its DWARF number.
func i386Name(n int) string {
	names := [...]string{"eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "eip"}
	if n >= 0 && n < len(names) {
		return names[n]
	}
	return "r" + strconv.Itoa(n)
}

// arm64Name returns the name of a register by its DWARF number.
func arm64Name(n int) string {
	switch {
	case n == arm64SP:
		return "sp"
	case n < arm64SP:
		return "x" + strconv.Itoa(n)
	case n >= 64 && n < 96:
		return "v" + strconv.Itoa(n-64)
	}
	return "r" + strconv.Itoa(n)
}

// name returns the name of a register by its DWARF number.
func (a *abi) name(n int) string {
	switch a {
	case &x86ABI:
		return x86Name(n)
	case &i386ABI:
		return i386Name(n)
	}
	return arm64Name(n)
}
