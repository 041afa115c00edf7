// Package probe resolves probes and installs them: it finds the places that the words of -e
// and of perf probe name, in the kernel and in programs, and defines probes there in the
// kernel, through tracefs' kprobe_events and uprobe_events. Each becomes a tracepoint;
// package record records it.
//
// Package program finds places in files of code, package kernel in the kernel, and package args resolves the
// arguments that a probe reads there.
//
// Glossary: a probe is one place and the values to read there. A kprobe is in the kernel, a
// uprobe in a file of code, for all processes that run it; kretprobes and uretprobes run when
// the function returns. The definition of a probe is a line of those tracefs files
// (Documentation/trace/kprobetrace.rst and uprobetracer.rst).
package probe

import (
	"fmt"
	"strings"

	"gperf/record/probe/args"
	"gperf/record/probe/kernel"
)

// Kind is the kind of a probe.
type Kind uint8

// Kinds of probes.
const (
	Kprobe Kind = iota
	Kretprobe
	Uprobe
	Uretprobe
)

func (k Kind) String() string { return [...]string{"kprobe", "kretprobe", "uprobe", "uretprobe"}[k] }

// User reports whether the probe is in a file of code, not in the kernel.
func (k Kind) User() bool { return k >= Uprobe }

// Return reports whether the probe runs when the function returns.
func (k Kind) Return() bool { return k == Kretprobe || k == Uretprobe }

// define returns the beginning of a definition.
func (k Kind) define(group, event string) string {
	if k.Return() {
		return "r:" + group + "/" + event
	}
	return "p:" + group + "/" + event
}

// Probe is one probe. Resolver.Find makes it; Set.Add defines it in the kernel until Set.Remove,
// Install until Delete.
type Probe struct {
	Kind         Kind
	Group, Event string // the probe's name in files and in perf: "probe", "ip_rcv"

	Module string // kernel module; "" for the kernel itself
	Symbol string // name of the kernel function
	Path   string // path of the file of code, for the kernel to open
	Off    uint64 // offset from Symbol, or in the file
	// FromText is the offset of the kernel function from _text: the kernel resolves it without
	// a search, and names can be ambiguous. 0: unknown.
	FromText uint64
	Address  uint64      // of a module's function with an ambiguous name; else 0
	Glob     string      // the glob that matched this probe; "" for a probe by name
	site     kernel.Site // of kernel functions
	// Semaphore is the offset in the file of the counter by which a program knows that the USDT probe is in use;
	// 0: none.
	Semaphore uint64
	notes     []args.NoteArg // arguments of the USDT probe
	// AtReturn marks a uprobe on an instruction that returns from the function: the return value is in the
	// registers. Go programs, which move stacks, are probed this way; a uretprobe, which replaces the return
	// address on the stack, would crash them.
	AtReturn bool

	Args []args.Arg
}

// returns reports whether the return value is available.
func (p *Probe) returns() bool { return p.Kind.Return() || p.AtReturn }

// String returns the probe's name as an event.
func (p *Probe) String() string { return p.Group + ":" + p.Event }

// Definition returns the line that defines the probe as the kernel's tracepoint group/event.
func (p *Probe) Definition(group, event string) string {
	var b strings.Builder
	b.WriteString(p.Kind.define(group, event) + " ")
	if p.Kind.User() {
		fmt.Fprintf(&b, "%s:%#x", p.Path, p.Off)
		if p.Semaphore != 0 {
			fmt.Fprintf(&b, "(%#x)", p.Semaphore)
		}
	} else {
		b.WriteString(p.kernelPlace())
	}
	for _, a := range p.Args {
		fmt.Fprintf(&b, " %s=%s", a.Name, a.Fetch)
	}
	return b.String()
}

// kernelPlace returns the place in the kernel in the format of kprobe_events.
func (p *Probe) kernelPlace() string {
	switch {
	case p.FromText != 0:
		return fmt.Sprintf("_text+%d", p.FromText+p.Off)
	case p.Address != 0:
		return fmt.Sprintf("%#x", p.Address+p.Off)
	}
	place := p.Symbol
	if p.Module != "" {
		place = p.Module + ":" + place
	}
	if p.Off != 0 {
		place += fmt.Sprintf("+%d", p.Off)
	}
	return place
}
