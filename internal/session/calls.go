package session

import "gperf/symbolize/srcline"

// Calls returns the functions of the frame with file and line, innermost first:
// inlined functions before the function that contains them. It returns none
// without line information. caller says that the address is a return address:
// Calls then looks up the call before it. If the address before it has no line, it
// is the return address of a signal handler, which no call pushed, and is looked up
// itself.
func (f *Frame) Calls(caller bool) []srcline.InlineFrame {
	kept := &f.calls
	if caller {
		kept = &f.callers
	}
	calls := kept.Load()
	if calls == nil {
		var l []srcline.InlineFrame
		if caller {
			l = f.lookUpCalls(f.IP - 1)
		}
		if len(l) == 0 {
			l = f.lookUpCalls(f.IP)
		}
		calls = &l
		kept.Store(calls)
	}
	return *calls
}

func (f *Frame) lookUpCalls(ip uint64) (calls []srcline.InlineFrame) {
	switch m := f.Map; {
	case m == nil || f.symbols == nil:
	case m.symbol != nil:
		if file, line := f.JITLine(); line > 0 {
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
