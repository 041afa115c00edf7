package probe

import (
	"errors"
	"fmt"
	"path"

	"gperf/record/tracefs"
)

// ExistsError means that the probe exists already.
type ExistsError struct{ Event string }

func (e *ExistsError) Error() string { return fmt.Sprintf("event %q already exists", e.Event) }

// AssignNames assigns names that no event of the kernel uses, as perf probe does: it numbers the second and
// further probes of one definition. If the first one exists already, it returns an *ExistsError, or with force,
// numbers it too.
func AssignNames(t *tracefs.FS, probes []*Probe, force bool) error {
	if _, err := t.Path(""); err != nil {
		return err
	}
	used := map[string]bool{}
	for i, p := range probes {
		first := true
		name := numbered(p.Event, func(name string) bool {
			taken := used[p.Group+":"+name] || t.Has(p.Group, name)
			first = first && !taken
			return taken
		})
		if !first && i == 0 && !force {
			return &ExistsError{p.String()}
		}
		p.Event = name
		used[p.String()] = true
	}
	return nil
}

// Install defines probes in the kernel under the probes' own names until they are deleted, and returns those that
// the kernel accepted. Rejected probes of globs are passed to notice. After an error none remains.
func Install(t *tracefs.FS, probes []*Probe, notice func(error)) ([]*Probe, error) {
	var taken []*Probe
	var installed []Installed
	errs := make([]error, len(probes))
	var failed error
	for _, user := range []bool{false, true} {
		var of []int
		var lines []string
		for i, p := range probes {
			if p.Kind.User() == user {
				of, lines = append(of, i), append(lines, p.Definition(p.Group, p.Event))
			}
		}
		if len(of) == 0 {
			continue
		}
		w := writer{tracefs: t, file: eventsFile(probes[of[0]].Kind), lines: lines}
		w.taken = func(n int) bool { p := probes[of[n]]; return t.Has(p.Group, p.Event) }
		w.done = func(n int, err error) {
			p := probes[of[n]]
			if err != nil {
				errs[of[n]] = installError(t, p, lines[n], err)
				return
			}
			taken = append(taken, p)
			installed = append(installed, Installed{Kind: p.Kind, Group: p.Group, Event: p.Event})
		}
		failed = errors.Join(failed, w.write())
	}
	if failed == nil {
		failed = ReportSkipped(probes, errs, notice)
	}
	if failed != nil {
		_, err := Delete(t, installed, nil)
		return nil, errors.Join(failed, err)
	}
	return taken, nil
}

// ReportSkipped decides which of the probes' errors are fatal: an error of a probe with an explicit name, and the
// errors of a glob without any remaining probe. It counts the others, and passes them to notice.
func ReportSkipped(probes []*Probe, errs []error, notice func(error)) error {
	globs := map[string]*SkippedError{}
	var order []*SkippedError
	for i, p := range probes {
		if p.Glob == "" {
			if errs[i] != nil {
				return errs[i]
			}
			continue
		}
		g := globs[p.Glob]
		if g == nil {
			g = &SkippedError{Glob: p.Glob, Why: map[string]int{}}
			globs[p.Glob] = g
			order = append(order, g)
		}
		g.Of++
		if errs[i] != nil {
			g.Skipped++
			g.Why[reason(errs[i])]++
		}
	}
	for _, g := range order {
		if g.Skipped == g.Of {
			return g
		}
		if g.Skipped > 0 && notice != nil {
			notice(g)
		}
	}
	return nil
}

// Matches reports whether the probe's name matches a glob for the event, or for GROUP:EVENT.
func (p *Installed) Matches(glob string) bool {
	full, err := path.Match(glob, p.String())
	if err != nil {
		return false
	}
	event, _ := path.Match(glob, p.Event)
	return full || event
}
