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
	if len(c.tallies) == 0 {
		return ErrNoSamples
	}
	page := c.flames()
	height := 0
	for _, e := range page.Events {
		height += e.height()
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
`, svgWidth, height, xmlText(page.Title), svgWidth-svgMargin-50)
	top := 0
	for _, e := range page.Events {
		page.writeSVG(out, e, top, c.differs())
		top += e.height()
	}
	fmt.Fprintf(out, "<script><![CDATA[\n%s]]></script>\n</svg>\n", flameScript)
	return out.Flush()
}

// height returns the height of an event's picture in pixels.
func (e *flameEvent) height() int {
	depth := int32(0)
	for i, d := range e.Depths {
		if e.drawn(i) {
			depth = max(depth, d)
		}
	}
	return svgTop + svgBottom + (int(depth)+1)*svgRow
}

// share returns the part of an event's total in a frame.
func (e *flameEvent) share(total uint64) float64 {
	if e.Totals[0] == 0 {
		return 0
	}
	return float64(total) / float64(e.Totals[0])
}

// drawn reports whether a frame is wide enough to be drawn.
func (e *flameEvent) drawn(i int) bool {
	return i == 0 || e.share(e.Totals[i])*(svgWidth-2*svgMargin) >= svgMinWidth
}

// writeSVG writes the picture of an event. top is where it begins in pixels.
func (p *flames) writeSVG(out *bufio.Writer, e *flameEvent, top int, differs bool) {
	bottom := top + e.height() - svgBottom
	fmt.Fprintf(out, "<g class=\"e\">\n<text class=\"head\" x=\"%d\" y=\"%d\">Flame Graph: %s</text>\n"+
		"<text class=\"details\" x=\"10\" y=\"%d\"></text>\n<text class=\"matched\" x=\"%d\" y=\"%[4]d\"></text>\n",
		svgWidth/2, top+24, xmlText(e.Name), bottom+20, svgWidth-svgMargin-120)
	var next []uint64 // by depth: where the next frame begins, as a sum of totals
	for i, depth := range e.Depths {
		for len(next) <= int(depth)+1 {
			next = append(next, 0)
		}
		at := next[depth]
		next[depth], next[depth+1] = at+e.Totals[i], at
		if e.drawn(i) {
			p.writeFrame(out, e, i, at, bottom, differs)
		}
	}
	out.WriteString("</g>\n")
}

func (p *flames) writeFrame(out *bufio.Writer, e *flameEvent, i int, at uint64, bottom int, differs bool) {
	const width = svgWidth - 2*svgMargin
	of := p.NameOf[e.Frames[i]]
	name, kind := p.Names[of[0]], of[2]
	x, w, y := e.share(at), e.share(e.Totals[i]), bottom-(int(e.Depths[i])+1)*svgRow
	if e.Totals[0] == 0 {
		w = 1
	}
	title := fmt.Sprintf("%s (%s, %d samples, %.2f%%)", name, amount(e.Totals[i], e.Unit), e.Samples[i], 100*w)
	colour := flameColour(name, kind)
	if differs && e.Bases[0] > 0 {
		change := e.share(e.Totals[i]) - float64(e.Bases[i])/float64(e.Bases[0])
		title += fmt.Sprintf("; %+.2f%%", 100*change)
		colour = differenceColour(change)
	}
	fmt.Fprintf(out, `<g class="f" data-x="%s" data-w="%s" data-depth="%d" data-name="%s"><title>%s</title>`,
		number(x), number(w), e.Depths[i], xmlText(name), xmlText(title))
	fmt.Fprintf(out, `<rect x="%.1f" y="%d" width="%.1f" height="%d" rx="2" ry="2" fill="%s"/>`,
		svgMargin+x*width, y, w*width, svgRow-1, colour)
	fmt.Fprintf(out, "<text x=\"%.1f\" y=\"%d\">%s</text></g>\n",
		svgMargin+x*width+3, y+11, xmlText(crop(name, w*width)))
}

// differenceColour returns red for growth and blue for decrease.
func differenceColour(change float64) string {
	light := 255 - int(min(1, 4*max(change, -change))*200)
	if change >= 0 {
		return fmt.Sprintf("rgb(255,%d,%[1]d)", light)
	}
	return fmt.Sprintf("rgb(%d,%[1]d,255)", light)
}

// flameColour returns the colour of a function: the kind decides the hue, and the name the shade.
func flameColour(name string, kind int32) string {
	h := fnv.New32a()
	h.Write([]byte(name))
	shade := int(h.Sum32() % 55)
	switch {
	case kind == flameKernel:
		return fmt.Sprintf("rgb(%d,%d,0)", 190+shade, 90+shade)
	case kind == flameJIT:
		return fmt.Sprintf("rgb(%d,%d,%[1]d)", 50+shade, 200+shade)
	case kind == flameInlined:
		return fmt.Sprintf("rgb(%d,%d,%[2]d)", 50+shade, 165+shade)
	case kind == flameUnknown:
		return fmt.Sprintf("rgb(%d,%[1]d,%[1]d)", 170+shade)
	case strings.Contains(name, "::"):
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
