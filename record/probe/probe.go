// Package probe answers "where and how does the kernel have to stop for this
// probe?": it finds the places that the words of -e and of perf probe mean, in
// the kernel and in programs, and has the kernel watch them, through tracefs'
// kprobe_events and uprobe_events. There each becomes a tracepoint; recording
// that is package record's.
//
// A glossary: a probe is one place and what to read there. A kprobe is in the
// kernel, a uprobe in a file of code, whoever runs it; kretprobes and
// uretprobes run when the function returns. The definition of a probe is the
// line that those files take (Documentation/trace/kprobetrace.rst and
// uprobetracer.rst).
//
// Finder.Functions and Finder.Marks list what can be probed in a file of code:
// its functions, and the USDT probes that its author put into it.
package probe

import (
	"fmt"
	"strings"
)

// Kind is what a probe is in, and when it runs.
type Kind uint8

// Kinds of probes.
const (
	Kprobe Kind = iota
	Kretprobe
	Uprobe
	Uretprobe
)

func (k Kind) String() string { return [...]string{"kprobe", "kretprobe", "uprobe", "uretprobe"}[k] }

// User tells whether the probe is in a file of code, not in the kernel.
func (k Kind) User() bool { return k >= Uprobe }

// Return tells whether the probe runs when the function returns.
func (k Kind) Return() bool { return k == Kretprobe || k == Uretprobe }

// define is what a definition begins with.
func (k Kind) define(group, event string) string {
	if k.Return() {
		return "r:" + group + "/" + event
	}
	return "p:" + group + "/" + event
}

// Probe is one probe.
type Probe struct {
	Kind         Kind
	Group, Event string // as files name it, and perf: "probe", "ip_rcv"

	Module string // of the kernel; "" for the kernel itself
	Symbol string // of the kernel's function
	Path   string // of the file of code, as the kernel is to open it
	Off    uint64 // bytes behind Symbol, or in the file
	// FromText is where the kernel's function begins, in bytes behind _text: the
	// kernel finds it at once by that, and names can stand for several. 0: not known.
	FromText uint64
	Address  uint64 // of a module's function whose name stands for several; else 0
	Glob     string // the spec that means this among others; "" where it means this alone
	// Of the kernel's functions: where it begins, 0 if that is hidden; whether its
	// name stands for several; whether ftrace is known to stop there.
	entry             uint64
	ambiguous, traced bool
	// Semaphore is where in the file the counter is that tells a program that
	// somebody watches (USDT); 0: there is none.
	Semaphore uint64
	markArgs  []markArg // of USDT
	// AtReturn says that a uprobe sits on an instruction that returns from the
	// function: what is returned is in the registers. Go programs, which move their
	// stacks, are probed like that; a uretprobe, which leaves an address of its own
	// on the stack, would crash them.
	AtReturn bool

	Args []Arg
}

// Arg is a value that the probe reads.
type Arg struct {
	Name  string
	Fetch string // how the kernel gets at it, and its type: "+112(%di):u32"
	// Float says that the number, which the kernel takes for an integer, is a floating-point one.
	Float bool
	// Text says that the array of words is text.
	Text bool
}

// LengthSuffix ends the name of the argument that has the length in bytes of the text
// in the argument of that name: the kernel reads strings up to a NUL, which Go's and
// Rust's do not have. That argument is an array of words.
const LengthSuffix = "__len"

// returns tells whether the function's value is there.
func (p *Probe) returns() bool { return p.Kind.Return() || p.AtReturn }

// String is the probe's name as an event.
func (p *Probe) String() string { return p.Group + ":" + p.Event }

// Definition is the line that makes the kernel's tracepoint group/event of the probe.
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

// kernelPlace is the place in the kernel as kprobe_events takes it.
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
