package doctor

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"gperf/internal/dso"
	"gperf/internal/procfs"
	"gperf/internal/runtimes"
	"gperf/internal/text"
)

// checkRuntimes reports which interpreters here run functions that can be named.
func checkRuntimes(m *Machine) Check {
	var named, unknown []string
	for _, path := range m.interpreters() {
		im, err := dso.Open(path)
		if err != nil {
			continue
		}
		p, err := runtimes.Find(im, path)
		im.Close()
		switch {
		case err != nil:
			unknown = append(unknown, fmt.Sprintf("%s: %v", path, err))
		case p != nil:
			named = append(named, fmt.Sprintf("%s (%s)", p, path))
		}
	}
	detail := "functions of " + runtimes.Known + "; there is none here"
	if len(named) > 0 {
		detail = "functions of " + text.JoinFirst(named, 6)
	}
	if err := m.loadWalker(); err != nil {
		return no("no names of functions of interpreters: user stacks are not walked in the kernel",
			"see whole stacks")
	}
	remedy := ""
	if r := m.rights(); !r.has(unix.CAP_SYS_PTRACE) {
		remedy = "CAP_SYS_PTRACE reads other processes, too; kernel.yama.ptrace_scope=0 allows the same user"
	}
	switch {
	case len(unknown) > 0:
		return part(detail+"; not of "+text.JoinFirst(unknown, 3), remedy)
	case remedy != "":
		return part(detail, remedy)
	}
	return ok(detail)
}

// interpreterLibraries are where libraries with interpreters may be that no process uses now.
var interpreterLibraries = []string{"/usr/lib/*-linux-gnu/lib*.so.*", "/usr/lib64/lib*.so.*",
	"/usr/local/lib/lib*.so.*"}

// interpreters returns the programs in PATH, the libraries and the files of running processes that may have
// interpreters.
func interpreters() []string {
	found := map[string]bool{}
	add := func(path string) {
		if real, err := filepath.EvalSymlinks(path); err == nil && runtimes.MayHave(real) {
			found[real] = true
		}
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		programs, _ := os.ReadDir(dir)
		for _, p := range programs {
			if runtimes.MayHave(p.Name()) {
				add(filepath.Join(dir, p.Name()))
			}
		}
	}
	for _, pattern := range interpreterLibraries {
		libraries, _ := filepath.Glob(pattern)
		for _, path := range libraries {
			if runtimes.MayHave(path) {
				add(path)
			}
		}
	}
	pids, _ := procfs.Processes()
	for _, pid := range pids {
		list, err := procfs.Maps(pid)
		if err != nil {
			continue
		}
		for m := range list {
			if m.Executable() && runtimes.MayHave(m.Path) {
				add(m.Path)
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}
