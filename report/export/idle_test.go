package export

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gperf/internal/session"
)

// keyOf returns the key of a stack without labels.
func keyOf(event int32, comm string, idle bool) tallyKey {
	return tallyKey{event: event, comm: comm, idle: idle, group: &noFields, fields: &noFields}
}

// idleSet has 90 samples of an idle CPU, 6 of a process, 4 of an interrupt on the idle CPU, and an
// event with nothing but idle CPUs.
func idleSet() *StackSet {
	halt, loop, irq := frame("[kernel.kallsyms]:halt", 0x10), frame("[kernel.kallsyms]:do_idle", 0x20),
		frame("[kernel.kallsyms]:softirq", 0x30)
	chain := func(frames ...*session.Frame) session.Chain { return session.Chain{Kernel: frames} }
	return &StackSet{MaxStack: 9, events: []stackEvent{{name: "clock", samples: 100, total: 100},
		{name: "sleepy", samples: 5, total: 5}}, tallies: []tally{
		{tallyKey: keyOf(0, "swapper", true), chain: chain(halt, loop), samples: 90, period: 90},
		{tallyKey: keyOf(0, "swapper", false), chain: chain(irq, halt, loop), samples: 4, period: 4},
		{tallyKey: keyOf(0, "prog", false), chain: chain(frame("prog:main", 0x40)), samples: 6, period: 6},
		{tallyKey: keyOf(1, "swapper", true), chain: chain(halt, loop), samples: 5, period: 5},
	}}
}

// TestFlameGraphHidesIdle: samples of idle CPUs are part of no number until the button or its key
// shows them, and the page says how much they are.
func TestFlameGraphHidesIdle(t *testing.T) {
	page, _ := flameGraphOf(t, idleSet())
	pressing := func(keys string) string {
		script := `<script>for (const key of "` + keys + `".split(" "))
	if (key === "button") document.getElementById("idle").click();
	else document.getElementById("stage").dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));</script></body>`
		file := filepath.Join(t.TempDir(), "idle.html")
		if err := os.WriteFile(file, []byte(strings.Replace(page, "</body>", script, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		return "file://" + file
	}
	const without, with = "clock: 10 samples", "clock: 100 samples"
	const hidden = "idle CPUs are hidden: 90, 90.0 % of all"
	b := openBrowser(t)
	for _, test := range []struct{ name, keys, address, zoomed, hidden, button, matched, tip string }{
		{"first", "", "#s=halt", without, hidden, "Show idle (90.0 %)", "matched 40.0 %", ""},
		{"button", "button", "#s=halt", with, "", "Hide idle", "matched 94.0 %", ""},
		{"key", "d", "#s=halt", with, "", "Hide idle", "matched 94.0 %", ""},
		{"key twice", "d d", "#s=halt", without, hidden, "Show idle (90.0 %)", "matched 40.0 %", ""},
		{"address", "", "#d=1", with, "", "Hide idle", "", ""},
		{"a hidden frame's address", "", "#z=1", without, hidden, "Show idle (90.0 %)", "", ""},
		{"the keyboard passes hidden frames", "ArrowUp ArrowUp", "", without, hidden, "Show idle (90.0 %)", "", "prog"},
		{"the keyboard reaches shown frames", "d ArrowUp ArrowUp", "", with, "", "Hide idle", "", "swapper (idle)"},
		{"nothing but idle", "", "#e=1", "sleepy: 5 samples", "", "", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			dom := b.dom(t, pressing(test.keys)+test.address)
			for id, want := range map[string]string{"zoomed": test.zoomed, "hidden": test.hidden,
				"matched": test.matched} {
				if got := elementText(t, dom, id); got != want {
					t.Errorf("%s: %q, want %q", id, got, want)
				}
			}
			if got := elementText(t, dom, "idle"); test.button != "" && got != test.button {
				t.Errorf("the button is %q, want %q", got, test.button)
			}
			isHidden := strings.Contains(dom, `id="idle" title="samples of CPUs without work (d)" hidden`)
			if isHidden != (test.button == "") {
				t.Errorf("the button is hidden: %v", isHidden)
			}
			if test.tip != "" && !strings.Contains(dom, `<div class="name">`+test.tip+`</div>`) {
				t.Errorf("the keyboard is not at %s", test.tip)
			}
		})
	}
	if part := b.coloured(t, pressing("")); part < .02 {
		t.Errorf("%.3f of the page are coloured frames", part)
	}
}
