package probe

import (
	"debug/elf"
	"path/filepath"
)

// userPlaces are the probes in a file of code that a spec means, without arguments.
func (f *Finder) userPlaces(s *spec) ([]*Probe, error) {
	p := &Probe{Kind: s.kind, Group: "probe_" + word(filepath.Base(s.file)), Event: eventName(s.name, s.kind), Off: s.off}
	var err error
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
