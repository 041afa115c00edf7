package probe

import (
	"errors"
	"strings"
	"syscall"

	"gperf/record/probe/kernel"
	"gperf/record/tracefs"
)

// installError returns the kernel's reason for rejecting a definition, with the kernel's message in tracefs'
// error_log (Linux 5.2).
func installError(t *tracefs.FS, p *Probe, line string, err error) error {
	e := &InstallError{Probe: p, Line: line, Err: err, Column: -1}
	if text, err := t.Read("error_log"); err == nil {
		e.Log, e.Column = lastError(string(text), line)
	}
	if e.Column < 0 || strings.HasPrefix(e.Log, "Failed to register") || strings.Contains(e.Log, "probed address") {
		if !p.Kind.User() && !errors.Is(err, syscall.EILSEQ) {
			symbols := kernel.Symbols{Tracefs: t}
			e.Why = symbols.Refusal(p.Module, p.Symbol)
		}
	}
	return e
}

// lastError returns the newest message of error_log about a definition, and the column in the
// definition that it points at. Messages are three lines long:
//
//	[   17.347155] trace_kprobe: error: Invalid probed address or symbol
//	  Command: p:probe/nosuch nosuch
//	                          ^
func lastError(log, line string) (msg string, column int) {
	const command, sep = "  Command: ", ": error: "
	column = -1
	l := strings.Split(log, "\n")
	for i := 1; i+1 < len(l); i++ {
		if got, ok := strings.CutPrefix(l[i], command); !ok || got != line {
			continue
		}
		if _, text, ok := strings.Cut(l[i-1], sep); ok {
			msg = text
			column = strings.IndexByte(l[i+1], '^') - len(command)
		}
	}
	if column < 0 || column > len(line) {
		column = -1
	}
	return msg, column
}
