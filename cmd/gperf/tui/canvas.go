package tui

import (
	"unicode"

	"github.com/gdamore/tcell/v2"
)

// canvas is the screen while a page is drawn.
type canvas struct {
	screen        tcell.Screen
	color         bool
	width, height int
}

func newCanvas(s tcell.Screen, color bool) *canvas {
	w, h := s.Size()
	return &canvas{screen: s, color: color, width: w, height: h}
}

// Styles of text.
var (
	normal = tcell.StyleDefault
	bold   = normal.Bold(true)
	bars   = normal.Reverse(true)
)

// put draws text from column x on, and returns the column after it. Recordings are untrusted: control characters
// become question marks.
func (c *canvas) put(x, y int, style tcell.Style, text string) int {
	for _, r := range text {
		if x >= c.width {
			break
		}
		if unicode.IsControl(r) || !unicode.IsPrint(r) {
			r = '?'
		}
		c.screen.SetContent(x, y, r, nil, style)
		x++
	}
	return x
}

// line draws a text that fills the line.
func (c *canvas) line(y int, style tcell.Style, text string) {
	for x := c.put(0, y, style, text); x < c.width; x++ {
		c.screen.SetContent(x, y, ' ', nil, style)
	}
}

// percent returns the style of a percentage, on a selected line or not, with perf's colours.
func (c *canvas) percent(p float64, selected bool) tcell.Style {
	style := normal.Reverse(selected)
	switch {
	case !c.color:
	case p >= 5:
		return style.Foreground(tcell.ColorRed)
	case p > 0.5:
		return style.Foreground(tcell.ColorGreen)
	}
	return style
}

// tint returns a style in a colour, if there are colours.
func (c *canvas) tint(style tcell.Style, color tcell.Color) tcell.Style {
	if !c.color {
		return style
	}
	return style.Foreground(color)
}

// bar returns a bar for a percentage, in half characters.
func bar(percent float64, width int) string {
	halves := int(percent/100*float64(2*width) + 0.5)
	b := make([]rune, width)
	for i := range b {
		switch {
		case 2*i+1 < halves:
			b[i] = '█'
		case 2*i < halves:
			b[i] = '▌'
		default:
			b[i] = ' '
		}
	}
	return string(b)
}
