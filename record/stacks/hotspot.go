package stacks

import (
	"debug/elf"
	"errors"
	"fmt"
	"path"
	"time"

	"gperf/bpf"
	"gperf/format"
	"gperf/internal/dso"
	"gperf/internal/procmem"
	"gperf/internal/runtimes/hotspot"
	"gperf/unwind"
)

// vm is a Java virtual machine: the generated code is a separate mappedFile, whose table is the description of the
// code heaps.
type vm struct {
	lib   mapping // of libjvm.so
	heaps []hotspot.Heap
	first uint32 // number of the heaps in BPF
}

// isLibJVM reports whether a mapping is of HotSpot's library for x86-64. The frames of other virtual machines are
// not known: code of those is walked by frame pointer.
func isLibJVM(m *format.Mmap) bool {
	return machine == elf.EM_X86_64 && path.Base(m.Filename) == "libjvm.so"
}

// addVM makes all generated code of an address space, already mapped or mapped later, belong to a Java virtual
// machine.
func (p *tracker) addVM(s *addrSpace, m *format.Mmap, lib mapping) {
	p.vms++
	k := fileKey{name: fmt.Sprintf("//hotspot %d", p.vms)}
	s.vm = &mappedFile{name: dso.Anonymous, pid: m.PID, mapped: p.sweep, vm: &vm{lib: lib}}
	p.files[k] = s.vm
	var code []mapping
	for r := range s.maps.All() {
		if r.Value.file.name == dso.Anonymous {
			code = append(code, r.Value)
		}
	}
	for _, c := range code {
		c.file = s.vm
		s.insert(c)
	}
}

// startTime is how long a virtual machine may need to create the code heaps.
const startTime = 5 * time.Millisecond

// readHeaps reads the code heaps. It runs in the background, as build does.
func (f *mappedFile) readHeaps() error {
	lib := &f.vm.lib
	im, err := lib.file.open()
	if err != nil {
		return err
	}
	defer im.Close()
	bias, ok := im.Bias(lib.start, lib.end, lib.pgoff)
	if !ok {
		return fmt.Errorf("%s is not mapped as its headers say", lib.file.name)
	}
	symbols, err := dynamicSymbols(im)
	if err != nil {
		return err
	}
	f.vm.heaps, err = hotspot.Read(procmem.Reader(f.pid), func(name string) (uint64, bool) {
		vaddr, ok := symbols[name]
		return vaddr + bias, ok
	})
	if errors.Is(err, hotspot.ErrStarting) {
		time.Sleep(startTime)
	}
	if err != nil {
		return fmt.Errorf("code of Java process %d: %w", f.pid, err)
	}
	return nil
}

// dynamicSymbols returns the vaddrs of a library's symbols for debuggers.
func dynamicSymbols(im *dso.Image) (map[string]uint64, error) {
	list, err := im.Symbols(".dynsym")
	if err != nil {
		return nil, err
	}
	symbols := map[string]uint64{}
	for name, s := range list {
		if hotspot.IsSymbol(name) {
			symbols[name] = s.Value
		}
	}
	return symbols, nil
}

// heapFor returns the mapping for the BPF programs of the code heap that contains a mapping of
// generated code: of all memory reserved for it, because the heap grows. ok is false if no heap
// contains it.
func (v *vm) heapFor(m *mapping) (k bpf.Mapping, ok bool) {
	for i, h := range v.heaps {
		if m.start >= h.Low && m.start < h.High {
			number := uint64(v.first) + uint64(i)
			return bpf.Mapping{Start: h.Low, End: h.High, Bias: number, Table: bpf.TableHotSpot}, true
		}
	}
	return k, false
}

// appendMapping appends a mapping for BPF to the sorted ones of an address space. Several
// mappings of a code heap become one, which ends where another mapping begins.
func appendMapping(l []bpf.Mapping, k bpf.Mapping) []bpf.Mapping {
	if n := len(l); n > 0 {
		last := &l[n-1]
		if k.Table == bpf.TableHotSpot {
			if last.Table == k.Table && last.Bias == k.Bias {
				return l
			}
			k.Start = max(k.Start, last.End)
		} else if last.Table == bpf.TableHotSpot {
			last.End = min(last.End, k.Start)
		}
	}
	return append(l, k)
}

// vmCode finds callers for a walk in Go.
type vmCode struct{ f *mappedFile }

// Caller implements unwind.Code.
func (v vmCode) Caller(regs *unwind.Regs, mem unwind.Memory, returned bool) bool {
	c := hotspot.Code{Heaps: v.f.vm.heaps, Mem: procmem.Reader(v.f.pid), Stack: mem.Word}
	f := hotspot.Frame{IP: regs.IP(), SP: regs.SP(), FP: regs.FP(), Returned: returned}
	const rax, rbx, r13 = 0, 3, 13
	var ok [3]bool
	f.RAX, ok[0] = regs.Get(rax)
	f.RBX, ok[1] = regs.Get(rbx)
	f.R13, ok[2] = regs.Get(r13)
	f.All = !returned && ok == [3]bool{true, true, true}
	f, known := c.Caller(f)
	if known {
		*regs = unwind.NewRegs(elf.EM_X86_64, f.IP, f.SP, f.FP)
	}
	return known
}
