package program

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"go/version"
	"strings"
)

// GoRuntime is where probes see the arguments of functions of Go's runtime in a program.
type GoRuntime struct {
	Functions []uint64 // offsets in the file
	GoID      uint64   // File.GoID
	BP        uint64   // the offset of the frame pointer of a goroutine that does not run (sched.bp) in its struct g
}

// ErrNotGo means that a file is no program of Go.
var ErrNotGo = errors.New("not a program of Go")

// FindGoRuntime finds functions of Go's runtime in a program, which may be stripped. A function that versions of Go
// name differently has several names, with | between them. It fails with ErrNotGo for other programs.
func FindGoRuntime(path string, functions ...string) (*GoRuntime, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !f.isGo() {
		return nil, &FileError{path, ErrNotGo}
	}
	v := f.goVersion()
	if !since(v, oldestGo) {
		return nil, &FileError{path, fmt.Errorf("it is of %s, and not of %s or later", v, oldestGo)}
	}
	found := map[string]uint64{} // offsets
	for _, fn := range f.goFunctions() {
		found[fn.Symbol] = fn.Off
	}
	g := &GoRuntime{GoID: f.GoID(), BP: 104}
	if since(v, "go1.25") {
		g.BP = 96
	}
	for _, name := range functions {
		var off uint64
		for name := range strings.SplitSeq(name, "|") {
			off = cmp.Or(off, found[name])
		}
		if off == 0 {
			return nil, &FileError{path, fmt.Errorf("it has no function %s", name)}
		}
		g.Functions = append(g.Functions, f.AfterCheck(off))
	}
	return g, nil
}

// stackChecks are the instructions by which functions of Go compare the stack's limit, by machine.
var stackChecks = map[elf.Machine][]byte{
	elf.EM_X86_64:  {0x49, 0x3b, 0x66, 0x10},                         // cmp 0x10(%r14),%rsp
	elf.EM_AARCH64: {0x90, 0x0b, 0x40, 0xf9, 0xff, 0x63, 0x30, 0xeb}, // ldr x16, [x28, #16]; cmp sp, x16
}

// AfterCheck returns the offset of the conditional jump after the check of the stack's limit with which a function at
// an offset begins, or else the function's. Nothing that a probe reads has changed there, and the kernel emulates
// jumps: it executes other instructions in single steps, which takes many times as long.
func (f *File) AfterCheck(off uint64) uint64 {
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

// oldestGo is the first version whose functions have their arguments in registers on all machines.
const oldestGo = "go1.18"

// GoID returns the offset of a goroutine's number (goid) in its struct g, in bytes; 0 if it is unknown.
// src/runtime/runtime2.go of each version has it.
func (f *File) GoID() uint64 {
	switch v := f.goVersion(); {
	case v == "" || !since(v, oldestGo):
		return 0
	case since(v, "go1.23") && !since(v, "go1.25"):
		return 160
	}
	return 152
}

// readGoVersion returns the version of Go that made a program, such as "go1.26.8", "" if it is unknown.
func (f *File) readGoVersion() string {
	info, err := buildinfo.Read(f.Image)
	if err != nil {
		return ""
	}
	return info.GoVersion
}

// since reports whether a version of Go is this one, such as "go1.25", or a later one. Development versions count as
// later than all.
func since(v, first string) bool { return !version.IsValid(v) || version.Compare(v, first) >= 0 }
