package tui

// prompt is a page that reads a text on the last line, above another one.
type prompt struct {
	browser *Browser
	label   string
	text    []rune
	use     func(text string) // is called after each key, or after Enter
	atEnter bool              // it is called after Enter; Esc leaves all as it is
}

func newPrompt(b *Browser, label, text string, use func(string)) *prompt {
	return &prompt{browser: b, label: label, text: []rune(text), use: use}
}

func (p *prompt) key(k key) {
	switch {
	case k == "enter":
		p.browser.pop()
		if p.atEnter {
			p.use(string(p.text))
		}
		return
	case k == "esc" && p.atEnter:
		p.browser.pop()
		return
	case k == "esc":
		p.browser.pop()
		p.text = nil
	case k == "backspace":
		p.text = p.text[:max(len(p.text)-1, 0)]
	case len([]rune(k)) == 1:
		p.text = append(p.text, []rune(k)...)
	default: // arrows move the selection of the page below
		p.browser.pop()
		p.browser.top().key(k)
		return
	}
	if !p.atEnter {
		p.use(string(p.text))
	}
}

func (p *prompt) mouse(y int, double bool, wheel int) {
	p.browser.pop()
	p.browser.top().mouse(y, double, wheel)
}

func (p *prompt) draw(c *canvas) {
	c.line(c.height-1, bars, "")
	x := c.put(0, c.height-1, bars, " "+p.label+string(p.text))
	keys := "   (Enter: keep  Esc: none)"
	if p.atEnter {
		keys = "   (Enter: read again  Esc: as before)"
	}
	c.put(x, c.height-1, bars, keys)
	c.screen.ShowCursor(x, c.height-1)
}
