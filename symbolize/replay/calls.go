package replay

import "gperf/symbolize/srcline"

// Calls returns the functions that the frame is in, with file and line: the
// innermost first, those that were inlined before the one that they were inlined
// into. There are none where nothing tells of lines. caller says that the address
// is one that a call returns to: what is meant is the call, which lies before it.
// Where nothing lies there, it is where a signal's handler returns to, which nobody
// called from there.
func (f *Frame) Calls(caller bool) []srcline.Call {
	kept := &f.calls
	if caller {
		kept = &f.callers
	}
	calls := kept.Load()
	if calls == nil {
		var l []srcline.Call
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

func (f *Frame) lookUpCalls(ip uint64) (calls []srcline.Call) {
	switch m := f.Map; {
	case m == nil || f.symbols == nil:
	case m.symbol != nil:
		if file, line := f.JITLine(); line > 0 {
			calls = []srcline.Call{{Function: m.symbol.Name, File: file, Line: line}}
		}
	case m.DSO.IsKernel():
		calls, _ = f.symbols.KernelCalls(ip)
	case f.Kernel:
		calls, _ = f.symbols.ModuleCalls(m.DSO.Name, m.DSO.BuildID, ip)
	default:
		calls, _ = f.symbols.UserCalls(m.DSO.Name, m.DSO.BuildID, m.Off(ip))
	}
	return calls
}
