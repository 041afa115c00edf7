// Package bpf answers "how does the kernel walk a user stack?": it holds the
// BPF programs that do it (walk.h, unwind.bpf.c), loads them, and gives them what they
// walk by: tables of package unwind, the mappings of processes, and rings to
// write to.
//
// A program is attached to a sampling event, runs each time before the kernel
// writes the event's sample, writes a record of its own into the same ring
// ([Head], then return addresses, or registers and a copy of the stack where
// something is missing here) and lets the sample pass. Events that perf does not
// have, the programs of emit.bpf.c make samples of themselves ([Emitter]). Which rings there are,
// which process has which mappings when, and what becomes of the records, is
// package record's to say.
//
// The maps that the programs read are changed while they run. What is taken out
// of use keeps its contents for a while (see extents), and whatever refers to
// something is written after it.
package bpf
