package session

import (
	"gperf/format"
	"gperf/format/tracepoint"
	"gperf/symbolize"
)

// TracepointEnv describes the recorded machine for the texts of the recording's tracepoints.
func TracepointEnv(f *format.File, sym *symbolize.Symbolizer) (env tracepoint.Env) {
	if f.Tracing == nil {
		return env
	}
	env = f.Tracing.Env()
	env.Symbol = func(ip uint64) (string, uint64, string, bool) {
		s, off, module, why := sym.Kernel(ip)
		if why != symbolize.Found {
			return "", 0, "", false
		}
		return s.Name, off, module, true
	}
	return env
}
