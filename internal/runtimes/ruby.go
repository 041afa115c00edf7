package runtimes

import (
	"fmt"

	"gperf/internal/dso"
)

// ruby is CRuby's interpreter in a program or library.
type ruby struct {
	version [3]int
	layout  rubyLayout
	// context is the variable with the thread's execution context, which contains the list of frames.
	context threadVariable
	// exec are the vaddrs of the native function that begins to run Ruby functions, including the rarely executed part.
	exec ranges
}

// rubyLayout are the offsets that differ between versions, in bytes. The others are constants, the same on all 64-bit
// machines.
type rubyLayout struct {
	frameSize uint64 // of rb_control_frame_t
	lines     int    // iseq_insn_info, in rb_iseq_constant_body
	lineSize  uint64 // of iseq_insn_info_entry
	shortLen  bool   // the flags of an embedded string contain the length
}

// rubyWalk is where an interpreter keeps the frames of Ruby functions.
//
//bpf:struct ruby
type rubyWalk struct {
	Context      threadVariable // the thread's execution context
	FrameSize    uint64         // of a frame, in bytes
	ShortStrings uint64         // 1: the flags of a short string contain the length
}

// rubyLayouts are the layouts of 3.0 to 3.4, by the minor version (vm_core.h, iseq.h).
var rubyLayouts = []rubyLayout{
	{frameSize: 56, lines: 120, lineSize: 8, shortLen: true},
	{frameSize: 64, lines: 120, lineSize: 12, shortLen: true},
	{frameSize: 56, lines: 112, lineSize: 12},
	{frameSize: 56, lines: 112, lineSize: 12},
	{frameSize: 56, lines: 112, lineSize: 12},
}

// String implements Runtime.
func (r *ruby) String() string {
	return fmt.Sprintf("Ruby %d.%d.%d", r.version[0], r.version[1], r.version[2])
}

// DSO implements Runtime.
func (r *ruby) DSO() string { return dso.RubyName }

// Walk implements Runtime.
func (r *ruby) Walk(bias uint64) Walk {
	w := rubyWalk{Context: r.context.at(bias), FrameSize: r.layout.frameSize}
	if r.layout.shortLen {
		w.ShortStrings = 1
	}
	return newWalk(kindRuby, &w)
}

// In implements Runtime.
func (r *ruby) In(bias uint64) Process { return frameList{code: r, bias: bias, runs: r.exec} }

// findRuby returns the interpreter in a file, or nil if the file contains none.
func findRuby(im *dso.Image) (Runtime, error) {
	r := &ruby{}
	s := r.symbols(im)
	if s.version == 0 {
		return nil, nil
	}
	err := r.setVersion(im, s.version)
	if err == nil {
		if r.context, err = findThreadVariable(im, "ruby_current_ec"); err != nil {
			r.context, err = contextFromCode(im, s.threadCurrent)
		}
	}
	if err == nil && len(r.exec) == 0 {
		r.exec, err = execFromTables(im)
	}
	return r, err
}

// rubyAddrs are the vaddrs of symbols that all files contain.
type rubyAddrs struct{ version, threadCurrent uint64 }

// symbols finds the functions that run Ruby functions, whose symbols are missing in stripped files from 3.2 on.
func (r *ruby) symbols(im *dso.Image) (p rubyAddrs) {
	for name, s := range definedSymbols(im, ".dynsym", ".symtab") {
		switch name {
		case "ruby_version":
			p.version = s.Value
		case "rb_thread_current":
			p.threadCurrent = s.Value
		case "rb_vm_exec", "rb_vm_exec.cold", "rb_vm_exec.part.0", "vm_exec", "vm_exec.cold", "vm_exec.part.0":
			r.exec.add(s)
		}
	}
	return p
}

// setVersion reads the version from a file, and sets the layout.
func (r *ruby) setVersion(im *dso.Image, at uint64) error {
	b, err := bytesAt(im, at, 8)
	if err != nil {
		return err
	}
	v := &r.version
	if n, _ := fmt.Sscanf(string(b), "%d.%d.%d", &v[0], &v[1], &v[2]); n < 3 {
		return errVersion
	}
	if v[0] != 3 || v[1] < 0 || v[1] >= len(rubyLayouts) {
		return fmt.Errorf("%w %d.%d", errVersion, v[0], v[1])
	}
	r.layout = rubyLayouts[v[1]]
	return nil
}
