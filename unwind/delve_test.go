package unwind

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-delve/delve/pkg/dwarf/frame"

	"gperf/internal/dso"
)

// TestDelve compares every row with the frame package of delve, Go's debugger, which executes
// CFI independently of this package and, unlike readelf, is always there.
func TestDelve(t *testing.T) {
	for name, flags := range map[string][]string{
		".debug_frame": {"-g", "-fno-asynchronous-unwind-tables"},
		"realigned":    {"-g", "-O3", "-mavx2", "-mstackrealign"},
	} {
		t.Run(name, func(t *testing.T) { compareDelve(t, compileWith(t, "gcc", "step.c", flags...)) })
	}
	for _, path := range systemELFs {
		t.Run(path, func(t *testing.T) {
			if _, err := os.Stat(path); err != nil {
				t.Skip(err)
			}
			compareDelve(t, path)
		})
	}
}

func compareDelve(t *testing.T, path string) {
	im, err := dso.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	f, err := NewCFI(im)
	if err != nil {
		t.Fatal(err)
	}
	var fdes frame.FrameDescriptionEntries
	for _, s := range f.secs {
		addr := uint64(0) // .debug_frame
		if s.eh {
			addr = s.addr
		}
		l, err := frame.Parse(s.b, binary.LittleEndian, 0, 8, addr)
		if err != nil {
			t.Fatal(err)
		}
		fdes = fdes.Append(l)
	}
	rows, wrong := 0, 0
	for row := range f.Rows() {
		fde, err := fdes.FDEForPC(row.Start)
		if err != nil {
			t.Fatal(err)
		}
		want, err := fde.EstablishFrame(row.Start)
		if err != nil {
			t.Fatal(err)
		}
		rows++
		if got, want := delveRow(row), delveText(want, len(row.Regs)); got != want {
			if wrong++; wrong <= 10 {
				t.Errorf("%s %#x: %s, delve has %s", filepath.Base(path), row.Start, got, want)
			}
		}
	}
	if wrong > 0 || rows < 20 {
		t.Errorf("%d of %d rows differ", wrong, rows)
	}
}

// delveRow returns the rules of a row. It treats a register without a rule as undefined, because
// delve's DW_CFA_restore does not know the rules of the CIE.
func delveRow(r *FullRow) string {
	var b bytes.Buffer
	rule := func(r RegRule, expr []byte) string {
		switch r.Kind {
		case Offset, ValOffset:
			return fmt.Sprintf("%v%+d", map[RuleKind]string{Offset: "c", ValOffset: "v"}[r.Kind], r.Off)
		case Register:
			return fmt.Sprintf("r%d%+d", r.Reg, r.Off)
		case Expression, ValExpression:
			return fmt.Sprintf("%v%x", map[RuleKind]string{Expression: "e", ValExpression: "ve"}[r.Kind], expr)
		}
		return ""
	}
	cfa := rule(r.CFA, nil)
	if r.CFA.Kind == ValExpression {
		cfa = fmt.Sprintf("e%x", r.Expr(r.CFA))
	}
	fmt.Fprintf(&b, "CFA=%s", cfa)
	for i, reg := range r.Regs {
		var expr []byte
		if reg.Kind == Expression || reg.Kind == ValExpression {
			expr = r.Expr(reg)
		}
		if s := rule(reg, expr); s != "" {
			fmt.Fprintf(&b, " %d=%s", i, s)
		}
	}
	return b.String()
}

// delveText is delveRow for delve's row.
func delveText(c *frame.FrameContext, regs int) string {
	var b bytes.Buffer
	rule := func(r frame.DWRule) string {
		switch r.Rule {
		case frame.RuleCFA, frame.RuleRegister:
			return fmt.Sprintf("r%d%+d", r.Reg, r.Offset)
		case frame.RuleOffset:
			return fmt.Sprintf("c%+d", r.Offset)
		case frame.RuleValOffset:
			return fmt.Sprintf("v%+d", r.Offset)
		case frame.RuleExpression:
			return fmt.Sprintf("e%x", r.Expression)
		case frame.RuleValExpression:
			return fmt.Sprintf("ve%x", r.Expression)
		}
		return ""
	}
	fmt.Fprintf(&b, "CFA=%s", rule(c.CFA))
	for i := range regs {
		if s := rule(c.Regs[uint64(i)]); s != "" {
			fmt.Fprintf(&b, " %d=%s", i, s)
		}
	}
	return b.String()
}
