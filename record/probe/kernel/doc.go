// Package kernel finds the places of probes in the kernel: functions in /proc/kallsyms, with the reasons for which
// the kernel rejects probes in some of them, and raw tracepoints, which BTF describes.
package kernel
