package tracefs

import (
	"fmt"
	"strings"
)

// The texts below describe the raw data of samples that BPF programs write, in the format of
// tracefs: the kernel has no tracepoint for them.

// CommonSize is the size of the common header of all tracepoints' raw data: struct
// trace_entry.
const CommonSize = 8

// FormatField is a field of an event's raw data.
type FormatField struct {
	Type, Name   string // in C
	Offset, Size int    // in bytes
	Signed       bool
}

// String returns the field's line in a format file.
func (f FormatField) String() string {
	signed := 0
	if f.Signed {
		signed = 1
	}
	sep := " "
	if strings.HasSuffix(f.Type, "*") {
		sep = ""
	}
	return fmt.Sprintf("\tfield:%s%s%s;\toffset:%d;\tsize:%d;\tsigned:%d;\n", f.Type, sep, f.Name, f.Offset, f.Size,
		signed)
}

// FormatText returns the format file of the event with number id: the common fields, fields, and
// the print format.
func FormatText(name string, id uint16, fields []FormatField, print string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "name: %s\nID: %d\nformat:\n", name, id)
	for _, f := range []FormatField{
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
