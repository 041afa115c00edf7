package doctor

import (
	"errors"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/internal/dso"
	"gperf/internal/procfs"
)

// checkBPF checks whether BPF programs can be loaded.
func checkBPF(m *Machine) Check {
	switch err := m.loadBPF(); {
	case err == nil:
		return ok("programs can be loaded")
	case errors.Is(err, bpf.ErrNotSupported):
		return no(firstLine(err), "a kernel with CONFIG_BPF_SYSCALL and CONFIG_BPF_EVENTS")
	case errors.Is(err, unix.EPERM):
		return no("programs may not be loaded", m.WhyNoBPF(err))
	default:
		return no("programs cannot be loaded: "+firstLine(err), "")
	}
}

// checkBTF checks whether the kernel has BTF.
func checkBTF(m *Machine) Check {
	f, err := os.Open(m.path("sys/kernel/btf/vmlinux"))
	if err != nil {
		return no(err.Error(), "a kernel with CONFIG_DEBUG_INFO_BTF: whole stacks, and arguments of kprobes by "+
			"name, need it")
	}
	f.Close()
	return ok("the kernel describes its types")
}

// checkWholeStacks checks whether the program that walks user stacks can be loaded.
func checkWholeStacks(m *Machine) Check {
	const instead = "-g copies user stacks into the file"
	err := m.loadWalker()
	switch {
	case err == nil:
		return ok("-g walks user stacks in the kernel")
	case errors.Is(err, unix.EPERM):
		return part(instead+": programs may not be loaded", m.WhyNoBPF(err))
	}
	return part(instead+": "+firstLine(err), "gperf record -g -v prints the kernel's messages")
}

// checkKernelSymbols checks whether this user can read the addresses of kernel functions.
func checkKernelSymbols(m *Machine) Check {
	f, err := os.Open(m.path("proc/kallsyms"))
	if err != nil {
		return no(err.Error(), "a kernel with CONFIG_KALLSYMS")
	}
	defer f.Close()
	restrict, _ := m.read("proc/sys/kernel/kptr_restrict")
	for s := range procfs.Symbols(f) {
		switch {
		case s.Type != 't' && s.Type != 'T': // absolute symbols and per-CPU symbols may be at 0
		case s.Addr == 0:
			return no("/proc/kallsyms hides addresses from this user: kernel frames will have no names", m.WhyHidden())
		default:
			return ok("/proc/kallsyms shows addresses (kernel.kptr_restrict is " + restrict + ")")
		}
	}
	return no("/proc/kallsyms shows no functions", "a kernel with CONFIG_KALLSYMS")
}

// checkKernelDebuginfo checks whether the vmlinux of the running kernel is installed.
func checkKernelDebuginfo(m *Machine) Check {
	release, _ := m.read("proc/sys/kernel/osrelease")
	id, _ := dso.KernelBuildID()
	paths := []string{"usr/lib/debug/boot/vmlinux-" + release, "usr/lib/debug/lib/modules/" + release + "/vmlinux",
		"usr/lib/debug/vmlinux-" + release, "lib/modules/" + release + "/build/vmlinux", "boot/vmlinux-" + release}
	version, _ := m.read("proc/version")
	if d := m.distributions(); len(d) > 0 && (d[0] == "debian" || d[0] == "ubuntu") &&
		!strings.Contains(strings.ToLower(version), d[0]) {
		return checkDebuginfo(m, id, paths,
			map[string]string{d[0]: "this kernel is not the distribution's: get its vmlinux from its builder"})
	}
	return checkDebuginfo(m, id, paths, map[string]string{
		"debian": "apt install linux-image-" + release + "-dbg", "ubuntu": "apt install linux-image-" + release +
			"-dbgsym (ddebs.ubuntu.com)",
		"fedora": "dnf debuginfo-install kernel", "suse": "zypper install kernel-default-debuginfo"})
}

// checkLibcDebuginfo checks whether the C library's debug information is installed.
func checkLibcDebuginfo(m *Machine) Check {
	for _, p := range []string{"lib/x86_64-linux-gnu/libc.so.6", "lib/aarch64-linux-gnu/libc.so.6", "lib64/libc.so.6",
		"usr/lib/libc.so.6"} {
		if !m.exists(p) {
			continue
		}
		id, err := dso.BuildIDOf(m.path(p))
		if err != nil {
			return part("/"+p+": "+err.Error(), "")
		}
		return checkDebuginfo(m, id, nil, map[string]string{"debian": "apt install libc6-dbg",
			"ubuntu": "apt install libc6-dbg",
			"fedora": "dnf debuginfo-install glibc", "suse": "zypper install glibc-debuginfo"})
	}
	return part("no C library in the usual places", "")
}

// checkDebuginfo looks for the file with the debug information of a build ID: below
// /usr/lib/debug/.build-id, or at one of the paths. packages are the commands to install it,
// by distribution.
func checkDebuginfo(m *Machine, id dso.BuildID, paths []string, packages map[string]string) Check {
	hex := id.String()
	if len(hex) > 2 {
		paths = append([]string{"usr/lib/debug/.build-id/" + hex[:2] + "/" + hex[2:] + ".debug"}, paths...)
	}
	other := ""
	for _, p := range paths {
		if !m.exists(p) {
			continue
		}
		found, err := dso.BuildIDOf(m.path(p))
		if err == nil && (id.IsZero() || found.Matches(id)) {
			return ok("/" + p)
		}
		other = " (/" + p + " is of another build)"
	}
	remedy := "install it, or set DEBUGINFOD_URLS"
	for _, d := range m.distributions() {
		if p, known := packages[d]; known {
			remedy = p
			break
		}
	}
	return part("not installed"+other, remedy)
}

// distributions returns the ids of this distribution and of similar ones, from os-release.
func (m *Machine) distributions() (l []string) {
	text, _ := m.read("etc/os-release")
	var like []string
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		words := strings.Fields(strings.Trim(value, `"'`))
		switch key {
		case "ID":
			l = words
		case "ID_LIKE":
			like = words
		}
	}
	return append(l, like...)
}

// checkDebuginfod reports the server of debug information.
func checkDebuginfod(m *Machine) Check {
	if urls := os.Getenv("DEBUGINFOD_URLS"); urls != "" {
		return ok("DEBUGINFOD_URLS is " + urls)
	}
	return part("DEBUGINFOD_URLS is not set",
		"export DEBUGINFOD_URLS="+debuginfodServer(m)+": gperf, perf and gdb fetch symbols and source lines from it")
}

// debuginfodServer returns the distribution's server.
func debuginfodServer(m *Machine) string {
	for _, d := range m.distributions() {
		if host, ok := map[string]string{"debian": "debian.net", "ubuntu": "ubuntu.com",
			"fedora": "fedoraproject.org", "arch": "archlinux.org"}[d]; ok {
			return "https://debuginfod." + host
		}
	}
	return "https://debuginfod.elfutils.org"
}

// checkPerf reports whether perf is installed.
func checkPerf(m *Machine) Check {
	if path, err := exec.LookPath("perf"); err == nil {
		return ok(path + ", which gperf does not need")
	}
	return ok("not installed, nor needed")
}
