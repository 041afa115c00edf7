package probe

import (
	"fmt"
	"strings"
)

// Where BPF programs make the samples of an event, no tracepoint of the kernel
// describes its raw data: these texts do, written as tracefs writes them.

// CommonSize is how many bytes of raw data all tracepoints have in common:
// struct trace_entry.
const CommonSize = 8

// formatField is a field behind the common ones.
type formatField struct {
	typ, name    string
	offset, size int
	signed       bool
}

// String is the field's line.
func (f formatField) String() string {
	signed := 0
	if f.signed {
		signed = 1
	}
	sep := " "
	if strings.HasSuffix(f.typ, "*") {
		sep = ""
	}
	return fmt.Sprintf("\tfield:%s%s%s;\toffset:%d;\tsize:%d;\tsigned:%d;\n", f.typ, sep, f.name, f.offset, f.size, signed)
}

// formatText is the format file of an event.
func formatText(name string, id uint16, fields []formatField, print string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "name: %s\nID: %d\nformat:\n", name, id)
	for _, f := range []formatField{
		{"unsigned short", "common_type", 0, 2, false},
		{"unsigned char", "common_flags", 2, 1, false},
		{"unsigned char", "common_preempt_count", 3, 1, false},
		{"int", "common_pid", 4, 4, true},
	} {
		b.WriteString(f.String())
	}
	b.WriteByte('\n')
	for _, f := range fields {
		b.WriteString(f.String())
	}
	fmt.Fprintf(&b, "\nprint fmt: %s\n", print)
	return []byte(b.String())
}

// Format describes the raw data of a kprobe or kretprobe without arguments, as
// the event of that number.
func (p *Probe) Format(id uint16) []byte {
	word := func(name string, n int) formatField {
		return formatField{"unsigned long", name, CommonSize + 8*n, 8, false}
	}
	if p.Kind.Return() {
		return formatText(p.Event, id, []formatField{word("__probe_func", 0), word("__probe_ret_ip", 1)},
			`"(%lx <- %lx)", REC->__probe_func, REC->__probe_ret_ip`)
	}
	return formatText(p.Event, id, []formatField{word("__probe_ip", 0)}, `"(%lx)", REC->__probe_ip`)
}
