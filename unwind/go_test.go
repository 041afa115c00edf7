package unwind

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gperf/internal/dso"
)

// goDrops returns a Go program for a machine, linked with these flags.
func goDrops(t *testing.T, goarch, ldflags string) *dso.Image {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "drops")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags="+ldflags, "-o", exe, "../internal/testutil/drops")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+goarch)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("go cannot build: %v\n%s", err, out)
	}
	im, err := dso.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { im.Close() })
	return im
}

// goSymbols returns the symbols of a Go program's functions by name.
func goSymbols(t *testing.T, im *dso.Image) map[string]elf.Symbol {
	t.Helper()
	f, err := elf.Open(im.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]elf.Symbol{}
	for _, s := range symbols {
		list[strings.TrimSuffix(s.Name, ".abi0")] = s
	}
	return list
}

// Go's outermost functions have no caller, whatever their CFI says; and where functions change to another stack, the
// goroutine's registers or the frame pointer decide.
func TestGoOutermost(t *testing.T) {
	whole := []string{"runtime.goexit", "runtime.mstart", "runtime.rt0_go"} // from their first instruction on
	for _, goarch := range []string{"amd64", "arm64"} {
		im := goDrops(t, goarch, "")
		table, err := Build(im)
		if err != nil {
			t.Fatal(err)
		}
		symbols := goSymbols(t, im)
		grows := Rule{CFA: CFAGoroutine, CFAOff2: goCurg, RA: RAGoroutine, FP: FPGoroutine, FPOff: goBP,
			Flags: FlagConvention}
		last := uint64(4) // the last instruction that surely runs is a call of abort, after newstack's
		rules := map[string]Rule{"runtime.goexit": ruleEntry, "runtime.mstart": ruleEntry,
			"runtime.rt0_go": ruleEntry, "runtime.morestack": grows, "runtime.mcall": ruleEntry,
			"gogo": ruleCut}
		if goarch == "amd64" { // on arm64, the kernel sets sp of a new thread
			rules["runtime.clone"] = ruleEntry
		}
		for name, want := range rules {
			s, ok := symbols[name]
			if !ok {
				t.Errorf("%s: no %s", goarch, name)
				continue
			}
			if got := table.Lookup(s.Value + s.Size - last); got != want {
				t.Errorf("%s: %s: %v, want %v", goarch, name, got, want)
			}
			if got := table.Lookup(s.Value); got == want != slices.Contains(whole, name) {
				t.Errorf("%s: at the start of %s: %v", goarch, name, got)
			}
		}
		if got := table.Lookup(symbols["runtime.asyncPreempt"].Value); goarch == "amd64" && got.Flags&FlagSignal == 0 {
			t.Errorf("asyncPreempt: %v: its caller has not called it", got)
		}
	}
}

// Between loading a goroutine's sp and jumping to it, the walk is cut: the CFI shows a caller that is none.
func TestGoResumes(t *testing.T) {
	im := goDrops(t, "amd64", "")
	table, err := Build(im)
	if err != nil {
		t.Fatal(err)
	}
	gogo := goSymbols(t, im)["gogo"]
	const sp = 0xc000010000
	mem := &Stack{Addr: sp}
	for range 8 { // every word looks like a return address
		mem.Bytes = binary.LittleEndian.AppendUint64(mem.Bytes, gogo.Value+1)
	}
	regs := NewRegs(elf.EM_X86_64, gogo.Value+gogo.Size-2, sp, sp)
	o := NewObject(table, func() (*CFI, error) { return NewCFI(im) })
	var u Unwinder
	frames, why := u.Walk(nil, &regs, mem, &space1{Mapping{End: 1 << 40, Object: o}})
	if len(frames) != 1 || why != NoRule {
		t.Errorf("%d frames, reason %v: %v", len(frames), why, frames)
	}
}

// A program without DWARF has the same rules: its table of functions contains the same rules as .debug_frame.
func TestGoWithoutDWARF(t *testing.T) {
	for _, goarch := range []string{"amd64", "arm64"} {
		with := goDrops(t, goarch, "")
		a, err := Build(with)
		if err != nil {
			t.Fatal(err)
		}
		for _, flags := range []string{"-w", "-s -w"} {
			b, err := Build(goDrops(t, goarch, flags))
			if err != nil {
				t.Fatal(err)
			}
			n, wrong := 0, 0
			for _, s := range goSymbols(t, with) {
				for at := s.Value; elf.ST_TYPE(s.Info) == elf.STT_FUNC && at < s.Value+s.Size; at++ {
					if n++; a.Lookup(at) != b.Lookup(at) {
						if wrong++; wrong < 5 {
							t.Errorf("%s, %s: %s+%d: %v, want %v", goarch, flags, s.Name, at-s.Value, b.Lookup(at),
								a.Lookup(at))
						}
					}
				}
			}
			if n < 100_000 || wrong > 0 {
				t.Errorf("%s, %s: %d of %d addresses have other rules", goarch, flags, wrong, n)
			}
		}
	}
}
