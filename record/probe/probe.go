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

// Probe is one probe.
type Probe struct {
	Kind         Kind
	Group, Event string // as files name it, and perf: "probe", "ip_rcv"

	Module string // of the kernel; "" for the kernel itself
	Symbol string // of the kernel's function
	Path   string // of the file of code, as the kernel is to open it
	Off    uint64 // bytes behind Symbol, or in the file
	traced bool   // ftrace is known to stop at a function of that name
	// Semaphore is where in the file the counter is that tells a program that
	// somebody watches (USDT); 0: there is none.
	Semaphore uint64

	Args []Arg
}

// Arg is a value that the probe reads.
type Arg struct {
	Name  string
	Fetch string // how the kernel gets at it, and its type: "+112(%di):u32"
}

// String is the probe's name as an event.
func (p *Probe) String() string { return p.Group + ":" + p.Event }

// Definition is the line that makes the kernel's tracepoint group/event of the probe.
func (p *Probe) Definition(group, event string) string {
	var b strings.Builder
	kind := byte('p')
	if p.Kind.Return() {
		kind = 'r'
	}
	fmt.Fprintf(&b, "%c:%s/%s ", kind, group, event)
	if p.Kind.User() {
		fmt.Fprintf(&b, "%s:%#x", p.Path, p.Off)
		if p.Semaphore != 0 {
			fmt.Fprintf(&b, "(%#x)", p.Semaphore)
		}
	} else {
		if p.Module != "" {
			b.WriteString(p.Module + ":")
		}
		b.WriteString(p.Symbol)
		if p.Off != 0 {
			fmt.Fprintf(&b, "+%#x", p.Off)
		}
	}
	for _, a := range p.Args {
		fmt.Fprintf(&b, " %s=%s", a.Name, a.Fetch)
	}
	return b.String()
}

// SpecError is a probe that cannot be meant so.
type SpecError struct{ Spec, Msg string }

func (e *SpecError) Error() string { return fmt.Sprintf("probe %q: %s", e.Spec, e.Msg) }
