package program

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"go/version"

	"gperf/internal/dso"
)

// GoRuntime is where probes see the arguments of functions of Go's runtime in a program.
type GoRuntime struct {
	Functions []uint64 // offsets in the file
	Version   string   // such as "go1.26.8"
}

// ErrNotGo means that a file is no program of Go.
var ErrNotGo = errors.New("not a program of Go")

// FindGoRuntime finds functions of Go's runtime in a program, which may be stripped. It fails with ErrNotGo for other
// programs.
func FindGoRuntime(path string, functions ...string) (*GoRuntime, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	table, err := dso.OpenGoFunctions(f.Image)
	if err != nil {
		return nil, &FileError{path, ErrNotGo}
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, &FileError{path, ErrNotGo}
	}
	found := map[string]uint64{}
	for i := range table.Len() {
		if fn, ok := table.Func(i); ok {
			found[fn.Name()] = fn.Entry
		}
	}
	g := &GoRuntime{Version: info.GoVersion}
	for _, name := range functions {
		off, ok := f.code(found[name])
		if !ok {
			return nil, &FileError{path, fmt.Errorf("%s has no function %s", g.Version, name)}
		}
		g.Functions = append(g.Functions, f.afterCheck(off))
	}
	return g, nil
}

// stackChecks are the instructions by which functions of Go compare the stack's limit, by machine.
var stackChecks = map[elf.Machine][]byte{
	elf.EM_X86_64:  {0x49, 0x3b, 0x66, 0x10},                         // cmp 0x10(%r14),%rsp
	elf.EM_AARCH64: {0x90, 0x0b, 0x40, 0xf9, 0xff, 0x63, 0x30, 0xeb}, // ldr x16, [x28, #16]; cmp sp, x16
}

// afterCheck returns the offset of the conditional jump after the check of the stack's limit with which a function at an
// offset begins, or else the function's. Nothing that a probe reads has changed there, and the kernel emulates jumps: it
// executes other instructions in single steps, which takes many times as long.
func (f *File) afterCheck(off uint64) uint64 {
	check := stackChecks[f.Machine]
	code := make([]byte, len(check)+4)
	if _, err := f.ReadAt(code, int64(off)); err != nil || !bytes.HasPrefix(code, check) || len(check) == 0 {
		return off
	}
	switch jump := code[len(check):]; {
	case f.Machine == elf.EM_X86_64 && (jump[0]&0xf0 == 0x70 || jump[0] == 0x0f && jump[1]&0xf0 == 0x80):
	case f.Machine == elf.EM_AARCH64 && jump[3] == 0x54: // b.cond
	default:
		return off
	}
	return off + uint64(len(check))
}

// Since reports whether the program was made by this version of Go, such as "go1.25", or a later one. Development
// versions count as later than all.
func (g *GoRuntime) Since(v string) bool {
	return !version.IsValid(g.Version) || version.Compare(g.Version, v) >= 0
}
