package dso

import (
	"debug/elf"
	"slices"
)

// Sections are the sections of a file by index; the first is the null section. The caller must not change them.
type Sections []*elf.Section

// Section returns the first section of that name, or nil.
func (l Sections) Section(name string) *elf.Section {
	if i := slices.IndexFunc(l, func(s *elf.Section) bool { return s.Name == name }); i >= 0 {
		return l[i]
	}
	return nil
}

// HasSymtab reports whether the file contains a .symtab.
func (l Sections) HasSymtab() bool { return l.has(".symtab", elf.SHT_SYMTAB) }

// HasDynsym reports whether the file contains a .dynsym with contents. A file of debug information does not.
func (l Sections) HasDynsym() bool { return l.has(".dynsym", elf.SHT_DYNSYM) }

func (l Sections) has(name string, t elf.SectionType) bool {
	s := l.Section(name)
	return s != nil && s.Type == t
}
