package tui

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gperf/format"
	"gperf/internal/session"
	"gperf/report"
	"gperf/report/top"
	"gperf/symbolize"
)

func TestKeyNames(t *testing.T) {
	got := topKeyNames("a\x1b[A\x1b[B\rü\x7f\x1b[5~/\x1b")
	want := []string{"a", "up", "down", "enter", "ü", "backspace", "pageup", "/", "esc"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := topKeyNames("\x1b[99X"); !slices.Equal(got, []string{"esc"}) {
		t.Errorf("unknown sequence: %q", got)
	}
	if got := topKeyNames("\xff\xfea"); len(got) != 3 {
		t.Errorf("bytes that are no characters: %q", got)
	}
}

// Keys edit the filter, freeze the view, and quit.
func TestViewKeys(t *testing.T) {
	var v topView
	for _, k := range []string{"/", "q", "u", "x", "backspace", "enter"} {
		if v.key(k) {
			t.Fatalf("%q in a filter quits", k)
		}
	}
	if v.filter != "qu" || v.typing {
		t.Errorf("filter %q, typing %t", v.filter, v.typing)
	}
	first, second := &top.Block{Length: time.Second}, &top.Block{Length: 2 * time.Second}
	v.show(first)
	v.key(" ")
	v.show(second)
	if v.block != first {
		t.Error("a frozen view shows a new block")
	}
	v.key(" ")
	if v.block != second {
		t.Error("the view goes on with an old block")
	}
	if v.key("esc"); v.filter != "" {
		t.Errorf("filter %q after escape", v.filter)
	}
	if !v.key("q") {
		t.Error("q does not quit")
	}
}

// The screen always has as many lines as the terminal.
func TestViewLines(t *testing.T) {
	var v topView
	for _, height := range []int{2, 3, 24} {
		if n := len(v.lines(height)); n != height {
			t.Errorf("%d lines on a terminal of %d", n, height)
		}
	}
}

func TestFit(t *testing.T) {
	for width, want := range map[int]string{5: "äb?[…", 7: "äb?[2J…", 8: "äb?[2Jcd", 9: "äb?[2Jcd"} {
		if got := fit("äb\x1b[2Jcd", width); got != want {
			t.Errorf("%d columns: %q, want %q", width, got, want)
		}
	}
}

// blocksOf returns the tables of a recording's intervals.
func blocksOf(t *testing.T, delay time.Duration) (list []*top.Block) {
	t.Helper()
	b, err := os.ReadFile("../../../testdata/two.data")
	if err != nil {
		t.Fatal(err)
	}
	f, err := format.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	symbols := symbolize.New(symbolize.Options{Kallsyms: "../../../testdata/kallsyms"})
	defer symbols.Close()
	opts := top.Options{Delay: delay,
		Options: report.Options{Sort: "sym", MaxStack: 99, Graph: report.DefaultCallGraph}}
	_, err = top.Run(t.Context(), session.New(session.Options{File: f, Symbols: symbols}), opts,
		func(b *top.Block) error { list = append(list, b); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestViewFollowsRow: the selected row is the same one in the next interval, wherever it is.
func TestViewFollowsRow(t *testing.T) {
	var v topView
	followed := false
	for i, b := range blocksOf(t, 2*time.Millisecond) {
		name, at := v.name, v.selected
		v.show(b)
		v.lines(40)
		has := slices.ContainsFunc(b.Tables(0, nil), func(table top.Table) bool {
			return slices.ContainsFunc(table.Rows, func(r top.Row) bool { return r.Name == name })
		})
		if has && v.name != name {
			t.Errorf("interval %d: %q is selected, want %q", i, v.name, name)
		}
		followed = followed || has && v.selected != at
		v.key("down")
		v.lines(40)
	}
	if !followed {
		t.Error("no selected row was at another place: the test shows nothing")
	}
}

// TestViewScrolls: open callchains that are longer than the screen can be read to the end.
func TestViewScrolls(t *testing.T) {
	var v topView
	v.show(blocksOf(t, time.Second)[0])
	v.key("enter")
	first := v.lines(8)
	if !strings.Contains(first[7].text, "lines 1-6 of ") || !strings.Contains(first[7].text, "pgup/pgdn") {
		t.Errorf("the last line is %q", first[7].text)
	}
	v.key("pagedown")
	if second := v.lines(8); second[1].text != first[6].text {
		t.Errorf("the second page begins with %q, want %q", second[1].text, first[6].text)
	}
	for range 100 {
		v.key("pagedown")
		v.lines(8)
	}
	body, _ := v.body()
	if last := v.lines(8); last[6].text != body[len(body)-1].text {
		t.Errorf("the last page ends with %q, want %q", last[6].text, body[len(body)-1].text)
	}
	if v.key("pageup"); v.lines(8)[1].text == first[1].text {
		t.Error("a page up goes to the beginning")
	}
	v.key("/")
	for _, k := range "nosuch" {
		v.key(string(k))
	}
	if lines := v.lines(8); !strings.Contains(lines[3].text, "no row contains nosuch") {
		t.Errorf("%v", lines)
	}
}
