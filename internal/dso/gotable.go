package dso

import (
	"debug/elf"
	"slices"
)

// goTables are the names of the section in which Go's linker puts the runtime's table of
// functions and lines; the second one is for position-independent programs.
var goTables = []string{".gopclntab", ".data.rel.ro.gopclntab"}

// IsGoTable reports whether a section of this name contains the function table of a Go program.
func IsGoTable(section string) bool { return slices.Contains(goTables, section) }

// GoTable returns the section with the function table of a Go program, nil in other files. In a separate debug
// file, the section's type is NOBITS.
func (l Sections) GoTable() *elf.Section {
	for _, s := range l {
		if IsGoTable(s.Name) {
			return s
		}
	}
	return nil
}

// HasGoTable reports whether the file contains the function table of a Go program, with contents.
func (l Sections) HasGoTable() bool {
	s := l.GoTable()
	return s != nil && s.Type != elf.SHT_NOBITS
}
