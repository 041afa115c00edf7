package key

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"gperf/format"
	"gperf/internal/container"
	"gperf/internal/session"
)

// commonKeys are the keys of all samples, in the order in which an abbreviation finds them.
var commonKeys = []string{"pid", "tid", "comm", "dso", "symbol", "cpu", "time", "cgroup", "container", "pod",
	"unit"}

// Common returns the keys of all samples.
func Common() []string { return slices.Clone(commonKeys) }

// wakerKeys are the keys of the thread or interrupt that ended the wait of a sample.
var wakerKeys = []string{"waker_comm", "waker_pid", "waker_tid"}

// waker returns the reader of one of wakerKeys.
func waker(key string) reader {
	text := func(s *session.Sample) Value {
		switch by := s.Waker; {
		case by == nil:
			return Value{Key: key, Text: Missing}
		case key == "waker_pid":
			return number(key, int64(by.PID))
		case key == "waker_tid":
			return number(key, int64(by.TID))
		}
		return Value{Key: key, Text: s.Waker.Comm}
	}
	r := reader{
		Column:   Column{Key: key, Numeric: key != "waker_comm"},
		appendID: func(b []byte, s *session.Sample) []byte { return append(b, text(s).Text...) },
		value:    text,
	}
	if r.Numeric {
		r.number = func(s *session.Sample) int64 { return text(s).Number }
		r.has = func(s *session.Sample) bool { return s.Waker != nil }
	}
	return r
}

// common returns the reader of a key of all samples. The word may be abbreviated.
func (p *parser) common(word string) (reader, bool) {
	if slices.Contains(wakerKeys, word) && session.HasWakers(p.file) {
		return waker(word), true
	}
	for _, key := range commonKeys {
		if len(word) >= 2 && strings.HasPrefix(key, word) || word == key {
			return p.commonReader(key), true
		}
	}
	return reader{}, false
}

func (p *parser) commonReader(key string) reader {
	switch key {
	case "pid":
		return countReader(key, func(s *session.Sample) int64 { return int64(s.PID) })
	case "tid":
		return countReader(key, func(s *session.Sample) int64 { return int64(s.TID) })
	case "comm":
		return textReader(key, func(s *session.Sample) string { return s.Comm })
	case "dso":
		return ofLeaf(textReader(key, func(s *session.Sample) string { return s.Leaf.DSO() }))
	case "symbol":
		return ofLeaf(textReader(key, func(s *session.Sample) string { return s.Leaf.Symbol() }))
	case "cpu":
		return countReader(key, p.cpu)
	case "time":
		return p.timeReader()
	case "container":
		return textReader(key, Container)
	case "pod":
		return textReader(key, Pod)
	case "unit":
		return textReader(key, Unit)
	}
	return textReader(key, func(s *session.Sample) string { return cmp.Or(s.Cgroup, Missing) })
}

// textReader returns the reader of a text.
func textReader(key string, get func(s *session.Sample) string) reader {
	return reader{
		Column:   Column{Key: key},
		appendID: func(b []byte, s *session.Sample) []byte { return append(b, get(s)...) },
		value:    func(s *session.Sample) Value { return Value{Key: key, Text: get(s)} },
	}
}

// countReader returns the reader of a number.
func countReader(key string, get func(s *session.Sample) int64) reader {
	return reader{
		Column: Column{Key: key, Numeric: true},
		appendID: func(b []byte, s *session.Sample) []byte {
			return binary.LittleEndian.AppendUint64(b, uint64(get(s)))
		},
		value:  func(s *session.Sample) Value { return number(key, get(s)) },
		number: get,
	}
}

// ofLeaf returns the reader of a key that is known once the sample's frames are.
func ofLeaf(r reader) reader {
	r.leaf = true
	return r
}

// timeReader returns the reader of the interval that contains a sample. Filters compare the sample's own time.
func (p *parser) timeReader() reader {
	r := countReader("time", func(s *session.Sample) int64 { return int64(s.Time - s.Time%p.quantum) })
	r.value = func(s *session.Sample) Value { return p.time(s.Time) }
	r.number = func(s *session.Sample) int64 { return int64(s.Time) }
	r.seconds, r.Numeric = true, false
	return r
}

// Container returns the name of a sample's container, or else its ID, shortened as in listings of containers, Missing
// without one.
func Container(s *session.Sample) string {
	if s.Container == nil {
		return Missing
	}
	return cmp.Or(s.Container.Name, s.Container.Short(), Missing)
}

// Pod returns the name of a sample's Kubernetes pod, NAMESPACE/NAME, or else its UID, Missing without one.
func Pod(s *session.Sample) string {
	if s.Container == nil {
		return Missing
	}
	return cmp.Or(s.Container.PodName, s.Container.Pod, Missing)
}

// Unit returns the unit of systemd in a sample's cgroup, Missing without one.
func Unit(s *session.Sample) string { return cmp.Or(container.UnitOf(s.Cgroup), Missing) }

// cpu returns where the sample was taken, -1 if that was not recorded.
func (p *parser) cpu(s *session.Sample) int64 {
	if p.file.Attrs[s.Event].SampleType&format.SampleCPU == 0 {
		return -1
	}
	return int64(s.CPU)
}

// time returns the beginning of the interval that contains a time, in seconds.
func (p *parser) time(ns uint64) Value {
	const second = 1_000_000_000
	ns -= ns % p.quantum
	digits := 6
	if p.quantum%1000 != 0 {
		digits = 9
	}
	text := fmt.Sprintf("%d.%09d", ns/second, ns%second)
	return Value{Key: "time", Text: text[:len(text)-9+digits]}
}
