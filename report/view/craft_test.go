package view

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gperf/report/key"
	"gperf/report/table"
)

// hostile is a name that would run a script if a page wrote it as markup.
const hostile = `</script><img src=x onerror=document.title='owned'>`

// Functions of the crafted table.
const (
	pushBack = "void std::vector<int, std::allocator<int> >::push_back(int&&)"
	compute  = "app::compute(app::Request const&)"
	fib      = "fib"
	sysRead  = "ksys_read"
)

// crafter builds a table.
type crafter struct {
	table.Table
	functions map[string]int32
	nodes     map[table.Node]int32
	source    string
}

// craft returns a table of one process with three threads, on two CPUs, for 10 seconds: "worker" computes in its first
// half and reads in its second, "helper" computes Fibonacci numbers, and "net" drops packets. Half of the time of the
// worker is in pushBack, at line 4 of a source file. With baseline, another recording has more of fib, before it.
func craft(t *testing.T, baseline bool) *table.Table {
	t.Helper()
	c := &crafter{functions: map[string]int32{}, nodes: map[table.Node]int32{}}
	c.source = filepath.Join(t.TempDir(), "app.cpp")
	text := "int compute() {\n  int sum = 0;\n  for (;;)\n    v.push_back(1); // <b>hot</b>\n  return sum;\n}\n"
	if err := os.WriteFile(c.source, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c.Nodes = []table.Node{{Parent: -1, Frame: -1}}
	c.DSOs = []table.DSO{{Name: "/usr/bin/app", Short: "app"},
		{Name: "[kernel.kallsyms]", Short: "[kernel.kallsyms]"}}
	c.Events = []table.Event{{Name: "cpu-clock", Unit: "nanoseconds", Clock: true},
		{Name: "skb:kfree_skb", Unit: "count", Kind: table.Drop},
		{Name: "offcpu-time", Unit: "nanoseconds", Kind: table.Wait},
		{Name: "span:syscalls", Unit: "nanoseconds", Kind: table.Span}}
	for _, reason := range []string{"NO_SOCKET", "TCP_FLAGS"} {
		c.Groups = append(c.Groups, table.Group{Values: []key.Value{{Key: "reason", Text: reason},
			{Key: "location", Text: "udp_rcv+0x4b"}}})
	}
	if baseline {
		c.record("old.data", true, 3)
	}
	c.record("new.data", false, 1)
	return &c.Table
}

// record adds the samples of a recording, a millisecond from one to the next.
func (c *crafter) record(path string, baseline bool, fibs int) {
	r := table.Recording{Path: path, Baseline: baseline, Start: len(c.Time), First: 5_000_000_000,
		Cmdline: []string{"gperf", "record", "--", hostile}}
	number, first := int32(len(c.Recordings)), int32(len(c.Threads))
	for i, comm := range []string{"worker", "helper", "net"} {
		c.Threads = append(c.Threads, table.Thread{Recording: number, PID: 100, TID: 100 + int32(i), Comm: comm,
			Process: "app"})
	}
	read := []string{"main", "read", sysRead}
	for ms := range 10_000 {
		r.Last = r.First + uint64(ms)*1_000_000
		switch {
		case ms < 5_000:
			c.add(r.Last, 0, first, 0, []string{"main", compute, pushBack}, 1e6, -1)
		case ms%10 == 0:
			c.add(r.Last, 0, first, 0, read, 1e6, -1)
			c.add(r.Last, 2, first, 0, read, 9e6, -1)
			c.add(r.Last, 3, first, 0, read, 9e6, -1)
		}
		if ms%4 < fibs {
			c.add(r.Last, 0, first+1, 1, []string{"main", fib, fib, fib}, 1e6, -1)
		}
		if ms%100 == 0 {
			c.add(r.Last, 1, first+2, 1, []string{"net_rx_action", hostile}, 1, int32(ms/100%3/2))
		}
	}
	r.Samples = len(c.Time) - r.Start
	c.Recordings = append(c.Recordings, r)
}

func (c *crafter) add(time uint64, event uint16, thread int32, cpu int16, stack []string, weight uint64, group int32) {
	node := int32(0)
	for _, name := range stack {
		node = c.node(table.Node{Parent: node, Frame: c.frame(name)})
	}
	c.Time, c.Event, c.Thread = append(c.Time, time), append(c.Event, event), append(c.Thread, thread)
	c.CPU, c.Stack, c.Weight = append(c.CPU, cpu), append(c.Stack, node), append(c.Weight, weight)
	c.Group, c.Flags = append(c.Group, group), append(c.Flags, 0)
}

// node returns the number of a node, which is also that of its stack.
func (c *crafter) node(n table.Node) int32 {
	i, ok := c.nodes[n]
	if !ok {
		i = int32(len(c.Nodes))
		c.nodes[n] = i
		c.Nodes = append(c.Nodes, n)
	}
	for int32(len(c.Stacks)) <= i {
		c.Stacks = append(c.Stacks, int32(len(c.Stacks)))
	}
	return i
}

// frame returns the only frame of a function.
func (c *crafter) frame(name string) int32 {
	i, ok := c.functions[name]
	if !ok {
		i = int32(len(c.Functions))
		c.functions[name] = i
		f := table.Function{Name: name, Kernel: strings.HasPrefix(name, "ksys") || strings.HasPrefix(name, "net_")}
		frame := table.Frame{Function: i}
		if f.Kernel {
			f.DSO = 1
		}
		switch name {
		case pushBack:
			frame.File, frame.Line, frame.Start = c.source, 4, 1
		case compute:
			frame.File, frame.Line, frame.Start = c.source, 3, 1
		}
		c.Functions, c.Frames = append(c.Functions, f), append(c.Frames, frame)
	}
	return i
}
