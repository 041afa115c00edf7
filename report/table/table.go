// Package table keeps the samples of recordings in columns: a Loader reads recordings once into a Table, and a Table
// counts the samples that a Filter selects, by function, by call tree and by time, in milliseconds.
//
// A Table contains an entry per sample in each column, or per sum of samples (AddStacks), and one per distinct stack in
// a tree of nodes. A count passes over the columns once, and over the tree once: the cost grows with neither the depth
// of stacks nor the length of names.
package table

import (
	"gperf/internal/session"
	"gperf/report/key"
)

// Table is the samples of one or more recordings. It is immutable, so that any goroutine may read it.
type Table struct {
	Recordings []Recording
	Events     []Event
	Threads    []Thread
	Groups     []Group
	DSOs       []DSO
	Functions  []Function
	Frames     []Frame
	// Nodes is the tree of all stacks. Callers precede callees, and Nodes[0] is the root, which calls the outermost
	// frames.
	Nodes []Node
	// Stacks is the innermost node of each stack, by the numbers in Columns.Stack. Several stacks may end at the same
	// node.
	Stacks []int32
	Columns
	// Origins holds a frame of each function, with Loader.Exact only.
	Origins []*session.Frame

	firstChild, nextSibling []int32 // by node, -1 for none
	outer                   []bool  // by node: no caller is a frame of the same function
	function                []int32 // by node, -1 for the root
	nodesOf, sampledOf      lists   // by function: the function's nodes, and the nodes of stacks sampled in it
}

// Columns contains a value per entry in each slice. The entries of a recording are consecutive, in the order of time.
type Columns struct {
	Time   []uint64 // ns, on the recording's clock
	Event  []uint16 // index in Table.Events
	Thread []int32  // index in Table.Threads
	CPU    []int16  // -1 if unknown
	Stack  []int32  // index in Table.Stacks
	Weight []uint64 // period, in the event's unit
	Group  []int32  // index in Table.Groups, -1 for none
	Flags  []Flags
	// Samples is the number of samples of the entry, with AddStacks; nil: one each.
	Samples []uint64
}

// Flags are properties of a sample.
type Flags uint8

// Idle means that the sample shows a CPU or a thread without work, see session.Session.Idle.
const Idle Flags = 1

// guest means that the sample was taken in a virtual machine.
const guest Flags = 2

// Recording is an added recording.
type Recording struct {
	Path     string
	Baseline bool
	Cmdline  []string
	About    []string // facts such as "hostname: server", one per line
	Start    int      // index of the first entry
	Samples  int      // number of entries
	// First and Last are the times of the first and last samples, in ns.
	First, Last uint64
}

// Event is an event. Events of several recordings are one if the names are equal.
type Event struct {
	Name string
	Unit string // of the weights: "nanoseconds", or "count"
	Kind Kind
	// Clock: the weights are CPU time.
	Clock bool
}

// Kind is the kind of an event's samples.
type Kind uint8

const (
	OnCPU  Kind = iota // the activity of a CPU, at regular intervals
	Mark               // something that happened
	Drop               // a dropped packet
	Span               // a pair of events. The weight is the time from one to the other, which is the sample's time
	Wait               // a thread did not run. The weight is how long, until the sample's time
	Waking             // the stack of the thread that ended a wait
	Bucket             // several spans that last about as long
)

// Thread is a thread of a recording, with one of the names.
type Thread struct {
	Recording int32
	PID, TID  int32
	Comm      string // of the samples; of those that came before the first name, the first name
	Recorded  string // the same, but ":TID" before the first name
	Last      string // the last name
	Process   string // name of the process's first thread
}

// Group is the values of fields that some samples share, such as the reason and location of drops.
type Group struct{ Values []key.Value }

// DSO is a file of functions.
type DSO struct {
	Name  string // as perf prints it: a path, or "[kernel.kallsyms]"
	Short string
}

// Function is a function. Functions of several recordings with the same name and DSO are one.
type Function struct {
	Name    string // demangled; the DSO's name in brackets for addresses without a symbol
	DSO     int32
	Kernel  bool
	Unnamed bool // addresses without a symbol
	JIT     bool // code of a compiler or interpreter at run time
	Label   bool // the name of a command or a field's value, see AddStacks
	// With Loader.Exact only: the symbol's address in the DSO, or the address itself, and whether it is inlined into
	// the function of this symbol.
	Start   uint64
	Inlined bool
}

// Frame is a line of a function.
type Frame struct {
	Function int32
	File     string // "" if unknown
	Line     int32  // 0 if unknown
	Start    int32  // line of the function's declaration, 0 if unknown
	Inlined  bool   // into the function of the calling frame
	// With Loader.Exact only: the distance from the symbol's address in bytes, and whether a call returns there.
	Off    uint64
	Return bool
}

// Node is a frame with callers.
type Node struct{ Parent, Frame int32 }

// Len returns the number of entries.
func (t *Table) Len() int { return len(t.Time) }

// sum returns the sum of an entry.
func (t *Table) sum(i int) Sum {
	if t.Samples == nil {
		return Sum{t.Weight[i], 1}
	}
	return Sum{t.Weight[i], t.Samples[i]}
}

// FunctionOf returns the function of a node, -1 for the root.
func (t *Table) FunctionOf(node int32) int32 {
	if node == 0 {
		return -1
	}
	return t.function[node]
}

// lists are lists of nodes by function, one after another.
type lists struct{ starts, nodes []int32 }

func (l *lists) of(function int32) []int32 { return l.nodes[l.starts[function]:l.starts[function+1]] }

// newLists makes the lists of nodes, whose functions come from functionOf.
func newLists(functions int, nodes []int32, functionOf func(node int32) int32) lists {
	l := lists{make([]int32, functions+2), make([]int32, len(nodes))}
	for _, node := range nodes {
		l.starts[functionOf(node)+2]++
	}
	for i := 2; i < len(l.starts); i++ {
		l.starts[i] += l.starts[i-1]
	}
	for _, node := range nodes {
		at := &l.starts[functionOf(node)+1]
		l.nodes[*at] = node
		*at++
	}
	l.starts = l.starts[:functions+1]
	return l
}

// index computes the data about the tree that the queries need.
func (t *Table) index() {
	t.function = make([]int32, len(t.Nodes))
	t.function[0] = -1
	all := make([]int32, 0, len(t.Nodes))
	for i := 1; i < len(t.Nodes); i++ {
		t.function[i] = t.Frames[t.Nodes[i].Frame].Function
		all = append(all, int32(i))
	}
	t.nodesOf = newLists(len(t.Functions), all, t.FunctionOf)
	ends, seen := []int32{}, make([]bool, len(t.Nodes))
	for _, node := range t.Stacks {
		if node > 0 && !seen[node] {
			seen[node] = true
			ends = append(ends, node)
		}
	}
	t.sampledOf = newLists(len(t.Functions), ends, func(node int32) int32 { return t.FunctionOf(t.Sampled(node)) })
	t.firstChild, t.nextSibling = make([]int32, len(t.Nodes)), make([]int32, len(t.Nodes))
	t.outer = make([]bool, len(t.Nodes))
	for i := range t.Nodes {
		t.firstChild[i] = -1
	}
	for i := len(t.Nodes) - 1; i > 0; i-- {
		p := t.Nodes[i].Parent
		t.nextSibling[i], t.firstChild[p] = t.firstChild[p], int32(i)
	}
	t.nextSibling[0] = -1
	t.markOuter()
}

// markOuter walks the tree depth first, and counts how often each function is on the way.
func (t *Table) markOuter() {
	open := make([]int32, len(t.Functions))
	at := int32(0)
	for down := true; ; {
		if child := t.firstChild[at]; down && child >= 0 {
			at = child
			t.outer[at] = open[t.FunctionOf(at)] == 0
			open[t.FunctionOf(at)]++
			continue
		}
		if at == 0 {
			return
		}
		open[t.FunctionOf(at)]--
		if down = t.nextSibling[at] >= 0; down {
			at = t.nextSibling[at]
			t.outer[at] = open[t.FunctionOf(at)] == 0
			open[t.FunctionOf(at)]++
		} else {
			at = t.Nodes[at].Parent
		}
	}
}
