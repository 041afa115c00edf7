// Package record implements "kernel → file": it opens events on a target, and writes the
// records of their ring buffers to a perf.data file.
//
// The flow: ParseEvents turns perf's event strings into Events; Run turns them into attrs
// (attr.go), opens one counter for each event, CPU and thread (open.go), maps one ring for
// each CPU (ring.go), and describes the running processes (synth.go) and the machine
// (features.go). Then it copies the rings' bytes unchanged to the file until its context
// ends, the command exits or the threads exit.
//
// With Options.DWARF, package bpf's programs walk the user stacks, and a ring has two records
// for each sample, which join.go merges into one. The recorder reads the side band on the way
// (sideband.go), follows processes and their mappings (processes.go), and passes these to the
// programs (publish.go), together with the unwind tables of the sampled files, which are made
// in the background (tables.go). Stacks that a program could not walk because a table was
// missing are walked in Go (missed.go).
//
// BPF programs make the samples of raw tracepoints and of large sets of functions; these
// samples take the same way (emit.go).
//
// Package format owns the layout of the file, internal/dso the build IDs, and the caller
// flags, signals and advice: errors are typed (errors.go), warnings go to Options.Notice.
// This is the only package that calls perf_event_open.
package record
