package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"gperf/record"
	"gperf/record/doctor"
	"gperf/record/probe"
	"gperf/record/probe/kernel"
	"gperf/record/probe/program"
)

func kernelFunctionHint(e *kernel.NoFunctionError) string {
	if !e.Loaded {
		return fmt.Sprintf("Load it first:    modprobe %s\n", e.Module)
	}
	return inlinedHint(e.Name)
}

func followHint(e *record.FollowError) string {
	switch {
	case e.Instead != "":
		return ""
	case errors.Is(e.Err, record.ErrNoKprobes):
		return "--follow without functions follows packets at tracepoints.\n"
	case errors.Is(e.Err, probe.ErrHidden):
		return line(doctor.This().WhyHidden())
	}
	return noTypes
}

const noTypes = "This needs the kernel's types: /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF).\n"

func accessHint(e *probe.AccessError) string {
	kind := strings.TrimSuffix(e.File, "_events")
	switch {
	case errors.Is(e.Err, fs.ErrNotExist):
		return fmt.Sprintf("It was built without CONFIG_%s_EVENTS. `gperf list tracepoint` lists tracepoints.\n",
			strings.ToUpper(kind))
	case errors.Is(e.Err, fs.ErrPermission):
		return line(doctor.This().WhyNotWritten())
	case errors.Is(e.Err, syscall.EROFS):
		return "tracefs is mounted read-only:    mount -o remount,rw /sys/kernel/tracing\n"
	}
	return ""
}

// installHint marks the position of the error in the probe's definition.
func installHint(e *probe.InstallError) string {
	switch {
	case errors.Is(e.Err, syscall.EILSEQ):
		return fmt.Sprintf("A disassembly shows where instructions start:    objdump -d --disassemble=%s vmlinux\n",
			e.Probe.Symbol)
	case e.Why != "":
		return fmt.Sprintf("Probe its callers or callees instead: gperf list 'kprobe:*%s*'\n", e.Probe.Symbol)
	case e.Log == "":
		return ""
	case e.Column < 0:
		return "    " + e.Line + "\n"
	}
	return fmt.Sprintf("    %s\n    %*s^\n", e.Line, e.Column, "")
}

func functionHint(e *program.FunctionError) string {
	switch {
	case e.Stripped:
		return fmt.Sprintf("Probe the function by its address (uprobe:%s:0x1234), which its debug package contains\n"+
			"(Debian: NAME-dbgsym). `gperf list 'uprobe:%[1]s:*'` lists the functions with names.\n", e.File)
	case len(e.Near) == 0 && e.Why == "":
		return fmt.Sprintf("`gperf list 'uprobe:%s:*'` lists its functions.\n", e.File)
	}
	return ""
}
