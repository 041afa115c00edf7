package dso

import (
	"bufio"
	"errors"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// KernelName is perf's name of the kernel's own code.
const KernelName = "[kernel.kallsyms]"

// kernelPlaces are where distributions install kernels with symbols, REL being a
// release: those of perf (vmlinux_path in tools/perf/util/symbol.c), then those of
// systemtap, crash and elfutils.
var kernelPlaces = []string{
	"/boot/vmlinux-REL",
	"/usr/lib/debug/boot/vmlinux-REL",
	"/lib/modules/REL/build/vmlinux",
	"/usr/lib/debug/lib/modules/REL/vmlinux",
	"/usr/lib/debug/boot/vmlinux-REL.debug",
	"/lib/modules/REL/vmlinux",
	"/usr/lib/debug/lib/modules/REL/vmlinux.debug",
	"/lib/modules/REL/vdso/vmlinux",
}

// Kernels yields the vmlinux files with the given build ID in the order in which
// perf tries them: those of the running release, then of others. If
// Locator.VmlinuxPath is set, it is the only one. Files with another build ID are
// yielded as errors. The caller closes the files.
func (f *Locator) Kernels(id BuildID) iter.Seq2[*Image, error] {
	return func(yield func(*Image, error) bool) {
		if f.VmlinuxPath != "" {
			yield(onDisk.open(candidate{name: f.VmlinuxPath}, id))
			return
		}
		if id.IsZero() { // no file can be trusted to be the right one
			return
		}
		for _, name := range f.kernelFiles(id) {
			im, err := f.open(candidate{name: name}, id)
			if !errors.Is(err, ErrNoFile) && !yield(im, err) {
				return
			}
		}
	}
}

func (f *Locator) kernelFiles(id BuildID) []string {
	l := []string{f.CachePath(id, "elf"), f.Rooted("/boot/vmlinux")}
	if rel := osRelease(); rel != "" {
		for _, p := range kernelPlaces {
			l = append(l, f.Rooted(strings.ReplaceAll(p, "REL", rel)))
		}
	}
	l = append(l, debugDirBuildID(f, "", id), f.CachePath(id, "debug"))
	for _, p := range kernelPlaces {
		for _, name := range f.glob(f.Rooted(strings.ReplaceAll(p, "REL", "*"))) {
			if !slices.Contains(l, name) {
				l = append(l, name)
			}
		}
	}
	return slices.DeleteFunc(l, func(name string) bool { return name == "" })
}

// osRelease is the running kernel's, "" where it cannot be read.
func osRelease() string {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Vmlinux returns the kernel with build ID id and its DWARF. The error is a
// *NoDebugError. The receiver closes the file.
func (f *Locator) Vmlinux(id BuildID) (*Image, error) {
	im, supp, err := f.debug(KernelName, id, f.Kernels(id))
	supp.Close()
	if im == nil {
		return nil, err
	}
	return im, nil
}

// Kcore opens an archive's copy of the recorded kernel's memory: an ELF file whose
// segments are some of its functions.
func (f *Locator) Kcore(id BuildID) (*Image, error) {
	if id.IsZero() {
		return f.image(f.Rooted("/proc/kcore"))
	}
	return f.image(f.procPath("kcore", id))
}

// moduleFiles are where the module called name, in brackets, may lie: below
// modules.dep of any release.
func (f *Locator) moduleFiles(name string) (l []string) {
	name = strings.Trim(name, "[]")
	for _, list := range f.glob(f.Rooted("/lib/modules/*/modules.dep")) {
		file := f.moduleIn(list, name)
		if file == "" {
			continue
		}
		dir := filepath.Join("/lib/modules", filepath.Base(filepath.Dir(list)))
		debug := filepath.Join(f.debugDir(), dir, file)
		l = append(l, debug, debug+".debug", f.Rooted(filepath.Join(dir, file)))
	}
	return l
}

// moduleIn returns the file of a module as a modules.dep has it, without what it
// is compressed with.
func (f *Locator) moduleIn(list, name string) string {
	fd, err := f.OpenFile(list)
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

// isModule distinguishes a module's name in brackets from other names in brackets.
func isModule(name string) bool {
	return len(name) > 2 && name[0] == '[' && name[len(name)-1] == ']' && name != VDSO && name != KernelName && !strings.ContainsAny(name, "/ :.")
}
