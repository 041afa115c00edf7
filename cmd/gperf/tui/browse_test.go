package tui

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gdamore/tcell/v2"

	"gperf/format"
	"gperf/internal/dso"
	"gperf/internal/session"
	"gperf/report"
	"gperf/report/annotate"
	sortkey "gperf/report/key"
	"gperf/report/table"
	"gperf/symbolize"
)

// testdata is absolute: a test changes the directory.
var testdata = func() string {
	dir, err := filepath.Abs("../../../testdata")
	if err != nil {
		panic(err)
	}
	return dir + "/"
}()

// open returns a new session of a recording in testdata.
func open(t testing.TB, file string) *session.Session {
	t.Helper()
	s, err := openWhere(t, file, "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// openWhere returns a new session of a recording in testdata that selects the samples that match an expression.
func openWhere(t testing.TB, file, where string) (*session.Session, error) {
	t.Helper()
	fd, err := os.Open(testdata + file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fd.Close() })
	st, err := fd.Stat()
	if err != nil {
		t.Fatal(err)
	}
	f, err := format.Open(fd, st.Size())
	if err != nil {
		t.Fatal(err)
	}
	id, ref, addr := session.RecordedKernel(f)
	o := session.Options{File: f, KeepExited: true, Symbols: symbolize.New(symbolize.Options{
		Locator:  &dso.Locator{Tree: dso.Tree{Root: "/nowhere"}},
		Kallsyms: testdata + "kallsyms", KernelBuildID: id, KernelRef: ref, KernelRefAddr: addr})}
	if where != "" {
		selected, err := sortkey.NewFilter(f, o.Symbols, where, session.Origin{})
		if err != nil {
			return nil, err
		}
		o.Keep = selected.Match
	}
	return session.New(o), nil
}

// onScreen is a browser on a simulated screen.
type onScreen struct {
	*Browser
	t      *testing.T
	screen tcell.SimulationScreen
}

// show shows a recording on a screen of this size.
func show(t *testing.T, file string, width, height int, o Options) *onScreen {
	t.Helper()
	s := open(t, file)
	o.Path = file
	if _, err := o.Load(Recording{Session: s, MaxStack: 1024, Reopen: func(where string) (*session.Session, func(),
		error) {
		s, err := openWhere(t, file, where)
		return s, func() {}, err
	}}); err != nil {
		t.Fatal(err)
	}
	screen := tcell.NewSimulationScreen("UTF-8")
	if err := screen.Init(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(screen.Fini)
	screen.SetSize(width, height)
	v := &onScreen{New(screen, o), t, screen}
	v.draw()
	return v
}

// press sends keys: characters, or names in <>.
func (v *onScreen) press(keys string) *onScreen {
	for _, k := range regexp.MustCompile(`<[^>]+>|.`).FindAllString(keys, -1) {
		e := tcell.NewEventKey(tcell.KeyRune, []rune(k)[0], tcell.ModNone)
		for code, name := range keyNames {
			if len(k) > 1 && string(name) == k[1:len(k)-1] && code != tcell.KeyBackspace {
				e = tcell.NewEventKey(code, 0, tcell.ModNone)
			}
		}
		v.handle(e)
		v.draw()
	}
	return v
}

// text returns the text on the screen.
func (v *onScreen) text() string {
	cells, width, height := v.screen.GetContents()
	var b strings.Builder
	for y := range height {
		var line strings.Builder
		for _, c := range cells[y*width : (y+1)*width] {
			line.WriteString(string(c.Runes))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// wants checks that the screen shows all texts.
func (v *onScreen) wants(texts ...string) *onScreen {
	v.t.Helper()
	for _, text := range texts {
		if !strings.Contains(v.text(), text) {
			v.t.Errorf("the screen has no %q:\n%s", text, v.text())
		}
	}
	return v
}

// lacks checks that the screen shows none of the texts.
func (v *onScreen) lacks(texts ...string) *onScreen {
	v.t.Helper()
	for _, text := range texts {
		if strings.Contains(v.text(), text) {
			v.t.Errorf("the screen has %q:\n%s", text, v.text())
		}
	}
	return v
}

// entryLine matches an entry of gperf report.
var entryLine = regexp.MustCompile(`(?m)^ +\d+\.\d\d%.*$`)

// entriesOf returns the entries of a text, with single blanks and without the mode of functions: perf marks the
// kernel's callers like a process's.
func entriesOf(text string) (lines []string) {
	for _, line := range entryLine.FindAllString(text, -1) {
		line = strings.NewReplacer("[.] ", "", "[k] ", "").Replace(line)
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

// TestEntriesAreThoseOfReport: the view has the entries of printed reports, with their percentages, in their order.
func TestEntriesAreThoseOfReport(t *testing.T) {
	seen := 0
	for _, file := range []string{"two.data", "threads.data", "drops.data", "answers.data"} {
		for _, keys := range []string{"comm,dso,symbol", "symbol", "comm"} {
			for _, children := range []bool{true, false} {
				t.Run(fmt.Sprint(file, " ", keys, " ", children), func(t *testing.T) {
					var printed strings.Builder
					if _, err := report.Text(&printed, open(t, file), report.Options{Sort: keys, NoChildren: !children,
						Inline: true, MaxStack: 1024}); err != nil {
						t.Fatal(err)
					}
					list := strings.Split(keys, ",")
					v := show(t, file, 80, 24, Options{Children: children, Keys: list})
					var text strings.Builder
					for event := range v.entries().table.Events {
						v.entries().setEvent(event)
						if err := v.entries().writeText(&text); err != nil {
							t.Fatal(err)
						}
					}
					got, want := entriesOf(text.String()), entriesOf(printed.String())
					for i := range max(len(got), len(want)) {
						if i >= len(got) || i >= len(want) || got[i] != want[i] {
							t.Fatalf("entry %d differs from the printed report's:\n%q\nwant\n%q", i,
								got[i:min(i+1, len(got))], want[i:min(i+1, len(want))])
						}
					}
					seen += len(want)
				})
			}
		}
	}
	if seen < 300 {
		t.Errorf("the recordings have only %d entries", seen)
	}
}

func TestCallchains(t *testing.T) {
	v := show(t, "two.data", 120, 40, Options{Children: true})
	first := v.entries().rows[0]
	closed := len(v.entries().rows)
	v.press("+").wants("%--", "- ")
	if !first.open || len(v.entries().rows) <= closed {
		t.Errorf("+ opens nothing:\n%s", v.text())
	}
	v.press("+").lacks("%--")
	v.press("<enter><enter>").wants("%--") // the first choice of the menu
	v.press("C").lacks("%--")
	v.press("E").wants("%--")
	v.press("<end>")
	l := v.entries()
	for _, r := range l.rows[l.first:min(l.first+l.room, len(l.rows))] {
		if r.branch == nil && !r.loaded {
			t.Errorf("with E, an entry in the window is not expanded:\n%s", v.text())
		}
	}
	v.press("Cic+").wants("%--") // callers only
	if v.entries().children {
		t.Error("c does not change who has the samples of callees")
	}
}

func TestZoomAndBack(t *testing.T) {
	v := show(t, "threads.data", 100, 40, Options{})
	whole := v.text()
	v.press("t").wants("thread ", "Esc: back")
	if all := len(v.entries().entries); all == 0 || v.text() == whole {
		t.Errorf("t shows no other entries:\n%s", v.text())
	}
	v.press("<esc>")
	if v.text() != whole {
		t.Errorf("Esc after t:\n%s\nwant\n%s", v.text(), whole)
	}
	v.press("d").wants("dso ").press("<left>")
	v.press("z").wants("function ").press("<esc>")
	v.press("T<enter><right><enter>").wants("s-", "Esc: back")
	if from := v.entries().filter().From; from == 0 {
		t.Error("a range of time selects all samples")
	}
	v.press("F").wants("relative", "100.00%"[3:])
	v.press("F<esc>")
	if v.text() != whole {
		t.Errorf("after all zooms:\n%s\nwant\n%s", v.text(), whole)
	}
}

func TestFilterAndFind(t *testing.T) {
	v := show(t, "two.data", 100, 40, Options{Children: true})
	all := len(v.entries().entries)
	v.press("/sys")
	some := len(v.entries().entries)
	if some == 0 || some >= all {
		t.Errorf("/sys leaves %d of %d entries", some, all)
	}
	for _, r := range v.entries().entries {
		if name := v.entries().name(&v.entries().counted.List[r.entry]); !contains(name, "sys") {
			t.Errorf("/sys leaves %s", name)
		}
	}
	v.press("<enter>").wants("with sys").press("<esc>")
	if n := len(v.entries().entries); n != all {
		t.Errorf("Esc leaves %d of %d entries", n, all)
	}
	v.press("fsys<enter>")
	at := v.entries().at
	if !contains(v.entries().rowText(v.entries().selectedRow()), "sys") {
		t.Errorf("f selects %s", v.entries().rowText(v.entries().selectedRow()))
	}
	if v.press("n"); v.entries().at <= at {
		t.Errorf("n goes from line %d to line %d", at, v.entries().at)
	}
	if v.press("N"); v.entries().at != at {
		t.Errorf("N goes to line %d, want %d", v.entries().at, at)
	}
}

func TestEventsAndKeys(t *testing.T) {
	v := show(t, "two.data", 100, 30, Options{})
	name := v.entries().table.Events[v.entries().event].Name
	v.press("<tab>").lacks("'" + name + "'").press("<backtab>").wants("'" + name + "'")
	v.press("s<down><enter>").lacks("Command").wants("Symbol")
	v.press("s").wants("Sort by", "comm,dso").press("<esc>").lacks("Sort by")
	v = show(t, "drops.data", 100, 30, Options{})
	v.press("sr<enter>").wants("reason") // a key begins with r
}

func TestMouse(t *testing.T) {
	v := show(t, "two.data", 100, 30, Options{Children: true})
	click := func(y int) {
		v.handle(tcell.NewEventMouse(5, y, tcell.Button1, tcell.ModNone))
		v.handle(tcell.NewEventMouse(5, y, tcell.ButtonNone, tcell.ModNone))
		v.draw()
	}
	if click(4); v.entries().at != 2 {
		t.Errorf("a click on the third entry selects line %d", v.entries().at)
	}
	click(2)
	if click(2); !v.entries().rows[0].open {
		t.Errorf("a double click does not expand:\n%s", v.text())
	}
	v.handle(tcell.NewEventMouse(5, 9, tcell.WheelDown, tcell.ModNone))
	if v.entries().at != 3 {
		t.Errorf("the wheel selects line %d", v.entries().at)
	}
}

// TestCode shows the code of a function, with the hottest instruction selected.
func TestCode(t *testing.T) {
	v := show(t, "two.data", 100, 30, Options{})
	var asked map[table.Spot]table.Sum
	v.opts.Code = func(_ int32, at map[table.Spot]table.Sum) ([]annotate.Line, error) {
		asked = at
		return []annotate.Line{{Source: true, Text: "1 cold();"}, {Text: "10:  nop", Place: "a.c:1"},
			{Source: true, Text: "2 hot();"},
			{Text: "11:  add", Stat: annotate.Stat{Samples: 3, Period: 3}, Percent: 75, Place: "a.c:2"},
			{Text: "12:  ret", Stat: annotate.Stat{Samples: 1, Period: 1}, Percent: 25, Place: "a.c:2"}}, nil
	}
	v.press("a").wants("75.00% │ 11:  add", "2 hot();", "a.c:2")
	if len(asked) == 0 {
		t.Error("no address of the function has samples")
	}
	c := v.top().(*code)
	if c.lines[c.shown[c.at]].Percent != 75 {
		t.Errorf("line %d is selected, not the hottest", c.at)
	}
	if v.press("n"); c.lines[c.shown[c.at]].Percent != 25 {
		t.Errorf("n selects line %d, not the second hottest", c.at)
	}
	v.press("s").lacks("hot();").press("q").wants("Overhead")
	v.opts.Code = func(int32, map[table.Spot]table.Sum) ([]annotate.Line, error) { return nil, os.ErrNotExist }
	v.press("a").wants(os.ErrNotExist.Error())
}

func TestExport(t *testing.T) {
	v := show(t, "two.data", 100, 30, Options{Children: true})
	t.Chdir(t.TempDir())
	v.press("P<enter>").wants("wrote gperf.txt")
	for _, c := range []struct{ keys, file, begin string }{{"<down>", "gperf.folded", ""},
		{"<down><down>", "gperf.pb.gz", "\x1f\x8b"}, {"<down><down><down>", "gperf.html", "<!"}} {
		v.press("P" + c.keys + "<enter>").wants("writing")
		for !strings.Contains(v.status, c.file) {
			if v.handle(v.screen.PollEvent()); v.status != "" && !strings.HasPrefix(v.status, "wr") {
				t.Fatal(v.status)
			}
		}
		text, err := os.ReadFile(c.file)
		if err != nil || len(text) == 0 || !strings.HasPrefix(string(text), c.begin) {
			t.Errorf("%s: %.40q, %v", c.file, text, err)
		}
	}
	v.press("P<enter>").wants("wrote gperf-2.txt")
}

// TestWhere checks that an expression selects samples, of the view and of its exports, that a wrong one changes
// nothing, and that none shows all.
func TestWhere(t *testing.T) {
	t.Chdir(t.TempDir())
	v := show(t, "two.data", 110, 24, Options{})
	number := func() string { return regexp.MustCompile(`Samples: \d+`).FindString(v.text()) }
	all := number()
	enter := func(keys string) {
		v.press(keys + "<enter>")
		v.handle(v.screen.PollEvent())
		v.draw()
	}
	enter("wcpu == 0")
	v.wants("where cpu == 0")
	some := number()
	if some == all || some == "Samples: 0" {
		t.Errorf("%s of %s match", some, all)
	}
	v.press("P<down><enter>")
	v.handle(v.screen.PollEvent())
	folded, err := os.ReadFile("gperf.folded")
	samples := 0
	for _, count := range regexp.MustCompile(`(?m) (\d+)$`).FindAllStringSubmatch(string(folded), -1) {
		n, _ := strconv.Atoi(count[1])
		samples += n
	}
	if err != nil || fmt.Sprint("Samples: ", samples) != some {
		t.Errorf("%d samples are exported, %s are shown: %v", samples, some, err)
	}
	v.press("<esc>") // of the menu
	enter("w && nothing ==")
	v.wants("a value is missing", "where cpu == 0")
	enter("w" + strings.Repeat("<backspace>", 40) + "comm == none")
	v.wants("no samples where comm == none")
	v.press("w0<esc>").wants("no samples where comm == none")
	enter("w" + strings.Repeat("<backspace>", 40))
	if v.lacks("where"); number() != all {
		t.Errorf("%s without an expression, %s before", number(), all)
	}
}

// TestAnyKeys presses many keys on screens of any size: nothing panics, and control characters never reach the screen.
func TestAnyKeys(t *testing.T) {
	t.Chdir(t.TempDir()) // for exports
	random := rand.New(rand.NewPCG(1, 2))
	keys := []string{"<up>", "<down>", "<pgup>", "<pgdn>", "<home>", "<end>", "<enter>", "<esc>", "<tab>", "<left>",
		"<right>", "<backspace>", "a", "b", "/", "f", "w", "n", "N", "s", "t", "d", "z", "k", "T", "E", "C", "+", "i", "c", "F", "?", " "}
	for _, size := range [][2]int{{80, 24}, {200, 60}, {20, 5}, {1, 1}, {40, 3}} {
		for _, file := range []string{"two.data", "drops.data"} {
			v := show(t, file, size[0], size[1], Options{Children: true})
			for range 400 {
				v.press(keys[random.IntN(len(keys))])
				if v.quit {
					t.Fatal("a key other than q quits")
				}
			}
		}
	}
}
