package dso

import "testing"

func TestKindOf(t *testing.T) {
	for name, want := range map[string]Kind{
		"/usr/bin/ls": KindFile, "/usr/bin/ls (deleted)": KindFile, "//toolong": KindFile, "/tmp/perf-bench/prog": KindFile,
		"/tmp/perf-12.map.old": KindFile, "/lib/modules/6.1/kernel/fs/xfs.ko": KindFile, "/tmp/jit-.dump": KindFile,
		"/tmp/jit-x1.dump": KindFile, "/boot/vmlinux": KindFile, "[python]": KindFunctions,
		"": KindAnonymous, "//anon": KindAnonymous, "/dev/zero (deleted)": KindAnonymous,
		"/anon_hugepage (deleted)": KindAnonymous, "[anon:v8]": KindNamedMemory, "[anon_shmem:x]": KindNamedMemory,
		"/memfd:jit (deleted)": KindMemfd, "/dev/hugepages/x": KindHugePages,
		"[heap]": KindProcess, "[stack]": KindProcess, "[stack:12]": KindProcess, "/SYSV00000000 (deleted)": KindProcess,
		"/tmp/perf-12.map": KindPerfMap, "/root/.debug/jit/jit-12.dump": KindJITDump,
		"[vdso]": KindVDSO, "[vdso32]": KindVDSO, "[vsyscall]": KindVsyscall, "[uprobes]": KindUprobes,
		"[kernel.kallsyms]": KindKernel, "[kernel.kallsyms]_text": KindKernel, "[guest.kernel.kallsyms.7]": KindKernel,
		"[xfs]": KindModule, "[]": KindOther, "[x/y]": KindOther, "[xfs": KindOther, "[a.b]": KindOther,
		"anon_inode:[perf_event]": KindOther, "bpf_prog_6deef7357e7b4530_x": KindOther,
	} {
		if got := KindOf(name); got != want {
			t.Errorf("KindOf(%q) = %d, want %d", name, got, want)
		}
	}
}

func TestPerfMapName(t *testing.T) {
	if pid, ok := PerfMapPID(PerfMap(4711)); pid != 4711 || !ok {
		t.Errorf("%d, %t", pid, ok)
	}
	for _, name := range []string{"/tmp/perf-.map", "/tmp/perf-12.map.old", "/tmp/perf-99999999999.map",
		"/var/tmp/perf-1.map"} {
		if pid, ok := PerfMapPID(name); ok {
			t.Errorf("PerfMapPID(%q) = %d, want no PID", name, pid)
		}
	}
}
