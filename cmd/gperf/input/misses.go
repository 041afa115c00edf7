package input

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"gperf/internal/session"
	"gperf/internal/suggest"
)

// addMisses adds the conditions that no sample of a recording meets.
func (l *Warnings) addMisses(misses []session.Miss) {
	if len(misses) > 0 {
		l.missed++
	}
	for _, m := range misses {
		i := slices.IndexFunc(l.Misses, func(known session.Miss) bool { return known.Flag == m.Flag })
		if i < 0 {
			l.Misses = append(l.Misses, m)
			continue
		}
		for _, value := range m.Have {
			if !slices.Contains(l.Misses[i].Have, value) {
				l.Misses[i].Have = append(l.Misses[i].Have, value)
			}
		}
	}
}

// maxHave limits the listed values of samples.
const maxHave = 8

// warnMisses says why the filters selected no sample of any recording.
func (l *Warnings) warnMisses(stderr io.Writer) {
	if l.missed < l.Recordings {
		return
	}
	for _, m := range l.Misses {
		if m.Flag == "" {
			fmt.Fprintf(stderr, "gperf: no sample meets all conditions\n")
			continue
		}
		if len(m.Have) == 0 {
			fmt.Fprintf(stderr, "gperf: no sample matches %s\n", m.Flag)
			continue
		}
		flag, words, _ := strings.Cut(m.Flag, " ")
		if flag == "--filter" {
			_, value, _ := strings.Cut(words, "==") // other operators compare with no name
			words = strings.Trim(value, ` '"`)
		}
		var near []string
		for word := range strings.SplitSeq(words, ",") {
			if _, err := strconv.Atoi(word); err != nil || len(word) > 2 { // all short numbers are similar
				near = append(near, suggest.Names(word, m.Have)...)
			}
		}
		have := "the samples have " + strings.Join(m.Have[:min(len(m.Have), maxHave)], ", ")
		switch {
		case flag == "--time":
			have = "the samples are at " + m.Have[0]
		case words != "" && len(near) > 0:
			have = "did you mean " + strings.Join(near, ", ") + "?"
		case len(m.Have) > maxHave:
			have += fmt.Sprintf(" and %d more", len(m.Have)-maxHave)
		}
		fmt.Fprintf(stderr, "gperf: no sample matches %s: %s\n", m.Flag, have)
	}
}
