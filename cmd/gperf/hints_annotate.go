package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"gperf/internal/dso"
	"gperf/internal/suggest"
	"gperf/report/annotate"
	"gperf/symbolize"
)

// functionsHint names functions like the one without samples.
func functionsHint(e *annotate.UnknownError) string {
	if names := nearFunctions(e.Name, e.Names); len(names) > 0 {
		return "Did you mean " + strings.Join(names, ", ") + "?\n"
	}
	return "`gperf report` lists the functions with samples.\n"
}

// nearFunctions returns functions with a similar name, or with a similar last part of it.
func nearFunctions(name string, names []string) []string {
	if l := suggest.Names(name, names); len(l) > 0 {
		return l
	}
	byEnd := map[string]string{}
	for _, n := range names {
		byEnd[n[strings.LastIndexAny(n, ":./")+1:]] = n
	}
	l := suggest.Names(name, slices.Sorted(maps.Keys(byEnd)))
	for i, last := range l {
		l[i] = byEnd[last]
	}
	return l
}

// codeHint says how to supply the missing code.
func codeHint(e *symbolize.NoCodeError) string {
	switch {
	case errors.Is(e, annotate.ErrMade):
		return ""
	case e.DSO == dso.KernelName && errors.Is(e, fs.ErrPermission):
		return "Reading /proc/kcore requires CAP_SYS_RAWIO and a kernel without lockdown. -k names a vmlinux.\n"
	case e.DSO == dso.KernelName:
		return "-k names the kernel's vmlinux, which its debug package contains (Debian: linux-image-*-dbg).\n" +
			"Without it, run annotate or gperf archive while the recorded kernel runs and has /proc/kcore.\n"
	case e.ID.IsZero():
		return "--symfs names a directory with the files of the recorded machine.\n"
	}
	return fmt.Sprintf("Copy the file with build ID %s to its recorded path below a directory, and name\n"+
		"that with --symfs.\n", e.ID)
}
