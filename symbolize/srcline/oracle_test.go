package srcline

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"gperf/symbolize/dso"
)

// llvmSymbolizer returns what LLVM says of addresses.
func llvmSymbolizer(t *testing.T, path string, addrs []uint64) [][]Call {
	t.Helper()
	tool, err := exec.LookPath("llvm-symbolizer")
	if err != nil {
		t.Skip("llvm-symbolizer is not installed (package llvm)")
	}
	var in strings.Builder
	for _, a := range addrs {
		fmt.Fprintf(&in, "%#x\n", a)
	}
	cmd := exec.Command(tool, "--functions=linkage", "--inlines", "--no-demangle", "--obj="+path)
	cmd.Stdin = strings.NewReader(in.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("llvm-symbolizer: %v", err)
	}
	var all [][]Call
	var calls []Call
	for s := bufio.NewScanner(strings.NewReader(string(out))); s.Scan(); {
		if s.Text() == "" {
			all, calls = append(all, calls), nil
			continue
		}
		c := Call{Function: s.Text()}
		s.Scan()
		f := strings.Split(s.Text(), ":")
		n := len(f)
		c.Line, _ = strconv.Atoi(f[n-2])
		c.Column, _ = strconv.Atoi(f[n-1])
		c.File = strings.Join(f[:n-2], ":")
		calls = append(calls, c)
	}
	return all
}

// addr2line returns the name that binutils give to an address, which is DWARF's
// where LLVM shows that of the symbol table.
func addr2line(t *testing.T, path string, addr uint64) string {
	t.Helper()
	out, err := exec.Command("addr2line", "-ife", path, fmt.Sprintf("%#x", addr)).Output()
	if err != nil {
		t.Fatalf("addr2line: %v", err)
	}
	l := strings.Split(strings.TrimSpace(string(out)), "\n")
	return l[len(l)-2]
}

// openIndex returns the index of a file.
func openIndex(t *testing.T, path string) (*Index, *dso.Image) {
	t.Helper()
	im, err := dso.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	x, err := New(im, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x, im
}

// randomCode returns addresses that units claim.
func randomCode(x *Index, n int) []uint64 {
	r := rand.New(rand.NewPCG(1, 2))
	var code []span
	total := uint64(0)
	for i, p := range x.pieces {
		if p.owner >= 0 {
			code = append(code, span{p.addr, x.pieces[i+1].addr})
			total += x.pieces[i+1].addr - p.addr
		}
	}
	addrs := make([]uint64, n)
	for i := range addrs {
		at := r.Uint64N(total)
		for _, s := range code {
			if at < s.hi-s.lo {
				addrs[i] = s.lo + at
				break
			}
			at -= s.hi - s.lo
		}
	}
	return addrs
}

func samePlaces(t *testing.T, path string, n int) {
	t.Helper()
	x, _ := openIndex(t, path)
	addrs := randomCode(x, n)
	theirs := llvmSymbolizer(t, path, addrs)
	bad, asked := 0, 0
	for i, addr := range addrs {
		got, want := x.Lookup(addr), theirs[i]
		same := len(got) == len(want)
		for j := 0; same && j < len(got); j++ {
			g, w := got[j], want[j]
			if g.File == "" {
				g.File = "??"
			}
			same = g.File == w.File && g.Line == w.Line && g.Column == w.Column && g.Inlined == (j < len(got)-1)
			if same && g.Function != w.Function {
				if g.Function == "" && j == len(got)-1 {
					continue
				}
				if j < len(got)-1 || asked > 300 || addr2line(t, path, addr) != g.Function {
					same = false
				}
				asked++
			}
		}
		if len(got) == 0 {
			same = want[0].File == "??"
		}
		if !same {
			if bad++; bad < 10 {
				t.Errorf("%#x:\n got %+v\nwant %+v", addr, got, want)
			}
		}
	}
	t.Logf("%d of %d differ, %d names of symbols", bad, n, asked)
	if err := x.Problem(); err != nil {
		t.Error(err)
	}
}

func TestTry(t *testing.T) {
	path := os.Getenv("TRY")
	if path == "" {
		t.Skip("no TRY")
	}
	samePlaces(t, path, 10000)
}
