// This file folds the text of perf script as FlameGraph's stackcollapse-perf.pl does. It is the oracle for gperf's
// own folded output, so it reads text, not perf.data, and only tests import it.
//
// Fold copies the oddities of stackcollapse-perf.pl:
//
//   - A sample starts at a line that begins in column one with a command of at least two characters, blanks,
//     and a number. perf pads commands to 16 columns in samples without a callchain, so these are
//     ignored, including the frames. A command of one letter includes the blank after it
//     ("a_"), and a command that contains a number ends before it.
//   - A sample counts only when an empty line ends it.
//   - The event is known only if it ends the line. Fold uses the first known event. Tracepoints print
//     their fields after the name; Fold uses all of them and counts each sample as 1.
//   - "->" splits a frame into inlined functions, even in operator->.

package recording

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// FoldOptions are the options of stackcollapse-perf.pl. The zero value is the script's default, and the script's
// --all means Kernel and JIT.
type FoldOptions struct {
	Pid    bool   // --pid: the command is comm-pid, or comm-? where the text contains only tids
	Tid    bool   // --tid: the command is comm-pid/tid
	Kernel bool   // --kernel: mark frames of the kernel and of modules with _[k]
	JIT    bool   // --jit: mark frames of /tmp/perf-PID.map with _[j]
	Addrs  bool   // --addrs: show the address of frames without a symbol
	Event  string // --event-filter: the event to fold; by default the first known one

	// tidy shortens a function's name for a flame graph; nil: as stackcollapse-perf.pl does.
	tidy func(string) string
}

// Fold reads the text of perf script and returns for each stack the sum of periods, 1 for a sample
// without one: the command, then functions from the outermost to the innermost, joined by ";".
func Fold(r io.Reader, o FoldOptions) (map[string]uint64, error) {
	if o.tidy == nil {
		o.tidy = tidy
	}
	f := folder{FoldOptions: o, folded: map[string]uint64{}}
	lines := bufio.NewReaderSize(r, 1<<16)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			f.line(strings.TrimSuffix(line, "\n"))
		}
		if err == io.EOF {
			return f.folded, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read perf script text: %w", err)
		}
	}
}

type folder struct {
	FoldOptions
	folded map[string]uint64

	comm   string   // of the sample being read; empty between samples and in one that is filtered out
	period uint64   // the sample's weight
	frames []string // the sample's functions, innermost first; of one frame, the outermost function first
	inner  []string // scratch: the functions of one frame
}

func (f *folder) line(line string) {
	if strings.HasPrefix(line, "#") {
		return
	}
	if line == "" {
		f.end()
		return
	}
	if h, ok := parseHeader(line); ok {
		f.begin(h, line)
		return
	}
	if pc, function, module, ok := parseFrame(line); ok && f.comm != "" {
		f.frame(pc, function, module)
	}
}

func (f *folder) begin(h header, line string) {
	period, event := parseEvent(line)
	if event != "" {
		if f.Event = cmp.Or(f.Event, event); f.Event != event {
			return
		}
	}
	f.period = max(period, 1)
	switch {
	case f.Tid:
		f.comm = h.comm + "-" + h.pid + "/" + h.tid
	case f.Pid:
		f.comm = h.comm + "-" + h.pid
	default:
		f.comm = h.comm
	}
	f.comm = strings.ReplaceAll(f.comm, " ", "_")
}

func (f *folder) end() {
	if f.comm == "" {
		return
	}
	var b strings.Builder
	b.WriteString(f.comm)
	for i := len(f.frames) - 1; i >= 0; i-- {
		b.WriteByte(';')
		b.WriteString(f.frames[i])
	}
	f.folded[b.String()] += f.period
	f.comm, f.frames = "", f.frames[:0]
}

// frame adds the function of one line, or several if some are inlined ("outer->inner").
func (f *folder) frame(pc, function, module string) {
	function = cutOffset(function)
	if strings.HasPrefix(function, "(") { // a command, in the text of old versions
		return
	}
	functions := strings.Split(function, "->")
	for len(functions) > 0 && functions[len(functions)-1] == "" {
		functions = functions[:len(functions)-1] // as Perl's split does
	}
	f.inner = f.inner[:0]
	for i, name := range functions {
		name = f.name(pc, name, module)
		if mark := f.mark(module, i > 0); !strings.Contains(name, mark) { // a JIT's map may already mark it
			name += mark
		}
		f.inner = append(f.inner, name)
	}
	for i := len(f.inner) - 1; i >= 0; i-- {
		f.frames = append(f.frames, f.inner[i])
	}
}

func (f *folder) name(pc, name, module string) string {
	if name == "[unknown]" {
		name = "unknown"
		if module != "[unknown]" {
			name = module[strings.LastIndexByte(module, '/')+1:]
		}
		if f.Addrs {
			name += " <" + pc + ">"
		}
		name = "[" + name + "]"
	}
	name = f.tidy(name)
	if f.comm == "java" && strings.Contains(name, "/") { // false with Pid or Tid, which change comm
		name = strings.TrimPrefix(name, "L")
	}
	return name
}

func (f *folder) mark(module string, inlined bool) string {
	switch {
	case inlined:
		return "_[i]"
	case f.Kernel && isKernel(module):
		return "_[k]"
	case f.JIT && isPerfMap(module):
		return "_[j]"
	}
	return ""
}

func isKernel(module string) bool {
	return (strings.HasPrefix(module, "[") || strings.HasSuffix(module, "vmlinux")) &&
		!strings.Contains(module, "unknown")
}

// isPerfMap reports whether module contains /tmp/perf-PID.map.
func isPerfMap(module string) bool {
	for {
		_, after, found := strings.Cut(module, "/tmp/perf-")
		if !found {
			return false
		}
		if n := digits(after); n > 0 && strings.HasPrefix(after[n:], ".map") {
			return true
		}
		module = after
	}
}

// tidy drops quotes and, unless the name looks like a Go method's ("http.(*Client).Do"), everything from the
// first parenthesis on, except C++'s anonymous namespace. ";" separates frames, so it becomes ":".
func tidy(name string) string {
	name = strings.ReplaceAll(name, ";", ":")
	if !isGoMethod(name) {
		for i := 0; i < len(name); i++ {
			if name[i] == '(' && !strings.HasPrefix(name[i:], "(anonymous namespace)") {
				name = name[:i]
			}
		}
	}
	return dropQuotes(name)
}

func isGoMethod(name string) bool {
	_, after, found := strings.Cut(name, ".(")
	return found && strings.Contains(after, ").")
}

func dropQuotes(name string) string {
	if !strings.ContainsAny(name, `"'`) {
		return name
	}
	return strings.NewReplacer(`"`, "", "'", "").Replace(name)
}

// A header is the thread in the first line of a sample. pid is "?" if the line contains only one number.
type header struct{ comm, pid, tid string }

// parseHeader reads "comm tid …" and "comm pid/tid …": the shortest command of two characters or more that
// is followed by blanks, a number or two, and a blank.
func parseHeader(line string) (h header, ok bool) {
	if isBlank(line[0]) {
		return h, false
	}
	for i := 2; i < len(line); i++ {
		if !isBlank(line[i]) {
			continue
		}
		rest := line[i+blanks(line[i:]):]
		n := digits(rest)
		first, rest := rest[:n], rest[n:]
		slashes := len(rest) - len(strings.TrimLeft(rest, "/"))
		rest = rest[slashes:]
		second := ""
		if slashes > 0 {
			n = digits(rest)
			second, rest = rest[:n], rest[n:]
		}
		if first == "" || rest == "" || !isBlank(rest[0]) {
			continue
		}
		if second == "" || second == "0" { // both are false in Perl
			return header{line[:i], "?", first}, true
		}
		return header{line[:i], first, second}, true
	}
	return h, false
}

// parseEvent reads the event's name at the end of a sample's first line, ": 1001001 cpu-clock: ", and the
// period, 0 if there is none. event is empty if the line does not end in one: after a tracepoint's fields.
func parseEvent(line string) (period uint64, event string) {
	rest, ok := strings.CutSuffix(strings.TrimRight(line, blankSet), ":")
	if !ok {
		return 0, ""
	}
	i := strings.LastIndexAny(rest, blankSet) + 1
	event, rest = rest[i:], strings.TrimRight(rest[:i], blankSet)
	if event == "" || i == 0 {
		return 0, ""
	}
	before := strings.TrimRight(rest, "0123456789")
	number := rest[len(before):]
	if !strings.HasSuffix(strings.TrimRight(before, blankSet), ":") {
		return 0, ""
	}
	period, _ = strconv.ParseUint(number, 10, 64)
	return period, event
}

// parseFrame reads "pc function+offset (module)". Functions and modules ("/memfd:x (deleted)") may contain
// parentheses: the module begins at the last " (" that is closed.
func parseFrame(line string) (pc, function, module string, ok bool) {
	start := blanks(line)
	pcEnd := start
	for pcEnd < len(line) && isWord(line[pcEnd]) {
		pcEnd++
	}
	end := strings.LastIndexByte(line, ')')
	if pcEnd == start || end < 0 {
		return "", "", "", false
	}
	open := strings.LastIndex(line[:end], " (")
	// The function is at least one character: if necessary a blank or the end of pc.
	from := min(pcEnd+blanks(line[pcEnd:]), open-1)
	if from <= start {
		return "", "", "", false
	}
	return line[start:min(pcEnd, from)], line[from:open], line[open+2 : end], true
}

// cutOffset drops the "+0x1a" of function+0x1a.
func cutOffset(function string) string {
	name := strings.TrimRight(function, "0123456789abcdef")
	if short, ok := strings.CutSuffix(name, "+0x"); ok && len(name) < len(function) {
		return short
	}
	return function
}

const blankSet = " \t\n\r\f\v"

func isBlank(c byte) bool { return strings.IndexByte(blankSet, c) >= 0 }

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func blanks(s string) int { return len(s) - len(strings.TrimLeft(s, blankSet)) }

func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }
