package export

import (
	"bufio"
	_ "embed"
	"fmt"
	"hash/fnv"
	"html"
	"io"
	"strconv"
	"strings"

	"gperf/report/table"
)

// flameScript is the script of the picture.
//
//go:embed flamegraph.js
var flameScript string

// Sizes of the picture in pixels, as in flamegraph.pl.
const (
	svgWidth    = 1200
	svgMargin   = 10
	svgRow      = 16   // a frame with the gap above it
	svgTop      = 56   // of an event, for the title
	svgBottom   = 32   // of an event, for details
	svgMinWidth = 0.1  // of frames that are drawn
	svgChar     = 7.08 // of a character
)

// SVG writes a picture of the stacks of each event that looks like flamegraph.pl's, callers at the bottom. It is
// self-contained: its script zooms and searches in browsers, and elsewhere, each frame's title names it. Widths are the
// sums of periods. With a baseline, colours show which functions grew (red) and shrank (blue). Without samples it
// returns ErrNoSamples.
func (c *StackSet) SVG(w io.Writer) error {
	if len(c.tallies.List) == 0 {
		return ErrNoSamples
	}
	pictures, height := svgPictures(c.Table()), 0
	for _, p := range pictures {
		height += p.height()
	}
	out := bufio.NewWriterSize(w, 1<<16)
	fmt.Fprintf(out, `<?xml version="1.0" encoding="UTF-8" standalone="no"?>
<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d">
<title>%s</title>
<defs><linearGradient id="background" y1="0" y2="1" x1="0" x2="0"><stop stop-color="#eeeeee" offset="5%%"/>`+
		`<stop stop-color="#eeeeb0" offset="95%%"/></linearGradient></defs>
<style>text { font-family: Verdana, sans-serif; font-size: 12px; fill: black } .head { font-size: 17px; `+
		`text-anchor: middle } .f { cursor: pointer } .f:hover rect { stroke: black; stroke-width: 0.5 } `+
		`.f text { pointer-events: none } .button { cursor: pointer; opacity: 0.6 } .button:hover { opacity: 1 }</style>
<rect width="100%%" height="100%%" fill="url(#background)"/>
<text id="reset" class="button" x="10" y="24" style="display: none">Reset Zoom</text>
<text id="search" class="button" x="%d" y="24">Search</text>
`, svgWidth, height, xmlText(c.Title()), svgWidth-svgMargin-50)
	top := 0
	for _, p := range pictures {
		p.write(out, top)
		top += p.height()
	}
	fmt.Fprintf(out, "<script><![CDATA[\n%s]]></script>\n</svg>\n", flameScript)
	return out.Flush()
}

// svgPicture is the picture of an event.
type svgPicture struct {
	table     *table.Table
	event     *table.Event
	all, base uint64 // sums, of all recordings but the baseline, and of the baseline
	depth     int
	frames    []svgFrame
}

type svgFrame struct {
	function int32 // index in Table.Functions, -1 for the root
	inlined  bool
	depth    int
	at       uint64 // sum of the frames on its left
	sum      table.Sum
	base     uint64
}

// svgPictures returns the pictures of the events with samples.
func svgPictures(t *table.Table) (list []*svgPicture) {
	bases, others := make([]bool, len(t.Recordings)), make([]bool, len(t.Recordings))
	for i := range t.Recordings {
		bases[i], others[i] = t.Recordings[i].Baseline, !t.Recordings[i].Baseline
	}
	for i := range t.Events {
		root := t.Count(table.Filter{Event: i, Recordings: others}).Callees()
		base := t.Count(table.Filter{Event: i, Recordings: bases}).Callees()
		p := &svgPicture{table: t, event: &t.Events[i], all: root.Total.Weight, base: base.Total.Weight}
		p.add(root, base, 0, 0)
		list = append(list, p)
	}
	return list
}

// add adds the frame of a branch and those that it calls, if they are wide enough to be drawn. base is the same branch
// of the baseline, nil for none.
func (p *svgPicture) add(b, base *table.Branch, depth int, at uint64) {
	f := svgFrame{function: b.Function, inlined: b.Inlined(), depth: depth, at: at, sum: b.Total}
	bases := map[int32]*table.Branch{}
	if base != nil && p.base > 0 {
		f.base = base.Total.Weight
		for _, next := range base.Next() {
			bases[next.Function] = next
		}
	}
	p.frames, p.depth = append(p.frames, f), max(p.depth, depth)
	for _, next := range b.Next() {
		if p.share(next.Total.Weight)*(svgWidth-2*svgMargin) < svgMinWidth {
			break
		}
		p.add(next, bases[next.Function], depth+1, at)
		at += next.Total.Weight
	}
}

// height returns the height of the picture in pixels.
func (p *svgPicture) height() int { return svgTop + svgBottom + (p.depth+1)*svgRow }

// share returns a part of the event's sum.
func (p *svgPicture) share(weight uint64) float64 {
	if p.all == 0 {
		return 0
	}
	return float64(weight) / float64(p.all)
}

// write writes the picture. top is where it begins in pixels.
func (p *svgPicture) write(out *bufio.Writer, top int) {
	bottom := top + p.height() - svgBottom
	fmt.Fprintf(out, "<g class=\"e\">\n<text class=\"head\" x=\"%d\" y=\"%d\">Flame Graph: %s</text>\n"+
		"<text class=\"details\" x=\"10\" y=\"%d\"></text>\n<text class=\"matched\" x=\"%d\" y=\"%[4]d\"></text>\n",
		svgWidth/2, top+24, xmlText(p.event.Name), bottom+20, svgWidth-svgMargin-120)
	for i := range p.frames {
		p.writeFrame(out, &p.frames[i], bottom)
	}
	out.WriteString("</g>\n")
}

func (p *svgPicture) writeFrame(out *bufio.Writer, f *svgFrame, bottom int) {
	const width = svgWidth - 2*svgMargin
	fn := table.Function{Name: "all", Label: true}
	if f.function >= 0 {
		fn = p.table.Functions[f.function]
	}
	x, w, y := p.share(f.at), p.share(f.sum.Weight), bottom-(f.depth+1)*svgRow
	if p.all == 0 {
		w = 1
	}
	title := fmt.Sprintf("%s (%s, %d samples, %.2f%%)", fn.Name, amount(f.sum.Weight, p.event.Unit), f.sum.Samples,
		100*w)
	colour := flameColour(&fn, f.inlined)
	if p.base > 0 {
		change := p.share(f.sum.Weight) - float64(f.base)/float64(p.base)
		title += fmt.Sprintf("; %+.2f%%", 100*change)
		colour = differenceColour(change)
	}
	fmt.Fprintf(out, `<g class="f" data-x="%s" data-w="%s" data-depth="%d" data-name="%s"><title>%s</title>`,
		number(x), number(w), f.depth, xmlText(fn.Name), xmlText(title))
	fmt.Fprintf(out, `<rect x="%.1f" y="%d" width="%.1f" height="%d" rx="2" ry="2" fill="%s"/>`,
		svgMargin+x*width, y, w*width, svgRow-1, colour)
	fmt.Fprintf(out, "<text x=\"%.1f\" y=\"%d\">%s</text></g>\n",
		svgMargin+x*width+3, y+11, xmlText(crop(fn.Name, w*width)))
}

// differenceColour returns red for growth and blue for decrease.
func differenceColour(change float64) string {
	light := 255 - int(min(1, 4*max(change, -change))*200)
	if change >= 0 {
		return fmt.Sprintf("rgb(255,%d,%[1]d)", light)
	}
	return fmt.Sprintf("rgb(%d,%[1]d,255)", light)
}

// flameColour returns the colour of a function: its kind decides the hue, and the name the shade.
func flameColour(fn *table.Function, inlined bool) string {
	h := fnv.New32a()
	h.Write([]byte(fn.Name))
	shade := int(h.Sum32() % 55)
	switch {
	case inlined:
		return fmt.Sprintf("rgb(%d,%d,%[2]d)", 50+shade, 165+shade)
	case fn.Unnamed:
		return fmt.Sprintf("rgb(%d,%[1]d,%[1]d)", 170+shade)
	case fn.Kernel:
		return fmt.Sprintf("rgb(%d,%d,0)", 190+shade, 90+shade)
	case fn.JIT:
		return fmt.Sprintf("rgb(%d,%d,%[1]d)", 50+shade, 200+shade)
	case strings.Contains(fn.Name, "::"):
		return fmt.Sprintf("rgb(%d,%[1]d,%d)", 175+shade, 50+shade/3)
	}
	return fmt.Sprintf("rgb(%d,%d,%[2]d)", 200+shade, 50+shade)
}

// amount returns a sum of periods with the unit.
func amount(total uint64, unit string) string {
	if unit == "nanoseconds" {
		return strconv.FormatFloat(float64(total)/1e6, 'f', 3, 64) + " ms"
	}
	return strings.TrimSpace(strconv.FormatUint(total, 10) + " " + strings.TrimPrefix(unit, "count"))
}

// crop returns as much of a name as a width in pixels shows.
func crop(name string, width float64) string {
	runes, chars := []rune(name), int((width-4)/svgChar)
	switch {
	case chars < 3:
		return ""
	case chars >= len(runes):
		return name
	}
	return string(runes[:chars-2]) + ".."
}

// number returns a part of 1 with enough digits for zooming.
func number(v float64) string { return strconv.FormatFloat(v, 'g', 12, 64) }

// xmlText returns a text for XML, without the characters that XML forbids.
func xmlText(s string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0xfffe || r == 0xffff {
			return '\ufffd'
		}
		return r
	}, s))
}
