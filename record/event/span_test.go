package event

import (
	"strings"
	"testing"
	"time"
)

func TestParseSpan(t *testing.T) {
	for spec, want := range map[string]Event{
		"span:syscalls":                    {Name: "span:syscalls", Span: &Span{}},
		"span:syscalls/min=1ms/":           {Name: "span:syscalls", Span: &Span{Min: time.Millisecond}},
		"span:syscalls/min=1us,name=slow/": {Name: "slow", Span: &Span{Min: time.Microsecond}},
		"span:syscalls/hist/":              {Name: "span:syscalls", Span: &Span{Hist: true}},
		"span:syscalls/hist,min=1us/":      {Name: "span:syscalls", Span: &Span{Hist: true, Min: time.Microsecond}},
	} {
		l, err := Parse(spec+","+spec, nil)
		if err != nil || len(l) != 2 {
			t.Errorf("%s: %d events, %v", spec, len(l), err)
			continue
		}
		for _, ev := range l {
			if ev.Name != want.Name || !ev.BPFSampled() ||
				ev.Span.Min != want.Span.Min || ev.Span.Hist != want.Span.Hist {
				t.Errorf("%s: %+v, span %+v", spec, ev, ev.Span)
			}
		}
	}
}

func TestParseSpanErrors(t *testing.T) {
	for spec, want := range map[string]string{
		"span:":                        "There are: span:syscalls",
		"span:syscall":                 "did you mean span:syscalls?",
		"span:syscalls:u":              "--filter 'duration > 1000000'",
		"span:syscalls/min=1ms":        "span:syscalls/min=1ms/",
		"span:syscalls/mim=1ms/":       "span:syscalls/min=1ms/",
		"span:syscalls/min=1/":         "100us, 1ms or 2s",
		"span:syscalls/min=-1s/":       "100us, 1ms or 2s",
		"span:syscalls/min=1s,freq=9/": "unknown term freq",
		"span:syscalls/name=/":         "the name is missing",
		"span:syscalls/hist=id/":       "hist=dev/",
	} {
		if _, err := Parse(spec, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
}

// Paths and names of Go's functions have dots, too.
func TestCutPair(t *testing.T) {
	for name, want := range map[string][2]string{
		"block:a..block:b":             {"block:a", "block:b"},
		"./srv:begin..end":             {"./srv:begin", "end"},
		"../srv:main.f":                {},
		"../../srv:main.f..main.g":     {"../../srv:main.f", "main.g"},
		"/a/../srv:f":                  {},
		"srv:main.f[...]":              {},
		"srv:main.f[...]..main.g[...]": {"srv:main.f[...]", "main.g[...]"},
		"srv:f..../srv:g":              {},
		"..":                           {},
		"a..b":                         {"a", "b"},
	} {
		begin, end, ok := cutPair(name)
		if ok != (want[1] != "") || ok && [2]string{begin, end} != want {
			t.Errorf("%s: %q, %q, %v", name, begin, end, ok)
		}
	}
}
