// Package syscalls names system calls by their numbers.
package syscalls

import (
	"strconv"
	"strings"
)

//go:generate go run generate.go

// Names contains the names of an architecture's system calls.
type Names []string

// Name returns the name of a system call, or its number if it has no name.
func (n Names) Name(nr int64) string {
	if nr >= 0 && nr < int64(len(n)) && n[nr] != "" {
		return n[nr]
	}
	return strconv.FormatInt(nr, 10)
}

// Of returns the system calls of an architecture (uname -m), or nil if unknown.
func Of(machine string) Names {
	switch {
	case strings.HasPrefix(machine, "armv"):
		machine = "arm"
	case len(machine) == 4 && strings.HasSuffix(machine, "86"): // i686
		machine = "i386"
	case machine == "ppc64le":
		machine = "ppc64"
	}
	var n Names
	for word := range strings.FieldsSeq(tables[machine]) {
		if nr, err := strconv.Atoi(word); err == nil {
			for len(n) < nr {
				n = append(n, "")
			}
			continue
		}
		n = append(n, word)
	}
	return n
}
