// Package record answers "kernel → file": it opens events on a target, and
// writes what the kernel puts into their ring buffers to a perf.data file.
//
// The flow: ParseEvents turns perf's event strings into Events; Run turns them
// into attrs (attr.go), opens one counter for each event, CPU and thread
// (open.go), maps one ring for each CPU (ring.go), describes what runs already
// (synth.go) and the machine (features.go), and then moves the rings' bytes to
// the file as they are until its context ends, the command exits or the
// threads are gone.
//
// With Options.DWARF, user stacks are walked by package bpf's programs, and a
// ring has two records for each sample, which become one (join.go). Side band
// is read on the way (sideband.go): what it tells of processes and their
// mappings (processes.go) the programs are given (publish.go), with the unwind
// tables of what was sampled, which are made in the background (tables.go). What
// a program could not walk for want of one is walked here (missed.go).
//
// Raw tracepoints, and functions by the hundred, have BPF programs make their
// samples, which take the same way (emit.go).
//
// It leaves the layout of the file to format, build IDs to symbolize/dso, and
// flags, signals and advice to its caller: what fails is told in typed errors
// (errors.go), what merely turns out differently through Options.Notice. It is
// the only package that calls perf_event_open.
package record
