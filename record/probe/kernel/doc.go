// Package kernel answers: where in the kernel can a probe be? It finds functions in
// /proc/kallsyms, with the reasons for which the kernel rejects probes in some of them, and
// describes raw tracepoints by BTF.
package kernel
