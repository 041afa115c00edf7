package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"gperf/symbolize/archive"
	"gperf/symbolize/debuginfod"
	"gperf/symbolize/dso"
)

// fileFlags say where the files are that name addresses.
type fileFlags struct {
	symfs      string
	sysroot    string
	vmlinux    string
	debuginfod string
	force      *bool // nil: no
}

func (f *fileFlags) add(s *pflag.FlagSet) {
	s.StringVar(&f.symfs, "symfs", "", "look for all ELF files below this `directory`, and nowhere else; with \",flat\" behind it, by their names alone")
	s.StringVar(&f.sysroot, "sysroot", "", "look for ELF files below this `directory` first")
	s.StringVarP(&f.vmlinux, "vmlinux", "k", "", "the kernel's ELF `file`, instead of those in the usual places")
	s.StringVar(&f.debuginfod, "debuginfod", "", "ask these `servers` for files that are not here, or no for none; without the flag, those of DEBUGINFOD_URLS")
}

// files are the places where files are looked for.
type files struct {
	dso.Finder
	servers *debuginfod.Client // nil: none are asked
}

// open readies the places; what takes long is told on stderr if that is a
// terminal. Beside the files of packed, which is nil for none, only those are looked
// at that flags name.
func (f *fileFlags) open(packed *archive.Archive, stderr io.Writer) *files {
	root, flat := strings.CutSuffix(f.symfs, ",flat")
	l := &files{Finder: dso.Finder{Root: strings.TrimSuffix(root, ",hierarchy"), Flat: flat}}
	if packed != nil && f.symfs == "" {
		l.Finder = *packed.Finder()
	}
	l.Sysroot, l.VmlinuxPath = f.sysroot, f.vmlinux
	l.Force = f.force != nil && *f.force
	urls := f.debuginfod
	switch {
	case urls == "" && packed != nil:
		return l
	case urls == "":
		urls = os.Getenv("DEBUGINFOD_URLS")
	case urls == "no":
		return l
	}
	if l.servers = debuginfod.New(urls); l.servers == nil {
		return l
	}
	l.Fetch = l.servers.Find
	bar := newProgress("debuginfod", stderr, false)
	l.servers.Progress = func(p debuginfod.Progress) {
		if bar.terminal == nil || p.Files == 0 {
			bar.end()
			return
		}
		bar.show("debuginfod", fmt.Sprintf("asking for %d files, %.1f of %.1f MB received", p.Files, float64(p.Bytes)/1e6, float64(p.Size)/1e6))
	}
	return l
}

// tell says which servers did not do.
func (l *files) tell(stderr io.Writer) {
	if l.servers == nil {
		return
	}
	for _, dead := range l.servers.Dead() {
		fmt.Fprintf(stderr, "gperf: debuginfod %v; it was not asked again (--debuginfod=no asks none)\n", dead)
	}
}
