package program

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gperf/internal/testutil/programs"
)

// TestFindBoundaries rejects a probe inside an instruction, which it would corrupt.
func TestFindBoundaries(t *testing.T) {
	path := functionsC.Path(t)
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.ReadFunctions(); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(f.functions, func(fn Function) bool { return fn.Symbol == "func_c" })
	fn := &f.functions[i]
	starts := map[uint64]bool{}
	for off := range f.instructions(fn) {
		starts[off-fn.Off] = true
	}
	if len(starts) < 3 {
		t.Fatalf("func_c has %d instructions", len(starts))
	}
	for off := range fn.Size {
		_, err := new(Locator).Find(Query{File: path, Name: "func_c", Off: off})
		if (err == nil) != starts[off] {
			t.Errorf("func_c+%#x: %v", off, err)
		}
	}
}

// TestFindIFUNC checks that the implementation found for an IFUNC is the one that a running
// process uses.
func TestFindIFUNC(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, _ = os.Create(os.DevNull)
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer cmd.Wait()
	defer in.Close()
	in.Write(make([]byte, 1<<17)) // taken: it runs, and the dynamic linker is done
	var notices []string
	f := Locator{Notice: func(what error) { notices = append(notices, what.Error()) }}
	for _, name := range []string{"strlen", "memcpy", "strchr"} {
		asked, err := f.Find(Query{File: "libc.so.6", Name: name})
		var file *FileError
		if errors.As(err, &file) {
			t.Skip(err)
		}
		running := Locator{PIDs: []int{cmd.Process.Pid}}
		if runtime.GOARCH != "amd64" { // resolvers are not run here
			if len(notices) == 0 && err != nil && !strings.Contains(err.Error(), "record a running process (-p)") {
				t.Error(err)
			}
			found, err := running.Find(Query{File: "libc.so.6", Name: name})
			switch {
			case err == nil && len(found) == 1 && !funcAt(t, &f, found[0]).ifunc:
			case name != "strlen" && err != nil: // not called so far
			default:
				t.Errorf("%s: %v of a process, %v", name, found, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(notices) == 0 {
			t.Skip("this libc has no IFUNCs")
		}
		found, err := running.Find(Query{File: "libc.so.6", Name: name})
		if err != nil || len(asked) != 1 || len(found) != 1 || found[0].Off != asked[0].Off {
			t.Errorf("%s: %v of a process, %v; asked %v", name, found, err, asked)
		}
		if direct := funcAt(t, &f, asked[0]); direct.ifunc {
			t.Errorf("%s: the probe is at what chooses", name)
		}
	}
}

func funcAt(t *testing.T, f *Locator, p Site) (at Function) {
	t.Helper()
	functions, err := f.Functions(p.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, fn := range functions {
		if fn.Off == p.Off {
			at = fn
		}
	}
	return at
}

// TestGoFunctionsAgainstSymbols checks that Go's own table contains the functions of the symbol table, wherever
// the linker put them.
func TestGoFunctionsAgainstSymbols(t *testing.T) {
	for name, p := range map[string]*programs.Program{"static": functionsGo, "PIE": functionsGoPIE,
		"linked by C's compiler": functionsGoByC, "race": functionsGoRace} {
		t.Run(name, func(t *testing.T) { sameAsSymbols(t, p.Path(t)) })
	}
}

func sameAsSymbols(t *testing.T, path string) {
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.ReadFunctions(); err != nil {
		t.Fatal(err)
	}
	if f.goPCs {
		t.Fatal("it is stripped")
	}
	symbols := map[string]map[uint64]bool{}
	for _, fn := range f.functions {
		if symbols[fn.Symbol] == nil {
			symbols[fn.Symbol] = map[uint64]bool{}
		}
		symbols[fn.Symbol][fn.Off] = true
	}
	same, other := 0, 0
	for _, fn := range f.goFunctions() {
		switch at, ok := symbols[fn.Symbol]; {
		case !ok: // go:buildid, names that the linker shortens
		case at[fn.Off], symbols[fn.Symbol+".abi0"][fn.Off]: // one name for both ways of calling
			same++
		default:
			other++
		}
	}
	if same < 1000 || other > 0 {
		t.Errorf("%d functions are where the symbols are, %d are not", same, other)
	}
}
