package script

import (
	"path"
	"slices"
	"strconv"

	"gperf/internal/session"
	"gperf/internal/text"
	"gperf/symbolize/srcline"
)

// Source selects the parts of debug information that a frame shows.
type Source struct {
	Inline   bool // a line for each call that was inlined
	FullPath bool // "srcline" and "srcfile" are whole paths
}

// sourceFields are printed on separate lines, below the frame's.
const sourceFields = FieldSrcline | FieldSrcfile

// frameLines are the lines of a frame: the lines of inlined calls, its own, and
// with FieldSrcline each one's place in the source. last says that the callchain's
// text ends here.
func (t *frameTexts) frameLines(b []byte, f *session.Frame) (_ []byte, last bool) {
	var calls []srcline.InlineFrame
	if t.Inline || t.fields&sourceFields != 0 {
		calls = f.Calls()
	}
	own := max(len(calls), 1) - 1
	sym := f.Sym()
	if t.Inline && sym != nil {
		for i := range own {
			b = t.appendInlined(t.appendIP(b, f), f, calls, i)
			if slices.Contains(t.stopAt, calls[i].Function) {
				return b, true
			}
		}
	}
	b = appendName(t.appendIP(b, f), f, t.fields)
	if t.fields&sourceFields != 0 {
		b = t.appendSource(b, f, calls, t.shownCall(f, own))
	}
	return append(b, '\n'), sym != nil && slices.Contains(t.stopAt, sym.Name)
}

// shownCall returns the call whose source line the frame's line shows: the
// innermost, unless inlined calls have their own lines.
func (t *frameTexts) shownCall(f *session.Frame, last int) int {
	if t.Inline && f.Sym() != nil {
		return last
	}
	return 0
}

func (t *frameTexts) appendIP(b []byte, f *session.Frame) []byte {
	ip := f.IP
	if t.compat == Perf6 && f.Map != nil && !f.Kernel {
		ip = f.Map.Off(ip)
	}
	return text.AppendHex(append(b, '\t'), ip, 16)
}

// appendInlined appends the rest of an inlined call's line. perf gives it the
// offset in the function that has the code, and no DSO.
func (t *frameTexts) appendInlined(b []byte, f *session.Frame, calls []srcline.InlineFrame, i int) []byte {
	if t.fields&FieldSym != 0 {
		b = append(append(b, ' '), calls[i].Function...)
		if t.fields&FieldSymOff != 0 {
			b = append(b, "+0x"...)
			b = strconv.AppendUint(b, f.Off(), 16)
		}
	}
	if t.fields&sourceFields != 0 {
		b = t.appendSource(b, f, calls, i)
	}
	return append(b, " (inlined)\n"...)
}

// appendSource appends the source line of call i, on separate lines; if unknown, the
// frame's address in the DSO (map__fprintf_srcline of tools/perf/util/map.c).
func (t *frameTexts) appendSource(b []byte, f *session.Frame, calls []srcline.InlineFrame, i int) []byte {
	for _, field := range [...]Field{FieldSrcline, FieldSrcfile} {
		switch {
		case t.fields&field == 0 || f.Map == nil:
		case i < len(calls):
			b = append(append(b, "\n  "...), calls[i].Path(t.FullPath)...)
			if field == FieldSrcline {
				b = appendLine(b, &calls[i])
			}
		default:
			b = t.appendOff(append(b, "\n  "...), f)
		}
	}
	return b
}

func (t *frameTexts) appendOff(b []byte, f *session.Frame) []byte {
	name := f.Map.DSO.Name
	if !f.Kernel {
		name = path.Base(name)
	}
	b = append(append(b, name...), '[')
	return append(strconv.AppendUint(b, f.MapOff(), 16), ']')
}

func appendLine(b []byte, c *srcline.InlineFrame) []byte {
	return strconv.AppendInt(append(b, ':'), int64(c.Line), 10)
}
