package tui

// prompt is a page that reads a text on the last line, above another one.
type prompt struct {
	browser *Browser
	label   string
	text    []rune
	old     string
	use     func(text string) // is called after each key
}

func newPrompt(b *Browser, label, text string, use func(string)) *prompt {
	return &prompt{browser: b, label: label, text: []rune(text), old: text, use: use}
}

func (p *prompt) key(k key) {
	switch {
	case k == "enter":
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
	p.use(string(p.text))
}

func (p *prompt) mouse(y int, double bool, wheel int) {
	p.browser.pop()
	p.browser.top().mouse(y, double, wheel)
}

func (p *prompt) draw(c *canvas) {
	c.line(c.height-1, bars, "")
	x := c.put(0, c.height-1, bars, " "+p.label+string(p.text))
	c.put(x, c.height-1, bars, "   (Enter: keep  Esc: none)")
	c.screen.ShowCursor(x, c.height-1)
}
