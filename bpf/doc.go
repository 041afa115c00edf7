// Package bpf implements the part of a recording that runs in the kernel: it holds the BPF programs that walk user
// stacks (unwind.bpf.c), and those that make samples of events that perf does not have (emit.bpf.c), of pairs of
// events (span.bpf.c) and of waits (offcpu.bpf.c), or count events (count.bpf.c). It loads the programs, and
// passes them data: tables of package unwind, the mappings of processes, and rings to write to.
//
// The constants and structs that C and Go share are declared in Go. For go generate, shared.go writes the declarations
// with a directive to shared.h. The C headers build on each other in this order: kernel.h (the kernel's
// definitions) with shared.h and x86.h (the machine), control.h (the switch), data.h (data from user space),
// state.h (a walk's state), code.h (code without a table), hotspot.h (code of Java virtual machines), copy.h (copies
// of stacks), walk.h (the walk), recorded.h (whether an event is recorded), then sample.h (samples) with
// histogram.h, or selected.h (samples that may contain a packet), or stacks.h (stacks that are sent once). Programs at
// probes include probe.h.
//
// A program that walks stacks is attached to a sampling event. It runs each time before the kernel writes the
// event's sample, writes a record into the same ring ([Head], then return addresses, or registers and a copy of
// the stack if a table or mapping is missing) and lets the sample pass. A [Sampler]'s programs write the sample as
// well; the values and the filter of a raw tracepoint's programs are compiled to instructions for each event
// (fetch.go), but all raw tracepoints share the programs that take the verifier long (selected.h). Package record
// decides which rings there are, tracks the mappings of processes, and processes the records.
//
// The maps change while programs read them. Removed elements keep the old contents for a while (see extents), and
// references are written after the elements that they refer to.
package bpf
