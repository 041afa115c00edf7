package probe

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"gperf/record/probe/args"
	"gperf/record/tracefs"
)

// Format describes the raw data of a kprobe or kretprobe without arguments, as the event with
// number id.
func (p *Probe) Format(id uint16) []byte {
	word := func(name string, n int) tracefs.FormatField {
		return tracefs.FormatField{Type: "unsigned long", Name: name, Offset: tracefs.CommonSize + 8*n, Size: 8}
	}
	if p.Kind.Return() {
		words := []tracefs.FormatField{word("__probe_func", 0), word("__probe_ret_ip", 1)}
		return tracefs.FormatText(p.Event, id, words,
			`"(%lx <- %lx)", REC->__probe_func, REC->__probe_ret_ip`)
	}
	return tracefs.FormatText(p.Event, id, []tracefs.FormatField{word("__probe_ip", 0)}, `"(%lx)", REC->__probe_ip`)
}

// lengthField matches a field with the length of a string.
var lengthField = regexp.MustCompile(`\tfield:\w+ (\w+)` + args.LengthSuffix + `;`)

// arrayField matches an array of numbers without a length in the type.
var arrayField = regexp.MustCompile(`\tfield:[us](8|16|32|64) \w+\[\];\toffset:\d+;\tsize:(\d+);`)

// EditFormat adds properties that the kernel's format of a probe lacks: where strings with a
// length end, which numbers are floating-point ones, and how long arrays are. read are the
// probe's arguments, nil if unknown. The formats of other events stay unchanged.
func EditFormat(text []byte, read []args.Arg) []byte {
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
	for _, a := range read {
		if a.Float {
			fields = regexp.MustCompile(`\tfield:u(32|64) `+a.Name+`([;[])`).ReplaceAllStringFunc(fields,
				func(s string) string {
					return strings.NewReplacer("u32", "float", "u64", "double").Replace(s)
				})
		}
	}
	return []byte(fields + "\nprint fmt:" + print)
}

// editText changes an array of words into a text whose length is in another field.
func editText(fields, print, name string) (string, string) {
	length := name + args.LengthSuffix
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
