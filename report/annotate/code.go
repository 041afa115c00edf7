package annotate

import (
	"fmt"
	"strings"

	"gperf/internal/session"
	"gperf/symbolize"
	"gperf/symbolize/srcline"
)

// Spot is an address in a function.
type Spot struct {
	Off    uint64 // from its start, in bytes
	Return bool   // a call returns there
}

// Line is a line of a function's code.
type Line struct {
	Stat            // of an instruction
	Percent float64 // of Stat, of the function's samples
	Source  bool    // it is a line of the source, or a source position
	Text    string  // an instruction begins with the address
	Place   string  // FILE:LINE of an instruction, "" if unknown
}

// Code returns the code of the function of a frame, for samples that the caller counted. Errors come from
// Text for a single function.
func Code(sym *symbolize.Symbolizer, frame *session.Frame, at map[Spot]Stat, opts Options) ([]Line, error) {
	if frame.Map == nil {
		return nil, fmt.Errorf("%s is in no file", frame.Symbol())
	}
	fn := &function{event: &event{}, frame: frame, dso: frame.Map.DSO, kernel: frame.Kernel, at: map[spot]*Stat{},
		ips: map[uint64]uint64{}}
	if frame.Sym() != nil {
		fn.start = frame.MapOff() - frame.Off()
	}
	for s, stat := range at {
		fn.total.add(stat)
		fn.at[spot{s.Off, s.Return}] = &stat
	}
	a := &annotator{sym: sym, opts: &opts, files: map[sourceKey][]string{}}
	b, err := a.prepare(fn)
	if err != nil {
		return nil, err
	}
	return b.lines(), nil
}

// lines returns the instructions, with the source lines before them.
func (b *block) lines() (list []Line) {
	for i := range b.insts {
		in := &b.insts[i]
		call, known := b.lineOf(in)
		place := ""
		if known {
			place = fmt.Sprintf("%s:%d", call.Path(b.annotator.opts.FullPaths), call.Line)
			list = b.appendSource(list, call)
		}
		list = append(list, Line{Stat: b.stats[i], Percent: b.percent(b.stats[i]), Place: place,
			Text: fmt.Sprintf("%x:  %s", in.Addr, in.Text(b.code.Name))})
	}
	return list
}

// appendSource appends a source line, unless the instruction before has the same one.
func (b *block) appendSource(list []Line, call srcline.InlineFrame) []Line {
	last := b.last
	if b.last = call; call.File == last.File && call.Line == last.Line {
		return list
	}
	text := fmt.Sprintf("%s:%d", call.Path(b.annotator.opts.FullPaths), call.Line)
	seen := b.annotator.hidden
	if lines := b.linesOf(call.File); call.Line <= len(lines) {
		code := strings.ReplaceAll(lines[call.Line-1], "\t", "    ")
		text = fmt.Sprintf("%-5d %s", call.Line, strings.TrimRight(code, " "))
	}
	if b.annotator.hidden != seen {
		text = fmt.Sprintf("%s (%v; --prefix / shows it)", text, b.annotator.hidden)
	}
	return append(list, Line{Source: true, Text: text})
}
