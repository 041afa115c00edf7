package dso

import (
	"bufio"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// KernelName is perf's name for the DSO of the kernel's own code.
const KernelName = "[kernel.kallsyms]"

// vmlinuxPaths are the paths at which distributions install kernels with symbols; REL is the release. The first
// ones are perf's (vmlinux_path in tools/perf/util/symbol.c), then paths of systemtap, crash and elfutils.
var vmlinuxPaths = []string{
	"/boot/vmlinux-REL",
	"/usr/lib/debug/boot/vmlinux-REL",
	"/lib/modules/REL/build/vmlinux",
	"/usr/lib/debug/lib/modules/REL/vmlinux",
	"/usr/lib/debug/boot/vmlinux-REL.debug",
	"/lib/modules/REL/vmlinux",
	"/usr/lib/debug/lib/modules/REL/vmlinux.debug",
	"/lib/modules/REL/vdso/vmlinux",
}

// Kernels yields the vmlinux files with build ID id in the order in which perf tries them: the files of the running
// release, then of others. If Locator.VmlinuxPath is set, it is the only one. Kernels yields an error for each file
// with another build ID. The caller closes the files.
func (l *Locator) Kernels(id BuildID) iter.Seq2[*Image, error] {
	return func(yield func(*Image, error) bool) {
		if l.VmlinuxPath != "" {
			yield(disk.openMatching(candidate{path: l.VmlinuxPath}, id))
			return
		}
		if id.IsZero() { // any vmlinux would match
			return
		}
		for _, path := range l.kernelPaths(id) {
			im, err := l.openMatching(candidate{path: path}, id)
			if !errors.Is(err, ErrNoFile) && !yield(im, err) {
				return
			}
		}
	}
}

func (t *Tree) kernelPaths(id BuildID) []string {
	l := []string{t.Cache().Path(id, "elf"), t.Rooted("/boot/vmlinux")}
	if rel := osRelease(); rel != "" {
		for _, p := range vmlinuxPaths {
			l = append(l, t.Rooted(strings.ReplaceAll(p, "REL", rel)))
		}
	}
	l = append(l, t.debugPath(id), t.Cache().Path(id, "debug"))
	for _, p := range vmlinuxPaths {
		for _, name := range t.glob(t.Rooted(strings.ReplaceAll(p, "REL", "*"))) {
			if !slices.Contains(l, name) {
				l = append(l, name)
			}
		}
	}
	return slices.DeleteFunc(l, func(name string) bool { return name == "" })
}

// osRelease returns the running kernel's release, or "" if it cannot be read.
func osRelease() string {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Vmlinux returns the vmlinux with build ID id that contains DWARF. The error is a *NoDebugError. The caller closes
// the file.
func (l *Locator) Vmlinux(id BuildID) (*Image, error) {
	im, supp, err := l.debug(KernelName, id, l.Kernels(id))
	supp.Close()
	if im == nil {
		return nil, err
	}
	return im, nil
}

// Kcore opens an archive's copy of the recorded kernel's memory: an ELF file whose segments are some of the kernel's
// functions.
func (l *Locator) Kcore(id BuildID) (*Image, error) {
	if id.IsZero() {
		return l.image(l.Rooted("/proc/kcore"))
	}
	return l.image(l.Cache().proc("kcore", id))
}

// Kallsyms opens the symbols of the kernel with build ID id, which is zero if it was not recorded: /proc/kallsyms if
// that kernel is running, otherwise the copy in perf's cache.
func (l *Locator) Kallsyms(id BuildID) (fs.File, error) {
	if l.Root == "" {
		running, _ := KernelBuildID()
		if id.IsZero() || id.Matches(running) {
			return os.Open("/proc/kallsyms")
		}
	}
	if id.IsZero() {
		return l.OpenFile(l.Rooted("/proc/kallsyms"))
	}
	return l.OpenFile(l.Cache().Kallsyms(id))
}

// modulePaths returns the possible paths of the files of a module, whose name is in brackets. It reads the modules.dep
// of each release.
func (t *Tree) modulePaths(name string) (l []string) {
	name = strings.Trim(name, "[]")
	for _, list := range t.glob(t.Rooted("/lib/modules/*/modules.dep")) {
		file := t.moduleIn(list, name)
		if file == "" {
			continue
		}
		dir := filepath.Join("/lib/modules", filepath.Base(filepath.Dir(list)))
		debug := filepath.Join(t.debugDir(), dir, file)
		l = append(l, debug, debug+".debug", t.Rooted(filepath.Join(dir, file)))
	}
	return l
}

// moduleIn returns a module's path in a modules.dep, without the suffix of a compressed file.
func (t *Tree) moduleIn(list, name string) string {
	fd, err := t.OpenFile(list)
	if err != nil {
		return ""
	}
	defer fd.Close()
	for sc := bufio.NewScanner(fd); sc.Scan(); {
		file, _, _ := strings.Cut(sc.Text(), ":")
		stem, _, _ := strings.Cut(path.Base(file), ".ko")
		if strings.ReplaceAll(stem, "-", "_") == name {
			end := strings.LastIndex(file, ".ko") + len(".ko")
			return file[:end]
		}
	}
	return ""
}
