package event

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gperf/format"
	"gperf/record/probe"
	"gperf/record/tracefs"
)

// fakeTracefs makes a tracefs with these tracepoints, whose ids count from 1.
func fakeTracefs(t *testing.T, names ...string) *Resolver {
	t.Helper()
	root := t.TempDir()
	for i, n := range names {
		dir := filepath.Join(root, "events", strings.ReplaceAll(n, ":", "/"))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"id": strconv.Itoa(i+1) + "\n", "format": "format of " + n} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	// A directory without id, and files next to the directories, are not events.
	if err := os.MkdirAll(filepath.Join(root, "events/skb/noid"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"enable", "skb/enable", "skb/filter"} {
		if err := os.WriteFile(filepath.Join(root, "events", n), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return &Resolver{Resolver: &probe.Resolver{Tracefs: &tracefs.FS{Root: root}}}
}

func TestParse(t *testing.T) {
	fs := fakeTracefs(t, "skb:kfree_skb", "skb:consume_skb", "sock:sock_rcvqueue_full", "ftrace:function")
	const (
		hw, sw, tp, cache, raw = format.TypeHardware, format.TypeSoftware, format.TypeTracepoint, format.TypeHWCache,
			format.TypeRaw
		noU, noK, noHV = format.FlagExcludeUser, format.FlagExcludeKernel, format.FlagExcludeHV
	)
	precise := func(n int) format.AttrFlags { return format.AttrFlags(0).WithPreciseIP(n) }
	for _, c := range []struct {
		spec   string
		typ    format.EventType
		config uint64
		flags  format.AttrFlags
	}{
		{"cycles", hw, 0, 0},
		{"cpu-cycles:u", hw, 0, noK | noHV},
		{"instructions:k", hw, 1, noU | noHV},
		{"branches:h", hw, 4, noU | noK},
		{"ref-cycles:ukh", hw, 9, 0},
		{"cycles:pp", hw, 0, precise(2)},
		{"cycles:P", hw, 0, precise(3)},
		{"cycles:upp", hw, 0, noK | noHV | precise(2)},
		{"cycles:G", hw, 0, format.FlagExcludeHost},
		{"cycles:H", hw, 0, format.FlagExcludeGuest},
		{"cycles:GH", hw, 0, 0},
		{"cycles:DIe", hw, 0, format.FlagPinned | format.FlagExcludeIdle | format.FlagExclusive},
		{"cpu-clock", sw, 0, 0},
		{"task-clock", sw, 1, 0},
		{"faults", sw, 2, 0},
		{"cs", sw, 3, 0},
		{"migrations", sw, 4, 0},
		{"cgroup-switches", sw, 11, 0},
		{"L1-dcache-load-misses", cache, 0 | 0<<8 | 1<<16, 0},
		{"l1d", cache, 0, 0},
		{"LLC-loads", cache, 2, 0},
		{"LLC-store-misses:u", cache, 2 | 1<<8 | 1<<16, noK | noHV},
		{"dTLB-misses", cache, 3 | 0<<8 | 1<<16, 0},
		{"iTLB-load-misses", cache, 4 | 0<<8 | 1<<16, 0},
		{"branch-load-misses", cache, 5 | 0<<8 | 1<<16, 0},
		{"node-prefetches", cache, 6 | 2<<8 | 0<<16, 0},
		{"branch-misses", hw, 5, 0}, // the hardware event goes before the cache
		{"r1a8:k", raw, 0x1a8, noU | noHV},
		{"skb:kfree_skb", tp, 1, 0},
		{"skb:kfree_skb:k", tp, 1, noU | noHV},
		{"s?b:k*", tp, 1, 0},
		{"skb:[c]onsume*", tp, 2, 0},
	} {
		t.Run(c.spec, func(t *testing.T) {
			l, err := Parse(c.spec, fs)
			if err != nil || len(l) != 1 {
				t.Errorf("%s: %d events, %v", c.spec, len(l), err)
				return
			}
			if l[0].Type != c.typ || l[0].Config != c.config || l[0].Flags != c.flags {
				t.Errorf("%s: type %d config %#x flags %#x, want %d %#x %#x",
					c.spec, l[0].Type, l[0].Config, l[0].Flags, c.typ, c.config, c.flags)
			}
			name := c.spec
			if c.typ == tp {
				name = []string{1: "skb:kfree_skb", 2: "skb:consume_skb"}[c.config]
			}
			if l[0].Name != name {
				t.Errorf("%s is named %q, want %q", c.spec, l[0].Name, name)
			}
		})
	}
}

func TestParseLists(t *testing.T) {
	fs := fakeTracefs(t, "skb:kfree_skb", "skb:consume_skb", "sock:sock_rcvqueue_full", "ftrace:function")
	for _, c := range []struct {
		spec string
		want int
	}{
		{"cs,faults, cpu-clock:u", 3},
		{"skb:*", 2},
		{"*:*", 3}, // without the function tracer's
		{"*:*skb*", 2},
		{"s*:*,cs", 4},
		{"ftrace:function", 1},
	} {
		t.Run(c.spec, func(t *testing.T) {
			l, err := Parse(c.spec, fs)
			if err != nil || len(l) != c.want {
				t.Errorf("%s: %d events, %v; want %d", c.spec, len(l), err, c.want)
			}
		})
	}
	if l, _ := Parse("cs:S", fs); len(l) != 1 || !l[0].SampleRead {
		t.Errorf("cs:S does not read counts: %+v", l)
	}
}

func TestParseRefusals(t *testing.T) {
	fs := fakeTracefs(t, "skb:kfree_skb", "skb:consume_skb")
	for _, c := range []struct {
		spec string
		want string
	}{
		{"", "empty"},
		{"cs,", "empty"},
		{"cs:", "the modifier after the colon is missing"},
		{"cs:uu", `'u' is given twice`},
		{"cs:x", "unknown modifier 'x'"},
		{"cs:pppp", "at most three p"},
		{"cs:b", "counting"},
		{"cs:W", "groups"},
		{"{cs,faults", "}"},
		{"{cs,{faults}}", "groups cannot be nested"},
		{"{cs}x", "modifiers"},
		{"{}", "empty"},
		{"nopmu/cycles/", "no PMU nopmu"},
		{"skb:k[", "bracket"},
		{"skb:kfree_skp", "did you mean skb:kfree_skb?"},
		{"net:kfree_skb", "did you mean skb:kfree_skb?"},
		{"cpu-clokc", "did you mean cpu-clock?"},
		{"L1-dcache-loadz", "did you mean L1-dcache-loads"},
		{"skb:*nothing*", "unknown event"},
		{"../skb:kfree_skb", "PMU"},
		{"..:kfree_skb", "did you mean skb:kfree_skb?"},
		{"skb:..", "unknown event"},
		{"L1-icache-stores", "unknown event"}, // there is no such thing
		{"zzzzzzzzzzzzzzzzz", `unknown event "zzzzzzzzzzzzzzzzz"`},
	} {
		t.Run(c.spec, func(t *testing.T) {
			_, err := Parse(c.spec, fs)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q: %v; want %q", c.spec, err, c.want)
				return
			}
			var bad *SpecError
			var unknown *UnknownError
			if !errors.As(err, &bad) && !errors.As(err, &unknown) {
				t.Errorf("%q: an error of type %T", c.spec, err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"cycles:u", "skb:*", "L1-dcache-load-misses:pp", "r1a8", "cs,{faults}",
		"grp{cs/period=3/,mem:0x10/4:w:u}:S,cpu/event=0x3c,name='a,b'/k",
		"kprobe:f x=%di/max-stack=4/", "mem:sym:x", "cs/", "{", "}", "/,/", "msr//", ":", "skb:[", "a:b:c:d"} {
		f.Add(s)
	}
	fs := &Resolver{Resolver: &probe.Resolver{Tracefs: &tracefs.FS{Root: f.TempDir()}}}
	if err := os.MkdirAll(filepath.Join(fs.Tracefs.Root, "events/skb/kfree_skb"), 0o755); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := Parse(s, fs)
		if err == nil && len(l) == 0 {
			t.Errorf("%q is neither an event nor an error", s)
		}
	})
}
