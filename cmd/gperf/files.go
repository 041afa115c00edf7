package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/internal/archive"
	"gperf/internal/dso"
	"gperf/internal/dso/debuginfod"
	"gperf/report/push"
)

// fileFlags holds the flags that choose where to look for ELF files.
type fileFlags struct {
	symfs      string
	sysroot    string
	vmlinux    string
	debuginfod string
	maxFetched cli.Size // of a file of debuginfod; 0: the default
	force      *bool    // nil means false
}

func (f *fileFlags) add(s *pflag.FlagSet) {
	s.StringVar(&f.symfs, "symfs", "", "look for ELF files only below this `directory`[,flat]")
	s.StringVar(&f.sysroot, "sysroot", "", "look for ELF files below this `directory` first")
	s.StringVarP(&f.vmlinux, "vmlinux", "k", "", "read the kernel from this vmlinux `file`")
	s.StringVar(&f.debuginfod, "debuginfod", "", "fetch from `URLs` (or $DEBUGINFOD_URLS); no: none")
	s.Var(&f.maxFetched, "debuginfod-max", "fetch no larger files than this `size` (default 2G)")
}

// check returns an error for values that name nothing.
func (f *fileFlags) check() error {
	if f.debuginfod == "no" {
		return nil
	}
	if err := debuginfod.Check(f.debuginfod); err != nil {
		return cli.WrongUse("--debuginfod: %v, or no", err)
	}
	return nil
}

// files locates ELF files, on this machine and on debuginfod servers.
type files struct {
	dso.Locator
	servers *debuginfod.Client // nil: do not fetch files
}

// tree returns the files that --symfs names.
func (f *fileFlags) tree() dso.Tree {
	root, flat := strings.CutSuffix(f.symfs, ",flat")
	return dso.Tree{Root: strings.TrimSuffix(root, ",hierarchy"), Flat: flat}
}

// open returns the files that the flags name, or the files of the archive packed if it is not nil: gperf reads no other
// files of this machine then, except debug information in the store of an archive that gperf push wrote to path. bar
// shows the progress of downloads.
func (f *fileFlags) open(packed *archive.Archive, path string, bar *cli.Progress) *files {
	l := &files{Locator: dso.Locator{Tree: f.tree()}}
	if packed != nil && f.symfs == "" {
		l.Locator = *packed.Locator()
	}
	l.Sysroot, l.VmlinuxPath = f.sysroot, f.vmlinux
	l.Force = f.force != nil && *f.force
	urls := f.debuginfod
	switch {
	case urls == "" && packed != nil:
		if urls = push.StoreOf(path); urls == "" {
			return l
		}
	case urls == "":
		urls = os.Getenv("DEBUGINFOD_URLS")
	case urls == "no":
		return l
	}
	if l.servers = debuginfod.New(urls); l.servers == nil {
		return l
	}
	if f.maxFetched > 0 {
		l.servers.MaxSize = int64(f.maxFetched)
	}
	l.Fetch, l.FetchCode = l.servers.Find, packed != nil
	l.servers.Progress = func(p debuginfod.Progress) {
		const step = "asking debuginfod"
		if p.Files == 0 {
			bar.Done(step)
			return
		}
		bar.Bytes(step, p.Bytes, p.Size)
	}
	return l
}

// warnServers lists the servers that failed.
func (l *files) warnServers(stderr io.Writer) {
	if l.servers == nil {
		return
	}
	for _, dead := range l.servers.Dead() {
		fmt.Fprintf(stderr, "gperf: debuginfod %v; it was not asked again (--debuginfod=no asks none)\n", dead)
	}
}
