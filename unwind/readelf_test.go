package unwind

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gperf/internal/dso"
)

// readelfFDE is an FDE as readelf -wF prints it.
type readelfFDE struct {
	debugFrame bool
	start, end uint64
	rows       []readelfRow
}

// readelfRow has the columns' texts by name: "CFA", "rbp", "ra".
type readelfRow struct {
	loc  uint64
	cols []string // parallel to names
	name []string
}

func (r readelfRow) col(name string) string {
	for i, n := range r.name {
		if n == name {
			return r.cols[i]
		}
	}
	return ""
}

// readelf calls fn for every FDE that readelf -wF finds in a file.
func readelf(t testing.TB, path string, fn func(*readelfFDE)) {
	t.Helper()
	bin, err := exec.LookPath("readelf")
	if err != nil {
		t.Skip("readelf is missing: install binutils")
	}
	cmd := exec.Command(bin, "-wFN", path)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	parseReadelf(out, fn)
	io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		t.Logf("readelf: %v", err)
	}
}

func parseReadelf(r io.Reader, fn func(*readelfFDE)) {
	var (
		fde   *readelfFDE
		cies  = map[string]*readelfFDE{} // a CIE is kept as the FDE that adds nothing to it
		names []string
		debug bool
		flush = func() {
			if fde != nil && fde.start < fde.end {
				fn(fde)
			}
			fde = nil
		}
	)
	for sc := bufio.NewScanner(r); sc.Scan(); {
		f := slices.DeleteFunc(strings.Fields(sc.Text()), func(s string) bool { return s[0] == '(' })
		switch {
		case strings.HasPrefix(sc.Text(), "Contents of the"):
			flush()
			clear(cies)
			debug = strings.Contains(sc.Text(), "debug_frame")
		case len(f) >= 6 && f[3] == "FDE":
			flush()
			pc := strings.TrimPrefix(f[5], "pc=")
			lo, hi, _ := strings.Cut(pc, "..")
			fde = &readelfFDE{debugFrame: debug, start: hexNum(lo), end: hexNum(hi)}
			cie := cies[strings.TrimPrefix(f[4], "cie=")]
			if cie == nil || len(cie.rows) == 0 {
				continue
			}
			// Only FDEs with instructions have rows printed.
			row := cie.rows[len(cie.rows)-1]
			row.loc = fde.start
			fde.rows = append(fde.rows, row)
		case len(f) >= 4 && f[3] == "CIE":
			flush()
			fde = &readelfFDE{}
			cies[f[0]] = fde
		case len(f) > 1 && f[0] == "LOC":
			names = f[1:]
		case fde != nil && len(f) == len(names)+1 && f[1] != "ZERO":
			loc := hexNum(f[0])
			if n := len(fde.rows); n > 0 && fde.rows[n-1].loc == loc {
				fde.rows = fde.rows[:n-1] // an advance by 0
			}
			fde.rows = append(fde.rows, readelfRow{loc, f[1:], names})
		}
	}
	flush()
}

func hexNum(s string) uint64 {
	n, _ := strconv.ParseUint(s, 16, 64)
	return n
}

// systemELFs are compared with readelf by default, if they are there.
var systemELFs = []string{
	"/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6",
	"/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2",
	"/lib/aarch64-linux-gnu/libc.so.6", "/lib/ld-linux-aarch64.so.1",
	"/usr/aarch64-linux-gnu/lib/libc.so.6", "/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1",
	"/usr/aarch64-linux-gnu/lib/libstdc++.so.6",
}

// TestReadelf compares every row and every rule with readelf -wF. GPERF_ELF
// names further files, separated by colons.
func TestReadelf(t *testing.T) {
	files := append([]string{}, systemELFs...)
	if v := os.Getenv("GPERF_ELF"); v != "" {
		files = append(files, filepath.SplitList(v)...)
	}
	seen := map[string]bool{}
	for _, path := range files {
		real, err := filepath.EvalSymlinks(path)
		if err != nil || seen[real] {
			continue
		}
		seen[real] = true
		t.Run(filepath.Base(path), func(t *testing.T) { compareReadelf(t, path) })
	}
	if len(seen) == 0 {
		t.Skip("none of the C libraries that this test knows is here; GPERF_ELF names files")
	}
}

// TestReadelfCompiled does the same with the .debug_frame of compilers, with CIEs of
// several versions.
func TestReadelfCompiled(t *testing.T) {
	for _, p := range []struct {
		name, cc string
		flags    []string
	}{
		{"gcc", "gcc", []string{"-g", "-fno-asynchronous-unwind-tables"}},
		{"gcc compressed", "gcc", []string{"-g", "-fno-asynchronous-unwind-tables", "-gz"}},
		{"gcc stack realigned", "gcc", []string{"-g", "-O3", "-mavx2", "-mstackrealign"}},
		{"gcc 64-bit DWARF", "gcc", []string{"-g", "-fno-asynchronous-unwind-tables", "-gdwarf64"}},
		{"clang", "clang", []string{"-gdwarf-5", "-fno-asynchronous-unwind-tables"}},
		{"clang 64-bit DWARF", "clang", []string{"-gdwarf-5", "-gdwarf64", "-fno-asynchronous-unwind-tables"}},
	} {
		t.Run(p.name, func(t *testing.T) {
			compareReadelf(t, compileWith(t, p.cc, "step.c", p.flags...))
		})
	}
}

func compareReadelf(t *testing.T, path string) {
	im, err := dso.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	f, err := NewCFI(im)
	if err != nil {
		t.Fatal(err)
	}
	table := f.Table()
	byStart := map[uint64]*fde{}
	for i := range f.fdes {
		byStart[f.fdes[i].loc] = &f.fdes[i]
	}
	var (
		fdes, rows, absent, bad int
		m                       = machine{f: f}
		used                    = map[*fde]bool{}
	)
	readelf(t, path, func(w *readelfFDE) {
		e := byStart[w.start]
		if e == nil || f.secs[f.cies[e.cie].sec].eh == w.debugFrame {
			absent++
			return
		}
		fdes++
		used[e] = true
		if bad > 20 {
			return
		}
		var i int
		for m.beginFDE(e); m.next(); i++ {
			if i >= len(w.rows) || w.rows[i].loc != m.start {
				bad++
				t.Errorf("FDE %#x: a row at %#x that readelf has not", e.start, m.start)
				return
			}
			rows++
			if msg := m.differs(w.rows[i]); msg != "" {
				bad++
				t.Errorf("FDE %#x row %#x: %s", e.start, m.start, msg)
			}
			for _, at := range []uint64{max(m.start, e.start), m.end - 1} {
				if at < e.start || f.goFP {
					continue
				}
				if got := table.Lookup(at); !f.abi.sameRule(got, w.rows[i]) {
					bad++
					t.Errorf("rule at %#x: %v, readelf has %v %v", at, got, w.rows[i].name, w.rows[i].cols)
				}
			}
		}
		if i < len(w.rows) && w.rows[i].loc < e.end {
			bad++
			t.Errorf("FDE %#x: no row at %#x, which readelf has", e.start, w.rows[i].loc)
		}
	})
	if len(used) != len(f.fdes) {
		t.Errorf("%d FDEs, of which readelf has %d", len(f.fdes), len(used))
	}
	if absent > int(f.Outside)+int(f.Damaged) {
		t.Errorf("%d FDEs of readelf are missing; outside of code %d, damaged %d", absent, f.Outside, f.Damaged)
	}
	t.Logf("%d FDEs, %d rows equal; %d FDEs of readelf cover no code", fdes, rows, absent)
	t.Logf("table: %d rows, %d rules, %.2f bytes a row, %+v",
		len(table.Rows), len(table.Rules), float64(table.Bytes())/float64(len(table.Rows)), table.Stats)
}

// differs compares the machine's state with a row of readelf.
func (m *machine) differs(w readelfRow) string {
	name := m.f.abi.name
	var r FullRow
	r.take(m)
	want := map[string]string{}
	for i, n := range w.name {
		want[n] = w.cols[i]
	}
	if got := r.cfaText(name); got != want["CFA"] {
		return fmt.Sprintf("CFA %s, readelf has %s", got, want["CFA"])
	}
	for i, reg := range r.Regs {
		n := name(i)
		if i == r.RA {
			n = "ra"
		}
		if reg.Kind == Signed {
			continue
		}
		wantReg, ok := want[n]
		if !ok {
			wantReg = "u"
		}
		if got := reg.text(number); got != wantReg {
			return fmt.Sprintf("%s %s, readelf has %s", n, got, wantReg)
		}
	}
	return ""
}

// number names a register as readelf does for a value.
func number(n int) string { return fmt.Sprintf("r%d", n) }

// sameRule reports whether the rule is the one that readelf's columns describe.
func (a *abi) sameRule(r Rule, w readelfRow) bool {
	cfa, ra, fp, sp := w.col("CFA"), w.col("ra"), w.col(a.name(a.fp)), w.col(a.name(a.sp))
	if ra == "u" && a.lr >= 0 && r.RA == RAReg || ra == "" && a.lr >= 0 { // readelf prints u, too, for unspecified
		ra = number(a.lr)
	}
	if ra == "u" || ra == "" {
		return r == ruleEnd
	}
	if sp != "" && sp != "u" && r.CFA != CFASignal {
		return r == ruleUnsupported
	}
	large := a.lr >= 0 && r.CFAOff > 1<<15 // offsets from the CFA that do not fit are from sp or fp
	if large && r.RA != RAReg {
		return (r.RA == RAAtSP || r.RA == RAAtFP) && ra == fmt.Sprintf("c%+d", int(r.RAOff)-int(r.CFAOff))
	}
	if r == ruleUnsupported {
		return cfa == "exp" || ra == "exp" || fp == "exp" || fp == "vexp" || strings.HasPrefix(fp, "v")
	}
	var wantFP, wantCFA bool
	switch r.FP {
	case FPSame:
		wantFP = fp == "" || fp == "s" || fp == "u"
	case FPUndefined:
		wantFP = fp == "u"
	case FPAtCFA:
		wantFP = fp == fmt.Sprintf("c%+d", r.FPOff)
	case FPReg:
		wantFP = fp == number(int(r.FPOff))
	case FPAtFP, FPAtSP:
		wantFP = fp == "exp"
	}
	switch r.CFA {
	case CFARSP:
		wantCFA = cfa == fmt.Sprintf("%s%+d", a.name(a.sp), r.CFAOff)
	case CFARBP:
		wantCFA = cfa == fmt.Sprintf("%s%+d", a.name(a.fp), r.CFAOff)
	case CFAReg:
		wantCFA = cfa == fmt.Sprintf("%s%+d", a.name(int(r.CFAOff2)), r.CFAOff)
	case CFASignal:
		return cfa == "exp" && ra == "exp" && fp == "exp"
	case CFAPLT, CFADerefRBP, CFADerefRSP:
		wantCFA = cfa == "exp"
	}
	wantRA := r.RA == RAAtCFA && ra == fmt.Sprintf("c%+d", r.RAOff) ||
		r.RA == RAReg && (ra == number(int(r.RAOff)) || ra == "s" || a.lr >= 0 && int(r.RAOff) != a.lr)
	return wantFP && wantCFA && wantRA
}
