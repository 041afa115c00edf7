package args

import (
	"encoding/binary"
	"fmt"
	"testing"

	"gperf/internal/dwarf"
)

// testFrame is at a function's first instruction, with CFA rsp+8 and frame base rbp-16.
func testFrame() *frame {
	return &frame{machine: machines["amd64"], addrSize: 8, entry: true,
		cfa:   func() (term, error) { return term{base: "%sp", off: 8}, nil },
		base:  func() (term, error) { return term{base: "%bp", off: -16}, nil },
		addrs: dwarf.Table{B: []byte{0, 0, 5, 0x10}, Size: 2}}
}

func TestLocation(t *testing.T) {
	for _, c := range []struct {
		name string
		expr []byte
		want string
	}{
		{"reg5", []byte{dwarf.OpReg0 + 5}, "%di"},
		{"regx 9", []byte{dwarf.OpRegx, 9}, "%r9"},
		{"reg17, a vector register", []byte{dwarf.OpReg0 + 17}, "error: it is in register 17 (DWARF), which probes cannot read"},
		{"breg7+24", []byte{dwarf.OpBreg0 + 7, 24}, "24(%sp)"},
		{"bregx 6-8", []byte{dwarf.OpBregx, 6, 0x78}, "-8(%bp)"},
		{"fbreg-24", []byte{dwarf.OpFbreg, 0x68}, "-40(%bp)"},
		{"CFA+16", []byte{dwarf.OpCallFrameCFA, dwarf.OpPlusUconst, 16}, "24(%sp)"},
		{"sum the other way round", []byte{dwarf.OpLit0 + 16, dwarf.OpCallFrameCFA, dwarf.OpPlus}, "24(%sp)"},
		{"difference", []byte{dwarf.OpCallFrameCFA, dwarf.OpConst1u, 16, dwarf.OpMinus}, "-8(%sp)"},
		{"deref", []byte{dwarf.OpFbreg, 0, dwarf.OpDeref, dwarf.OpPlusUconst, 4}, "4(-16(%bp))"},
		{"address", []byte{dwarf.OpAddr, 0, 0x20, 0, 0, 0, 0, 0, 0}, "8192()"},
		{"address by index", []byte{dwarf.OpAddrx, 1}, "4101()"},
		{"a register's value", []byte{dwarf.OpBreg0 + 3, 0, dwarf.OpStackValue}, "%bx"},
		{"a constant", []byte{dwarf.OpConst1s, 0xff, dwarf.OpStackValue}, `\-1`},
		{"a long constant", []byte{dwarf.OpImplicitValue, 4, 1, 0, 0, 0}, `\1`},
		{"computed", []byte{dwarf.OpBreg0 + 3, 1, dwarf.OpStackValue}, "error: " + errComputed.Error()},
		{"entry value", []byte{dwarf.OpEntryValue, 1, dwarf.OpReg0 + 4, dwarf.OpStackValue}, "%si"},
		{"thread-local", []byte{dwarf.OpConst1u, 8, dwarf.OpFormTLSAddress}, "error: " + errTLS.Error()},
		{"nothing", nil, "error: " + errOut.Error()},
		{"half", []byte{dwarf.OpAddr, 1}, "error: " + errDamaged.Error()},
		{"a Go string", []byte{dwarf.OpReg0, dwarf.OpPiece, 8, dwarf.OpReg0 + 3, dwarf.OpPiece, 8}, "[8 %ax 8 %bx]"},
		{"a Go string of lost length", []byte{dwarf.OpReg0, dwarf.OpPiece, 8, dwarf.OpPiece, 8}, "[8 %ax 8 error: " + errOut.Error() + "]"},
		{"a piece that no probe can read", []byte{dwarf.OpReg0 + 17, dwarf.OpPiece, 8, dwarf.OpReg0, dwarf.OpPiece, 8}, "[8 error: it is in register 17 (DWARF), which probes cannot read 8 %ax]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := testFrame().locate(c.expr)
			if got := show(w, err); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	later := testFrame()
	later.entry = false
	if _, err := later.locate([]byte{dwarf.OpEntryValue, 1, dwarf.OpReg0 + 4, dwarf.OpStackValue}); err != errEntry {
		t.Errorf("an entry value after the entry: %v, want %v", err, errEntry)
	}
}

func show(w Where, err error) string {
	switch {
	case err != nil:
		return "error: " + err.Error()
	case w.Pieces != nil:
		s := ""
		for _, p := range w.Pieces {
			s += fmt.Sprintf(" %d %s", p.Size, show(p.Where, p.Err))
		}
		return "[" + s[1:] + "]"
	case w.Mem:
		return fmt.Sprintf("%d(%s)", w.Off, w.Base)
	}
	return w.Base
}

func FuzzLocation(f *testing.F) {
	f.Add([]byte{dwarf.OpReg0, dwarf.OpPiece, 8, dwarf.OpReg0 + 3, dwarf.OpPiece, 8})
	f.Add([]byte{dwarf.OpEntryValue, 3, dwarf.OpEntryValue, 1, dwarf.OpReg0, dwarf.OpStackValue})
	f.Add([]byte{dwarf.OpFbreg, 0x80, 0x80, dwarf.OpDeref, dwarf.OpPlusUconst, 0xff, 0xff, 0x03})
	f.Fuzz(func(t *testing.T, expr []byte) {
		w, err := testFrame().locate(expr)
		if err == nil && w.Base == "" && !w.Mem && w.Pieces == nil {
			t.Errorf("%x is nowhere, without an error", expr)
		}
	})
}

func FuzzLocationList(f *testing.F) {
	f.Add([]byte{dwarf.LocationOffsetPair, 0, 16, 1, dwarf.OpReg0, dwarf.LocationEnd}, true)
	f.Add([]byte{dwarf.LocationStartxLength, 0, 16, 1, dwarf.OpReg0, dwarf.LocationDefault, 1, dwarf.OpReg0,
		dwarf.LocationEnd}, true)
	f.Add(append(make([]byte, 8), 8, 0, 0, 0, 0, 0, 0, 0, 1, 0, dwarf.OpReg0), false)
	f.Fuzz(func(t *testing.T, list []byte, five bool) {
		s := sections{loc: list, loclists: list, addr: list}
		w := within{unit: unit{version: 4, offsetSize: 4}, addrSize: 8}
		if five {
			w.version = 5
		}
		if expr, err := s.list(w, 0, 4); err == nil && len(expr) > len(list) {
			t.Errorf("an expression of %d bytes in %d", len(expr), len(list))
		}
		s.listx(w, 1, 4)
		unitsOf(list, s.big)
	})
}

func TestLocationList(t *testing.T) {
	le := binary.LittleEndian
	eight := func(v ...uint64) (b []byte) {
		for _, n := range v {
			b = le.AppendUint64(b, n)
		}
		return b
	}
	four := sections{loc: append(append(append(eight(0, 16), 1, 0, dwarf.OpReg0),
		append(eight(^uint64(0), 0x2000, 0, 16), 1, 0, dwarf.OpReg0+1)...), eight(0, 0)...)}
	five := sections{addr: eight(0x1000, 0x2000), loclists: []byte{
		dwarf.LocationViewPair, 0, 0, dwarf.LocationOffsetPair, 0, 16, 1, dwarf.OpReg0, dwarf.LocationBaseAddressx, 1, dwarf.LocationOffsetPair, 0, 16, 1, dwarf.OpReg0 + 1,
		dwarf.LocationStartxLength, 0, 32, 1, dwarf.OpReg0 + 2, dwarf.LocationEnd}}
	for _, c := range []struct {
		name    string
		s       sections
		version int
		pc      uint64
		want    byte
	}{
		{"4, of the unit", four, 4, 0x100f, dwarf.OpReg0},
		{"4, of a base of its own", four, 4, 0x2000, dwarf.OpReg0 + 1},
		{"4, nowhere", four, 4, 0x1010, 0},
		{"5, of the unit", five, 5, 0x100f, dwarf.OpReg0},
		{"5, of a base of its own", five, 5, 0x2000, dwarf.OpReg0 + 1},
		{"5, by index and length", five, 5, 0x1010, dwarf.OpReg0 + 2},
		{"5, nowhere", five, 5, 0x1020, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := within{unit: unit{version: c.version, offsetSize: 4}, addrSize: 8, low: 0x1000}
			expr, err := c.s.list(w, 0, c.pc)
			switch {
			case c.want == 0 && err != errNotHere:
				t.Errorf("%x, %v, want %v", expr, err, errNotHere)
			case c.want != 0 && (err != nil || len(expr) != 1 || expr[0] != c.want):
				t.Errorf("%x, %v, want %x", expr, err, c.want)
			}
		})
	}
}
