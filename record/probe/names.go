package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gperf/internal/dso"
	"gperf/record/probe/args"
	"gperf/record/probe/program"
)

// maxEvent is the maximum length of generated names: the kernel's limit is 63
// (MAX_EVENT_NAME_LEN), and equal names get numbers.
const maxEvent = 56

const returnSuffix = "__return"

// eventName returns perf's name for a probe of a function.
func eventName(function string, k Kind) string { return withSuffix(args.Word(function), k) }

// withSuffix derives an event's name from a function's.
func withSuffix(name string, k Kind) string {
	suffix := ""
	if k.Return() {
		suffix = returnSuffix
	}
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name[:min(len(name), maxEvent-len(suffix))] + suffix
}

// sourceEventName returns the event name of a function whose name is not a C name:
// "github.com/x/pkg.(*T).Method", "ns::Class::method(int)". As in perf 7, characters that
// event names cannot contain become one "_"; the package's path is dropped.
func sourceEventName(function string) string {
	name := program.WithoutParameters(function)
	path := name // types, in brackets, contain paths, too
	if i := strings.IndexAny(path, "[<("); i >= 0 {
		path = path[:i]
	}
	return clean(name[strings.LastIndexByte(path, '/')+1:])
}

// clean replaces characters that event names cannot contain by one _.
func clean(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(c rune) bool { return !args.IsWord(c) }), "_")
}

// userEvent returns perf's name for an event at a place of a file.
func (s *spec) userEvent(site *program.Site) string {
	name := ""
	switch fn := site.Function; {
	case site.USDT != nil:
		return withSuffix(clean(site.USDT.Name), Uprobe)
	case fn != nil && (fn.Name() != fn.Symbol || site.Go):
		name = sourceEventName(fn.Name())
	case fn != nil:
		name = args.Word(strings.TrimPrefix(fn.Symbol, "."))
	case s.line > 0:
		name = fmt.Sprintf("%s_L%d", args.Word(filepath.Base(s.name)), s.line)
	default:
		vaddr, _ := strconv.ParseUint(s.name, 0, 64)
		name = fmt.Sprintf("abs_%x", vaddr)
	}
	return withSuffix(name, s.kind)
}

// userGroup returns perf's name for the group of events at a place of a file.
func userGroup(site *program.Site) string {
	if site.USDT != nil {
		return "sdt_" + clean(site.USDT.Provider)
	}
	path := site.Path
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	} else if mapped, err := os.Readlink(path); err == nil { // a deleted file that a process maps
		path = dso.TrimDeleted(mapped)
	}
	return "probe_" + args.Word(filepath.Base(path))
}
