package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"

	"gperf/format"
	"gperf/internal/session"
)

// tasks are the threads of a recording by TID.
type tasks map[int32]*session.Task

// Tasks prints the recording's threads below those that started them, as `perf report
// --tasks` does; mappings adds their processes' mappings, as `--mmaps`. The result
// counts the skipped parts of the file.
func Tasks(w io.Writer, s *session.Session, mappings bool) (format.Skipped, error) {
	list, skipped, err := s.Tasks(mappings)
	if err != nil {
		return skipped, err
	}
	all := tasks{}
	for _, t := range list {
		all[t.TID] = t
	}
	slices.SortFunc(list, func(a, b *session.Task) int { return cmp.Or(all.compare(a, b), cmp.Compare(a.TID, b.TID)) })
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "# %8s %8s %8s  %s\n", "pid", "tid", "ppid", "comm")
	for _, t := range list {
		all.print(out, t)
	}
	return skipped, out.Flush()
}

// ancestors returns the task and those that started it, the oldest first.
func (all tasks) ancestors(t *session.Task) (line []*session.Task) {
	for t != nil && !slices.Contains(line, t) { // a damaged recording may have circles
		line = append(line, t)
		if t.TID <= 0 || t.Parent <= 0 {
			break
		}
		t = all[t.Parent]
	}
	slices.Reverse(line)
	return line
}

// compare puts a task after the one that started it, and before others that have higher
// TIDs. The idle task, TID 0, comes first.
func (all tasks) compare(a, b *session.Task) int {
	return slices.CompareFunc(all.ancestors(a), all.ancestors(b), func(a, b *session.Task) int {
		return cmp.Compare(a.TID, b.TID)
	})
}

func (all tasks) print(w *bufio.Writer, t *session.Task) {
	level := len(all.ancestors(t))
	if t.TID <= 0 {
		level = 0
	}
	start := fmt.Sprintf("  %8d %8d %8d |%*s", t.PID, t.TID, t.Parent, level, "")
	fmt.Fprintf(w, "%s%s\n", start, t.Comm)
	for _, m := range t.Mappings {
		prot := []byte("---p")
		for bit, letter := range []byte("rwx") {
			if m.Prot>>bit&1 != 0 {
				prot[bit] = letter
			}
		}
		if m.Flags != 0 { // of private mappings too, as in perf
			prot[3] = 's'
		}
		fmt.Fprintf(w, "%*s  %x-%x %s %08x %s %s\n", len(start), "", m.Start, m.End, prot, m.Pgoff, m.ID, m.Name)
	}
}
