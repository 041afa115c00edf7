package probe

import (
	"debug/elf"
	"path/filepath"
	"strings"

	"gperf/record/tracefs"
)

// Finder finds what specs mean on this machine.
type Finder struct {
	Tracefs *tracefs.FS
	PIDs    []int // whose files are meant
	// Notice is told what turns out other than asked for; nil: nobody is.
	Notice func(what error)
}

// Find returns the probes that a spec means, at least one. The error is a
// *SpecError where the spec is to blame.
func (f *Finder) Find(text string) ([]*Probe, error) {
	s, err := parse(text)
	if err != nil {
		return nil, err
	}
	p := &Probe{Kind: s.kind, Off: s.off, Event: eventName(s.name, s.kind)}
	for _, a := range s.args {
		name, fetch, _ := strings.Cut(a, "=")
		p.Args = append(p.Args, Arg{name, fetch})
	}
	if !s.kind.User() {
		p.Group, p.Module, p.Symbol = "probe", s.file, s.name
		return []*Probe{p}, nil
	}
	p.Group = "probe_" + word(filepath.Base(s.file))
	if p.Path, err = filepath.Abs(s.file); err != nil {
		return nil, err
	}
	file, err := elf.Open(p.Path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	symbols, _ := file.Symbols()
	dynamic, _ := file.DynamicSymbols()
	for _, sym := range append(symbols, dynamic...) {
		if sym.Name != s.name || sym.Section == elf.SHN_UNDEF {
			continue
		}
		for _, seg := range file.Progs {
			if seg.Type == elf.PT_LOAD && seg.Vaddr <= sym.Value && sym.Value < seg.Vaddr+seg.Filesz {
				p.Off += sym.Value - seg.Vaddr + seg.Off
				return []*Probe{p}, nil
			}
		}
	}
	return nil, s.bad("no such function")
}

// eventName is perf's name for a probe of a function.
func eventName(function string, k Kind) string {
	if k.Return() {
		return word(function) + "__return"
	}
	return word(function)
}

// word is what s begins with, up to what cannot be in an event's name.
func word(s string) string {
	end := strings.IndexFunc(s, func(c rune) bool {
		return c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	})
	if end >= 0 {
		s = s[:end]
	}
	return s
}
