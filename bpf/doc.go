// Package bpf answers "what does a recording run in the kernel?": it holds the
// BPF programs that walk user stacks (walk.h, unwind.bpf.c), and those that make
// samples of what perf has no events for (emit.bpf.c), loads them, and gives them
// what they walk by: tables of package unwind, the mappings of processes, and
// rings to write to.
//
// A program that walks is attached to a sampling event, runs each time before the kernel
// writes the event's sample, writes a record of its own into the same ring
// ([Head], then return addresses, or registers and a copy of the stack where
// something is missing here) and lets the sample pass. An [Emitter]'s programs
// write the sample as well; what those of a raw tracepoint read, and which of them are
// left out, is compiled to instructions for each event (fetch.go). Which rings there are, which process has which
// mappings when, and what becomes of the records, is package record's to say.
//
// The maps that the programs read are changed while they run. What is taken out
// of use keeps its contents for a while (see extents), and whatever refers to
// something is written after it.
package bpf
