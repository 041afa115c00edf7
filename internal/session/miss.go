package session

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Miss is a condition of a filter that no sample meets.
type Miss struct {
	Flag string   // the command line's, such as "--comms a,b"; "" if only all conditions together exclude each sample
	Have []string // the samples' values instead, the most frequent first
}

// maxRejected limits the distinct values that a filter remembers.
const maxRejected = 1000

// tried holds the values that samples contain in place of the words of a filter.
type tried[T cmp.Ordered] struct {
	met  bool
	seen map[T]int
}

func (t *tried[T]) add(met bool, value T) {
	if t.met = t.met || met; t.met {
		return
	}
	if t.seen == nil {
		t.seen = map[T]int{}
	}
	if _, known := t.seen[value]; known || len(t.seen) < maxRejected {
		t.seen[value]++
	}
}

// miss adds the condition to l if no sample met it.
func (t *tried[T]) miss(l []Miss, flag string, words []T) []Miss {
	if words == nil || t.met {
		return l
	}
	return append(l, Miss{flag + " " + strings.Join(texts(words), ","), MostFrequent(t.seen)})
}

// MostFrequent returns counted values, the most frequent first.
func MostFrequent[T, N cmp.Ordered](counts map[T]N) []string {
	var values []T
	for v := range counts {
		values = append(values, v)
	}
	slices.SortFunc(values, func(a, b T) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	return texts(values)
}

func texts[T any](values []T) (l []string) {
	for _, v := range values {
		l = append(l, fmt.Sprint(v))
	}
	return l
}

// rejected describes the samples that a filter rejected before it selected one.
type rejected struct {
	samples     int
	comms       tried[string]
	pids, tids  tried[int32]
	cpus        tried[int]
	parallelism tried[int]
	inTime      bool
	first, last uint64
}

func (r *rejected) add(f *Filter, s *Sample) {
	if r.samples++; r.samples == 1 {
		r.first = s.Time
	}
	r.first, r.last = min(r.first, s.Time), max(r.last, s.Time)
	r.comms.add(slices.Contains(f.Comms, s.Comm), s.Comm)
	r.pids.add(slices.Contains(f.PIDs, s.PID), s.PID)
	r.tids.add(slices.Contains(f.TIDs, s.TID), s.TID)
	r.cpus.add(slices.Contains(f.CPUs, int(s.CPU)), int(s.CPU))
	r.parallelism.add(slices.Contains(f.Parallelism, s.Parallelism), s.Parallelism)
	r.inTime = r.inTime || f.Times.Contain(s.Time)
}

// Misses returns why the filter selected none of the samples that it was asked about; nothing if it selected one.
func (f *Filter) Misses() (l []Miss) {
	if f == nil || f.matched || f.missed.samples == 0 {
		return nil
	}
	r := &f.missed
	l = r.comms.miss(l, "--comms", f.Comms)
	l = r.pids.miss(l, "--pid", f.PIDs)
	l = r.tids.miss(l, "--tid", f.TIDs)
	l = r.cpus.miss(l, "--cpu", f.CPUs)
	l = r.parallelism.miss(l, "--parallelism", f.Parallelism)
	if f.Times != nil && !r.inTime {
		l = append(l, Miss{"--time", []string{fmt.Sprintf("%.6f,%.6f", float64(r.first)/1e9, float64(r.last)/1e9)}})
	}
	if l == nil {
		l = []Miss{{}}
	}
	return l
}

// Misses returns the lists of w that no sample was at, with the DSOs and functions of samples; nothing if w selected
// one.
func (w *Where) Misses() (l []Miss) {
	var dsos, symbols tried[string]
	for f, is := range w.known {
		if is {
			return nil
		}
		name := "[unknown]"
		if f.Map != nil {
			name = f.Map.DSO.ShortName()
		}
		dsos.add(w.matchesDSO(f), name)
		name = "[unknown]"
		if sym := f.Sym(); sym != nil {
			name = sym.Name
		}
		symbols.add(w.matchesSymbol(f), name)
	}
	if len(w.known) == 0 {
		return nil
	}
	l = dsos.miss(l, "--dsos", w.DSOs)
	l = symbols.miss(l, "--symbols", w.Symbols)
	if l == nil {
		l = []Miss{{}}
	}
	return l
}
