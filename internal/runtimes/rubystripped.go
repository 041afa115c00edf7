package runtimes

import (
	"bytes"
	"debug/elf"
	"errors"
	"slices"
	"sort"

	"gperf/internal/dso"
)

// Stripped libraries of Ruby 3.2 and later, such as Debian's, lack the symbols of the interpreter's function and of
// the variable with the execution context. On x86-64, both are found by code and tables: functions of Ruby's API
// read the variable, and the interpreter's function uses a table of the addresses that run Ruby's instructions.

const (
	maxAccess       = 64       // bytes of a function in which it reads the variable
	minInstructions = 100      // Ruby uses some 200
	maxText         = 64 << 20 // bytes of code that is searched for calls
)

var errStripped = errors.New("stripped, and the interpreter is not found")

// contextFromCode returns the variable that the function at a vaddr reads first, rb_thread_current. It calls the
// dynamic linker with the address of a slot, either of the variable or of the module, whose offset then is in the next
// load.
func contextFromCode(im *dso.Image, vaddr uint64) (v threadVariable, err error) {
	const size = 7 // of the instructions lea and mov
	code, err := bytesAt(im, vaddr, maxAccess)
	if err != nil || im.Machine != elf.EM_X86_64 {
		return v, errStripped
	}
	lea, load := []byte{0x48, 0x8d, 0x3d}, []byte{0x48, 0x8b, 0x80} // lea x(%rip),%rdi; mov x(%rax),%rax
	i := bytes.Index(code, lea)
	if i < 1 || i+size > len(code) {
		return v, errStripped
	}
	v = threadVariable{Kind: threadModule,
		Slot: vaddr + uint64(i+size) + uint64(int64(int32(le.Uint32(code[i+len(lea):]))))}
	if !hasModuleSlot(im, v.Slot) {
		return v, errStripped
	}
	if code[i-1] == 0x66 { // a prefix, in the sequence with a slot for the variable
		b, err := bytesAt(im, v.Slot+8, 8)
		v.Offset = le.Uint64(append(b, make([]byte, 8)...))
		return v, err
	}
	rest := code[i+size:]
	j := bytes.Index(rest, load)
	if j < 0 || j+size > len(rest) {
		return v, errStripped
	}
	v.Offset = uint64(le.Uint32(rest[j+len(load):]))
	return v, nil
}

// hasModuleSlot reports whether the dynamic linker stores the number of the module at a vaddr.
func hasModuleSlot(im *dso.Image, vaddr uint64) bool {
	for r := range relocations(im) {
		if r.Off == vaddr && elf.R_TYPE64(r.Info) == uint32(elf.R_X86_64_DTPMOD64) {
			return true
		}
	}
	return false
}

// execFromTables returns the ranges of the functions that call the interpreter's function: the parts of vm_exec, or
// the range of the interpreter's function itself if nothing calls it.
func execFromTables(im *dso.Image) ([]Range, error) {
	starts := functionStarts(im)
	text := im.Section(".text")
	if text == nil || text.Size > maxText {
		return nil, errStripped
	}
	core := interpreterOf(im, Range{text.Addr, text.Addr + text.Size}, starts)
	if core < 0 {
		return nil, errStripped
	}
	code, err := im.Data(text)
	if err != nil {
		return nil, err
	}
	function := func(i int) Range {
		end := text.Addr + text.Size
		if i+1 < len(starts) {
			end = starts[i+1]
		}
		return Range{starts[i], end}
	}
	var list []Range
	const call, size = 0xe8, 5
	for i := 0; i+size <= len(code); i++ {
		next := bytes.IndexByte(code[i:len(code)-size+1], call)
		if next < 0 {
			break
		}
		i += next
		at := text.Addr + uint64(i)
		if at+size+uint64(int64(int32(le.Uint32(code[i+1:])))) != starts[core] {
			continue
		}
		if n := startBefore(starts, at); n >= 0 && n != core && !slices.Contains(list, function(n)) {
			list = append(list, function(n))
		}
	}
	if len(list) == 0 {
		list = append(list, function(core))
	}
	return list, nil
}

// interpreterOf returns the number of the function in text that the longest list of addresses in the file's data points
// into, or -1.
func interpreterOf(im *dso.Image, text Range, starts []uint64) int {
	core, longest := -1, minInstructions-1
	function, count, next := -1, 0, uint64(0)
	for r := range relocations(im) {
		n, to := -1, uint64(r.Addend)
		if elf.R_TYPE64(r.Info) == uint32(elf.R_X86_64_RELATIVE) && text.Contains(to) {
			n = startBefore(starts, to)
		}
		if n < 0 || starts[n] == to || n != function || r.Off != next {
			count = 0
		}
		function, next = n, r.Off+8
		if count++; n >= 0 && count > longest {
			core, longest = n, count
		}
	}
	return core
}

// startBefore returns the number of the last function that starts at or before a vaddr, or -1.
func startBefore(starts []uint64, vaddr uint64) int {
	return sort.Search(len(starts), func(i int) bool { return starts[i] > vaddr }) - 1
}

// functionStarts returns the vaddrs of the functions with unwind information, in ascending order.
func functionStarts(im *dso.Image) (starts []uint64) {
	const head, count4, table = 12, 0x03, 0x3b // encodings: 4 bytes; 4 bytes signed, from the section's start on
	s := im.Section(".eh_frame_hdr")
	if s == nil {
		return nil
	}
	b, err := im.Data(s)
	if err != nil || len(b) < head || b[0] != 1 || b[2] != count4 || b[3] != table {
		return nil
	}
	for b = b[head:]; len(b) >= 8; b = b[8:] {
		starts = append(starts, s.Addr+uint64(int64(int32(le.Uint32(b)))))
	}
	if !slices.IsSorted(starts) {
		return nil
	}
	return starts
}
