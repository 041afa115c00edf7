package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"gperf/record/near"
	"gperf/report/annotate"
	"gperf/symbolize"
	"gperf/symbolize/dso"
)

// annotateHint says what to do where there is nothing to annotate.
func annotateHint(err error) string {
	var unknown *annotate.UnknownError
	var none *annotate.NoSamplesError
	var code *symbolize.NoCodeError
	switch {
	case errors.As(err, &unknown):
		if names := nearFunctions(unknown.Name, unknown.Names); len(names) > 0 {
			return "Did you mean " + strings.Join(names, ", ") + "?\n"
		}
		return "`gperf report` lists the functions that samples tell of.\n"
	case errors.As(err, &none) && none.Calls > 0:
		return fmt.Sprintf("%d samples were taken in what it called: -g counts its calls.\n", none.Calls)
	case errors.As(err, &code):
		return codeHint(code)
	}
	return ""
}

// nearFunctions returns which functions may have been meant: by their names, or by
// the last parts of those.
func nearFunctions(name string, names []string) []string {
	if l := near.Names(name, names); len(l) > 0 {
		return l
	}
	whole := map[string]string{}
	for _, n := range names {
		whole[n[strings.LastIndexAny(n, ":./")+1:]] = n
	}
	l := near.Names(name, slices.Sorted(maps.Keys(whole)))
	for i, last := range l {
		l[i] = whole[last]
	}
	return l
}

// codeHint says where instructions can be had from.
func codeHint(e *symbolize.NoCodeError) string {
	switch {
	case errors.Is(e, annotate.ErrMade):
		return ""
	case e.DSO == dso.KernelName && errors.Is(e, fs.ErrPermission):
		return "Reading /proc/kcore takes CAP_SYS_RAWIO, and a kernel that is not locked down. -k names a vmlinux.\n"
	case e.DSO == dso.KernelName:
		return "-k names the kernel's vmlinux; distributions have it in a package of debug information (of Debian, linux-image-*-dbg).\n" +
			"Without, annotate while the recorded kernel runs, if it has /proc/kcore, or pack an archive then (gperf archive).\n"
	case e.ID.IsZero():
		return "--symfs names a folder in which the recorded machine's files lie.\n"
	}
	return fmt.Sprintf("Bring the file with build id %s, and name the folder below which it lies as recorded with --symfs.\n", e.ID)
}
