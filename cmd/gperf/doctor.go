package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"gperf/record/doctor"
)

const doctorHelp = `Checks what this machine can record with its kernel and your rights, and how to fix
what it cannot. Each line is the result of one check: ok, part (partly possible) or
no. The exit code is 0 if anything can be recorded, otherwise 1.`

func doctorCommand(args []string, stdout, stderr io.Writer) int {
	s := newFlagSet("doctor")
	asJSON := s.BoolP("json", "j", false, "print JSON")
	var found []doctor.Finding
	code := readCommand(s, args, doctorHelp, stdout, stderr, func() error {
		found = doctor.This().All()
		w := bufio.NewWriter(stdout)
		if *asJSON {
			enc := json.NewEncoder(w)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			if err := enc.Encode(found); err != nil {
				return err
			}
		} else {
			tellFindings(w, found)
		}
		return w.Flush()
	})
	if code == exitOK && found != nil && !doctor.Anything(found) {
		return exitError
	}
	return code
}

// tellFindings writes one line for each finding.
func tellFindings(w io.Writer, found []doctor.Finding) {
	for _, f := range found {
		line := fmt.Sprintf("%-4s  %-16s  %s", f.Verdict, f.Thing, f.Fact)
		if f.Way != "" {
			line += "; " + clause(f.Way)
		}
		fmt.Fprintln(w, line)
	}
}

// clause converts a sentence to a clause that can end a line.
func clause(s string) string {
	s = strings.TrimSuffix(strings.Join(strings.Fields(s), " "), ".")
	if len(s) > 1 && 'A' <= s[0] && s[0] <= 'Z' && (s[1] == ' ' || 'a' <= s[1] && s[1] <= 'z') {
		return strings.ToLower(s[:1]) + s[1:]
	}
	return s
}
