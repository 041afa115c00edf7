package overview

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"gperf/internal/text"
)

// Screen is how the text is written.
type Screen struct {
	Width, Height int
	// File are the flags that name the recording in commands, nil for the default one.
	File []string
}

// The columns of the text; what happened and the command share the rest.
const (
	nameWidth  = 9
	valueWidth = 8
	whoWidth   = 14
	leastWho   = 4
)

// Text returns the overview as text of at most the screen's height: of each section the first items, more of those
// with many.
func (o *Overview) Text(s Screen) string {
	shown := o.choose(s.Height - 2)
	var b strings.Builder
	b.WriteString(crop(o.head(), s.Width) + "\n")
	if len(o.Sections) == 0 {
		b.WriteString("Nothing to report: gperf overview shows recordings that it made itself.\n")
	}
	number := 0
	for i, section := range o.Sections {
		for j, item := range section.Items {
			name := section.Name
			if j > 0 {
				name = ""
			}
			if number++; j < shown[i] {
				b.WriteString(item.line(name, number, s))
			}
		}
	}
	return b.String()
}

// Item returns the item with a number, from 1 on: the shorter commands of lines name it. It returns nil if there is
// none.
func (o *Overview) Item(number int) *Item {
	for _, s := range o.Sections {
		if number >= 1 && number <= len(s.Items) {
			return &s.Items[number-1]
		}
		number -= len(s.Items)
	}
	return nil
}

func (o *Overview) head() string {
	seconds := o.Duration.Seconds()
	head := fmt.Sprintf("%.1f s", seconds)
	if o.Host != "" {
		head += " on " + o.Host
	}
	if seconds > 0 {
		head += fmt.Sprintf(": %.2f of %d CPUs used", float64(o.Busy)/1e9/seconds, o.CPUs)
	}
	if o.Idle > 0 {
		head += fmt.Sprintf(", %.1f %% of waits were idle", o.Idle)
	}
	return head
}

// choose returns how many items of each section fit into a number of lines: first one of each, then a second one of
// each, and so on.
func (o *Overview) choose(lines int) []int {
	shown := make([]int, len(o.Sections))
	for n := 1; lines > 0; n++ {
		more := false
		for i, s := range o.Sections {
			if len(s.Items) >= n && lines > 0 {
				shown[i], more = n, true
				lines--
			}
		}
		if !more {
			break
		}
	}
	return shown
}

// line returns the line of an item. The description is cropped, the command never: if it leaves too little room, the
// line ends with a shorter one that does the same. Who ended waits is left out first.
func (item *Item) line(name string, number int, s Screen) string {
	shell, left := command(item.More, s.File), fmt.Sprintf("%-*s %*s ", nameWidth, name, valueWidth, item.Value)
	needed := Item{What: item.What, Function: item.Function}
	whole := utf8.RuneCountInString(left) + whoWidth + 1 + utf8.RuneCountInString(needed.describe(math.MaxInt)) + 1
	short := command([]string{"overview", "--more", fmt.Sprint(number)}, s.File)
	if whole+len(shell) > s.Width && len(short) < len(shell) {
		shell = short
	}
	room := max(s.Width-utf8.RuneCountInString(left)-len(shell)-1, leastWho)
	who := min(whoWidth, room)
	left += fmt.Sprintf("%-*s", who, text.Middle(item.Who, who))
	if room -= who; room > 0 {
		left, room = left+" ", room-1
	}
	what := item.describe(room)
	return left + what + strings.Repeat(" ", room-utf8.RuneCountInString(what)) + " " + shell + "\n"
}

// describe returns what happened, in at most width columns.
func (item *Item) describe(width int) string {
	start, end := item.What, ""
	if item.Function != "" && start != "" {
		start += ": "
	}
	if item.By != "" {
		end = ", " + item.By
	}
	room := width - utf8.RuneCountInString(start) - utf8.RuneCountInString(end)
	if end != "" && room < min(utf8.RuneCountInString(item.Function), leastFunction) {
		room, end = room+utf8.RuneCountInString(end), ""
	}
	return crop(start+text.Function(item.Function, max(room, 0))+end, width)
}

// leastFunction is how much of a function's name is shown before anything else that is not necessary.
const leastFunction = 20

// crop cuts off the end of a text.
func crop(s string, width int) string {
	if r := []rune(s); len(r) > width {
		return strings.TrimRight(string(r[:max(width-1, 0)]), " ,:") + strings.Repeat("…", min(width, 1))
	}
	return s
}

// command returns the words of a command, for a shell.
func command(args, file []string) string {
	command := "gperf"
	for _, word := range slices.Concat(args[:1], file, args[1:]) {
		if word == "" || strings.ContainsAny(word, " \t\"$&|<>*?[](){}~;#!`\\'") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		command += " " + word
	}
	return command
}
