package key

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"gperf/format"
	"gperf/format/fields"
	"gperf/format/tracepoint"
	"gperf/internal/container"
	"gperf/internal/dso"
	"gperf/internal/session"
	"gperf/symbolize"
)

// groups returns the texts of the groups of a recording's samples, each once, sorted.
func groups(t *testing.T, name string, opts Options) (list []string, err error) {
	t.Helper()
	b, err := os.ReadFile("../../testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := format.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	id, ref, addr := session.RecordedKernel(f)
	symbols := symbolize.New(symbolize.Options{Kallsyms: "../../testdata/kallsyms",
		Locator:       &dso.Locator{Tree: dso.Tree{Root: t.TempDir()}},
		KernelBuildID: id, KernelRef: ref, KernelRefAddr: addr})
	keys, err := New(f, symbols, opts)
	if err != nil {
		return nil, err
	}
	ids := map[string]string{}
	_, err = session.New(session.Options{File: f, Symbols: symbols}).Walk(session.WalkOptions{Names: true},
		func(b *session.Batch) error {
			for i := range b.Samples {
				g, text := keys.Of(&b.Samples[i]), ""
				for _, v := range g.Values {
					text += fmt.Sprintf("%s=%s/%d ", v.Key, v.Text, v.Number)
				}
				if old, ok := ids[g.ID]; ok && old != text {
					t.Errorf("%q and %q have the same ID", old, text)
				}
				ids[g.ID] = text
			}
			b.Release()
			return nil
		})
	for _, text := range ids {
		list = append(list, text)
	}
	slices.Sort(list)
	return list, err
}

func TestGroups(t *testing.T) {
	for _, test := range []struct {
		name string
		opts Options
		want string // in the first group
		n    int
	}{
		{"drops.data", Options{Words: []string{"reason", "location"}},
			"reason=NO_SOCKET/0 location=__udp4_lib_rcv+0x4bc/0 ", 1},
		{"drops.data", Options{Few: true}, "location=__udp4_lib_rcv+0x4bc/0 protocol=IPv4/0 reason=NO_SOCKET/0 ", 1},
		{"drops.data", Options{Words: []string{"skbaddr"}}, "skbaddr=0x", 2},
		{"drops.data", Options{Words: []string{"sym", "comm"}}, "symbol=sk_skb_reason_drop/0 comm=drops/0 ", 1},
		{"drops.data", Options{Words: []string{"time"}, Quantum: 1e9}, "time=0.000000/0 ", 1},
		{"drops.data", Options{}, "", 1},
	} {
		t.Run(strings.Join(test.opts.Words, ","), func(t *testing.T) {
			got, err := groups(t, test.name, test.opts)
			if test.opts.Quantum != 0 && len(got) > 0 { // the time of the recording does not matter
				got[0] = strings.Replace(got[0], strings.TrimLeft(strings.SplitN(got[0], ".", 2)[0], "time="), "0", 1)
			}
			if err != nil || len(got) != test.n || !strings.HasPrefix(got[0], test.want) {
				t.Errorf("got %d: %q, %v; want %d: %q", len(got), got, err, test.n, test.want)
			}
		})
	}
}

// TestOtherEvents: events without a field yield no value of it, numbers are numbers.
func TestOtherEvents(t *testing.T) {
	got, err := groups(t, "two.data", Options{Words: []string{"prev_prio", "next_comm"}})
	if err != nil || !slices.Contains(got, "prev_prio=120/120 next_comm=swapper/0/0 ") &&
		!slices.Contains(got, "prev_prio=120/120 next_comm=rcu_preempt/0 ") ||
		!slices.Contains(got, "prev_prio=N/A/0 next_comm=N/A/0 ") {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestContainer: the keys container and pod, of samples with both, with a pod alone, and without.
func TestContainer(t *testing.T) {
	long := container.Container{ID: strings.Repeat("0123456789abcdef", 4), Pod: "uid"}
	for _, c := range []struct {
		of             *container.Named
		container, pod string
	}{
		{&container.Named{Container: long}, "0123456789ab", "uid"},
		{&container.Named{Container: long, Name: "web", PodName: "shop/web-1"}, "web", "shop/web-1"},
		{&container.Named{Container: container.Container{Pod: "uid"}}, Missing, "uid"},
		{nil, Missing, Missing},
	} {
		s := &session.Sample{Container: c.of}
		if Container(s) != c.container || Pod(s) != c.pod {
			t.Errorf("%+v: %q, %q", c.of, Container(s), Pod(s))
		}
	}
}

// TestSyscallNumber: the kernel's own events do not say to which table a number belongs, gperf's spans do.
func TestSyscallNumber(t *testing.T) {
	names := fields.SyscallsOf("x86_64")
	for _, c := range []struct {
		system string
		id     int64
		is32   bool
		want   string
	}{
		{"raw_syscalls", 4, false, "stat"}, {"raw_syscalls", 4, true, "write"}, {"raw_syscalls", -1, true, "-1"},
		{"span", 4, true, "stat"}, {"span", fields.CompatSyscall | 4, true, "write"},
	} {
		if got := names.Name(SyscallNumber(&tracepoint.Format{System: c.system}, c.id, c.is32)); got != c.want {
			t.Errorf("%+v: got %s", c, got)
		}
	}
}

func TestUnknownKey(t *testing.T) {
	_, err := groups(t, "drops.data", Options{Words: []string{"comm", "raeson"}})
	var unknown *KeyError
	if !errors.As(err, &unknown) || unknown.Key != "raeson" || !slices.Contains(unknown.Keys, "reason") {
		t.Errorf("got %v", err)
	}
}

// TestUnsigned: a field of 64 bits without a sign has no negative numbers, in texts and in comparisons, and numbers
// that a field cannot have are above or below all that it has.
func TestUnsigned(t *testing.T) {
	event, err := tracepoint.Parse([]byte("name: made\nID: 1\nformat:\n"+
		"\tfield:u64 n;\toffset:0;\tsize:8;\tsigned:0;\n"+
		"\tfield:s64 i;\toffset:0;\tsize:8;\tsigned:1;\n\nprint fmt: \"\"\n"), "test")
	if err != nil {
		t.Fatal(err)
	}
	p := &parser{file: &format.File{}, rawData: rawData{tracepoint.Env{Order: binary.LittleEndian}}}
	n, i := p.field(event, event.Field("n")), p.field(event, event.Field("i"))
	of := func(v uint64) *session.Sample {
		return &session.Sample{Sample: format.Sample{Raw: binary.LittleEndian.AppendUint64(nil, v)}}
	}
	for _, c := range []struct {
		r     *reader
		v     uint64
		want  string
		exact bool // an int64
	}{{&n, math.MaxUint64, "18446744073709551615", false}, {&n, 1 << 63, "9223372036854775808", false}, {&n, 7, "7", true},
		{&i, math.MaxUint64, "-1", true}} {
		if got := c.r.value(of(c.v)); got.Text != c.want || got.Numeric != c.exact {
			t.Errorf("%s of %d: %+v, want %s", c.r.Key, c.v, got, c.want)
		}
	}
	for _, c := range []struct {
		filter string
		v      uint64
		want   bool
	}{
		{"n > 5", 1 << 63, true}, {"n < 5", 1 << 63, false}, {"n >= 0x8000000000000000", 1 << 63, true}, {"n > -1", 3, true},
		{"n < -1", 3, false}, {"n == -1", math.MaxUint64, true}, {"n <= 18446744073709551615", math.MaxUint64, true},
		{"i > 5", 1 << 63, false}, {"i < 0", 1 << 63, true}, {"i < 18446744073709551615", 3, true},
		{"i > 0xffffffffffffffff", 3, false}, {"i == 0xffffffffffffffff", math.MaxUint64, true}, {"i > -2", math.MaxUint64, true},
	} {
		tree, err := tracepoint.ParseFilter(c.filter)
		if err != nil {
			t.Fatal(err)
		}
		r := &n
		if tree.Field.Text == "i" {
			r = &i
		}
		is, err := (&compiler{parser: p, filter: &Filter{text: c.filter}}).test(tree, r)
		if err != nil {
			t.Fatal(err)
		}
		if got := is(of(c.v)); got != c.want {
			t.Errorf("%s of %d: %v", c.filter, c.v, got)
		}
	}
}
