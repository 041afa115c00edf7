package probe

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// If BPF programs make the samples of an event, no tracepoint of the kernel describes its raw
// data: these texts describe it, in the format of tracefs.

// CommonSize is the size of the common header of all tracepoints' raw data: struct
// trace_entry.
const CommonSize = 8

// formatField is a field after the common ones.
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

// formatText returns the format file of an event.
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

// Format describes the raw data of a kprobe or kretprobe without arguments, as the event with
// number id.
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

// lengthField matches a field with the length of a string.
var lengthField = regexp.MustCompile(`\tfield:\w+ (\w+)` + LengthSuffix + `;`)

// arrayField matches an array of numbers without a length in its type.
var arrayField = regexp.MustCompile(`\tfield:[us](8|16|32|64) \w+\[\];\toffset:\d+;\tsize:(\d+);`)

// EditFormat adds properties that the kernel's format of a probe lacks: where strings with a
// length end, which numbers are floating-point ones, and how long arrays are. args are the
// probe's arguments, nil if unknown. The formats of other events stay unchanged.
func EditFormat(text []byte, args []Arg) []byte {
	fields, print, ok := strings.Cut(string(text), "\nprint fmt:")
	if !ok || !strings.Contains(fields, " __probe_") {
		return text
	}
	fields = arrayField.ReplaceAllStringFunc(fields, func(s string) string {
		m := arrayField.FindStringSubmatch(s)
		bits, _ := strconv.Atoi(m[1])
		size, _ := strconv.Atoi(m[2])
		return strings.Replace(s, "[]", fmt.Sprintf("[%d]", 8*size/bits), 1)
	})
	for _, m := range lengthField.FindAllStringSubmatch(fields, -1) {
		fields, print = editText(fields, print, m[1])
	}
	for _, a := range args {
		if a.Float {
			fields = regexp.MustCompile(`\tfield:u(32|64) `+a.Name+`([;[])`).ReplaceAllStringFunc(fields, func(s string) string {
				return strings.NewReplacer("u32", "float", "u64", "double").Replace(s)
			})
		}
	}
	return []byte(fields + "\nprint fmt:" + print)
}

// editText changes an array of words into a text whose length is in another field.
func editText(fields, print, name string) (string, string) {
	length := name + LengthSuffix
	field := regexp.MustCompile(`\tfield:u64 ` + name + `\[\d*\]((?:;\t\w+:\d+){2})`)
	size := regexp.MustCompile(`size:(\d+)`).FindStringSubmatch(field.FindString(fields))
	if size == nil {
		return fields, print
	}
	fields = field.ReplaceAllString(fields, "\tfield:char "+name+"["+size[1]+"]$1")
	for _, edit := range [][2]string{
		{` ` + length + `=%\w+`, ""},
		{`, REC->` + length + `\b`, ""},
		{` ` + name + `=\{[^}]*\}`, ` ` + name + `=\"%.*s\"`},
		{`(?:, REC->` + name + `\[\d+\])+`, ", REC->" + length + ", REC->" + name},
	} {
		print = regexp.MustCompile(edit[0]).ReplaceAllLiteralString(print, edit[1])
	}
	return fields, print
}
