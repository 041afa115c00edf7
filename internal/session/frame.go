package session

import (
	"sync"
	"sync/atomic"

	"gperf/internal/dso"
	"gperf/symbolize"
	"gperf/symbolize/srcline"
	"gperf/unwind"
)

// Frame is one address of a callchain. All samples share one Frame for an address in a mapping, and another Frame
// for the same return address, so callers can cache results by Frame.ID. The symbol is looked up on first use; all
// methods may be called by any goroutine, also after the walk.
type Frame struct {
	ID     int // dense, from 0; -1 for a frame that is not shared
	IP     uint64
	Map    *Map // nil: the address is in no mapping
	Return bool // IP is a return address: the frame is in the function with the call before it
	Kernel bool

	// There are many frames: their small fields are in one word.
	asPerf bool             // see WalkOptions.AsPerf
	listed bool             // LookUpCalls has it in its list
	why    symbolize.Reason // set by lookUp
	back   uint8            // set by lookUp: the ip that has the name and the lines, the call's last byte, is IP - back

	label   string // replaces the name of a missing symbol
	symbols *symbolize.Symbolizer
	pooled  *pooled // of frames of a Pool, which are without symbols
	samples int     // see frames.count
	callee  *Frame  // of a return address in the kernel: the frame that it called when it was first seen; nil: unknown
	once    sync.Once
	sym     *symbolize.Symbol
	off     uint64

	calls atomic.Pointer[[]srcline.InlineFrame]
}

// unknown is perf's name of missing DSOs and symbols.
const unknown = "[unknown]"

// NamedFrame returns a frame with the given symbol, which may be nil.
func NamedFrame(id int, ip uint64, kernel bool, m *Map, sym *symbolize.Symbol) *Frame {
	f := &Frame{ID: id, IP: ip, Kernel: kernel, Map: m}
	f.once.Do(func() {
		if f.sym = sym; sym != nil {
			f.off = ip - sym.Start
		}
	})
	return f
}

// Inlined returns the frame of a function that was inlined at f's address.
func (f *Frame) Inlined(sym *symbolize.Symbol) *Frame {
	f.once.Do(f.lookUp)
	own := NamedFrame(f.ID, f.IP, f.Kernel, f.Map, sym)
	own.Return, own.back, own.symbols = f.Return, f.back, f.symbols
	return own
}

// Sym returns the frame's symbol, or nil; Reason then returns why.
func (f *Frame) Sym() *symbolize.Symbol {
	f.once.Do(f.lookUp)
	return f.sym
}

// Off returns the distance of the frame's address from the start of the symbol, in bytes.
func (f *Frame) Off() uint64 {
	f.once.Do(f.lookUp)
	return f.off
}

// Reason returns why no symbol was found for the frame.
func (f *Frame) Reason() symbolize.Reason {
	f.once.Do(f.lookUp)
	return f.why
}

func (f *Frame) lookUp() {
	f.back = f.callBefore()
	m, ip := f.Map, f.IP
	if !f.asPerf {
		ip -= uint64(f.back)
	}
	switch {
	case m == nil:
		f.why = symbolize.Unmapped
	case m.symbol != nil:
		f.sym, f.off = m.symbol, ip-m.symbol.Start
	case f.Kernel:
		f.sym, f.off, _, f.why = f.symbols.Kernel(ip)
	default:
		f.sym, f.off, f.why = f.symbols.User(m.named(f.symbols, ip))
	}
	f.off += f.IP - ip
}

// callBefore returns how far before the ip the last byte of the call is: 1 for a return address, 0 if it is none.
func (f *Frame) callBefore() uint8 {
	switch m := f.Map; {
	case m == nil || !f.Return || f.symbols == nil:
		return 0
	case m.symbol != nil:
		return uint8(min(f.IP-m.Start, 1))
	case f.Kernel && entersByInterrupt(f.callee):
		return 0
	case f.Kernel:
		return uint8(f.IP - f.symbols.KernelCall(f.IP))
	}
	path, id, off := f.Map.named(f.symbols, f.IP)
	return uint8(off - f.symbols.UserCall(path, id, off))
}

// entersByInterrupt reports whether a frame of the kernel, nil if there is none, is in the entry from an interrupt or
// exception: its caller in the stack is the interrupted instruction.
func entersByInterrupt(f *Frame) bool {
	if f == nil || !f.Kernel {
		return false
	}
	ip := f.IP
	if f.Return {
		ip-- // of the call
	}
	sym, _, _, _ := f.symbols.Kernel(ip)
	return sym != nil && unwind.InterruptsKernel(sym.Raw)
}

// named returns the file with the names of an ip of the mapping, which may be a perf map, and the ip's offset.
func (m *Map) named(s *symbolize.Symbolizer, ip uint64) (path string, id dso.BuildID, off uint64) {
	if m.perfMap != "" && s.Problem(m.DSO.Name, m.DSO.BuildID) != nil {
		return m.perfMap, dso.BuildID{}, ip
	}
	return m.DSO.Name, m.DSO.BuildID, m.Off(ip)
}

// Origin returns from which kind of file the frame's symbols are.
func (f *Frame) Origin() dso.Origin {
	switch m := f.Map; {
	case f.pooled != nil:
		return f.pooled.origin
	case m == nil || f.symbols == nil:
		return dso.OriginNone
	case m.symbol != nil:
		return dso.OriginJIT
	case f.Kernel:
		return f.symbols.KernelOrigin()
	default:
		return f.symbols.Origin(m.DSO.Name, m.DSO.BuildID)
	}
}

// MapOff returns the frame's address in the DSO: the offset in the file, or the ip itself in the kernel and outside
// of mappings.
func (f *Frame) MapOff() uint64 {
	if f.Map == nil || f.Kernel {
		return f.IP
	}
	return f.Map.Off(f.IP)
}

// DSO returns the name of the frame's DSO as perf prints it.
func (f *Frame) DSO() string {
	if f.Map == nil {
		return unknown
	}
	return f.Map.DSO.Name
}

// Symbol returns the name of the frame's function, or "[unknown]".
func (f *Frame) Symbol() string {
	if sym := f.Sym(); sym != nil {
		return sym.Name
	}
	if f.label != "" {
		return f.label
	}
	return unknown
}

// Calls returns the functions of the frame with file and line, innermost first: inlined functions before the
// function that contains them. It returns none without line information. For a return address it looks up the call
// before it, or the address itself if no line is known for the call.
func (f *Frame) Calls() []srcline.InlineFrame {
	calls := f.calls.Load()
	if calls == nil {
		f.once.Do(f.lookUp)
		l := f.lookUpCalls(f.IP - uint64(f.back))
		if len(l) == 0 && f.Return {
			l = f.lookUpCalls(f.IP)
		}
		calls = &l
		f.calls.Store(calls)
	}
	return *calls
}

func (f *Frame) lookUpCalls(ip uint64) (calls []srcline.InlineFrame) {
	switch m := f.Map; {
	case m == nil || f.symbols == nil:
	case m.symbol != nil:
		if m.code == nil {
			return nil
		}
		if file, line := m.code.Line(ip); line > 0 {
			calls = []srcline.InlineFrame{{Function: m.symbol.Name, File: file, Line: line}}
		}
	case m.DSO.IsKernel():
		calls, _ = f.symbols.KernelSource(ip)
	case f.Kernel:
		calls, _ = f.symbols.ModuleSource(m.DSO.Name, m.DSO.BuildID, ip)
	default:
		calls, _ = f.symbols.UserSource(m.DSO.Name, m.DSO.BuildID, m.Off(ip))
	}
	return calls
}
