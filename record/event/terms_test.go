package event

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"gperf/format"
	"gperf/record/probe/program"
)

// machine is a finder of a machine with two PMUs and a few symbols.
func machine(t *testing.T) *Resolver {
	f := fakeTracefs(t, "skb:kfree_skb", "skb:consume_skb", "sched:sched_switch")
	f.Sysfs = t.TempDir()
	for name, text := range map[string]string{
		"cpu/type":                        "4",
		"cpu/format/event":                "config:0-7,32-35",
		"cpu/format/umask":                "config:8-15",
		"cpu/format/edge":                 "config:18",
		"cpu/format/offcore_rsp":          "config1:0-63",
		"cpu/format/frontend":             "config1:0-23",
		"cpu/format/threshold":            "config3:4",
		"cpu/format/odd":                  "config7:0",
		"cpu/events/cpu-cycles":           "event=0x3c",
		"cpu/events/cycles-ct":            "event=0x13c,umask=0x01,edge",
		"cpu/events/needs":                "event=0x10,umask=?",
		"cpu/events/slots.scale":          "1e-3",
		"uncore_imc/type":                 "13",
		"uncore_imc/cpumask":              "0,8-9",
		"uncore_imc/format/event":         "config:0-7",
		"uncore_imc/events/reads":         "event=0x04",
		"uncore_imc/events/reads.unit":    "MiB",
		"software/type":                   "1",
		"broken/type":                     "?",
		"cpu/events/../../../../../type2": "9",
	} {
		path := filepath.Join(f.Sysfs, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f.Kallsyms = filepath.Join(f.Sysfs, "kallsyms")
	if err := os.WriteFile(f.Kallsyms,
		[]byte("0000000000000000 A per_cpu\nffffffff81000000 T _text\nffffffff82000010 D jiffies\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestTerms(t *testing.T) {
	at := machine(t)
	const noU, noK, noHV = format.FlagExcludeUser, format.FlagExcludeKernel, format.FlagExcludeHV
	for _, c := range []struct {
		spec string
		want Event
	}{
		{"cpu/event=0x3c,umask=0x0,name=x,period=1000/u",
			Event{Name: "x", Type: 4, Config: 0x3c, Flags: noK | noHV, Terms: Terms{Period: 1000}}},
		{"cpu/event=0x13c/", Event{Type: 4, Config: 0x10000003c}},
		{"cpu/cpu-cycles/", Event{Type: 4, Config: 0x3c}},
		{"cpu/cycles-ct,umask=0x2/k", Event{Type: 4, Config: 0x10004023c, Flags: noU | noHV}},
		{"cpu/cycles-ct/:k", Event{Type: 4, Config: 0x10004013c, Flags: noU | noHV}},
		{"cpu/needs,umask=7/", Event{Type: 4, Config: 0x710}},
		{"cpu/edge,threshold,frontend=3/", Event{Type: 4, Config: 1 << 18, Config1: 3, Config3: 16}},
		{"cpu/config=0x1,config1=2,config2=3,config3=4/",
			Event{Type: 4, Config: 1, Config1: 2, Config2: 3, Config3: 4}},
		{"cpu/r1a8/", Event{Type: 4, Config: 0x1a8}},
		{"cpu/instructions/", Event{Type: format.TypeHardware, Config: 1}},
		{"cpu/L1-dcache-loads/", Event{Type: format.TypeHWCache}},
		{"software/cs/", Event{Type: format.TypeSoftware, Config: 3}},
		{"uncore_imc/reads/", Event{Type: 13, Config: 4, CPUs: []int{0, 8, 9}}},
		{"cs/call-graph=no/", Event{Type: format.TypeSoftware, Config: 3, Terms: Terms{CallGraph: CallGraphNone}}},
		{"cs/freq=99,name='a,b'/", Event{Name: "a,b", Type: format.TypeSoftware, Config: 3, Terms: Terms{Freq: 99}}},
		{"cs/no-inherit,time=0/", Event{Type: format.TypeSoftware, Config: 3, Terms: Terms{NoInherit: true}}},
		{"cs/inherit=0/", Event{Type: format.TypeSoftware, Config: 3, Terms: Terms{NoInherit: true}}},
		{"cs/stack-size=1001/", Event{Type: format.TypeSoftware, Config: 3, Terms: Terms{StackDump: 1008}}},
		{"cs//u", Event{Type: format.TypeSoftware, Config: 3, Flags: noK | noHV}},
		{"skb:kfree_skb/max-stack=4/", Event{Name: "skb:kfree_skb", Type: format.TypeTracepoint, Config: 1,
			Tracepoint: "skb/kfree_skb", Terms: Terms{MaxStack: 4}}},
		{"mem:0x1000", Event{Type: format.TypeBreakpoint, Config1: 0x1000, Config2: 4, BPType: 3}},
		{"mem:4096/8:w:u", Event{Type: format.TypeBreakpoint, Config1: 0x1000, Config2: 8, BPType: 2,
			Flags: noK | noHV}},
		{"mem:0x1000:x", Event{Type: format.TypeBreakpoint, Config1: 0x1000, Config2: 8, BPType: 4}},
		{"mem:0x1000:u", Event{Type: format.TypeBreakpoint, Config1: 0x1000, Config2: 4, BPType: 3, Flags: noK | noHV}},
		{"mem:jiffies/8:w/call-graph=fp/:k", Event{Type: format.TypeBreakpoint, Config1: 0xffffffff82000010,
			Config2: 8, BPType: 2, Flags: noU | noHV, Terms: Terms{CallGraph: CallGraphFP}}},
	} {
		t.Run(c.spec, func(t *testing.T) {
			l, err := Parse(c.spec, at)
			if err != nil || len(l) != 1 {
				t.Errorf("%s: %d events, %v", c.spec, len(l), err)
				return
			}
			if c.want.Name == "" {
				c.want.Name = c.spec
			}
			if !reflect.DeepEqual(l[0], c.want) {
				t.Errorf("%s:\n%+v, want\n%+v", c.spec, l[0], c.want)
			}
		})
	}
}

func TestTermsRefused(t *testing.T) {
	at := machine(t)
	for _, c := range []struct {
		spec string
		want string
	}{
		{"cpu/event=0x3c", "/ after the terms"},
		{"cpu/event=0x1000/", "0x1000 is too large, the maximum is 4095 (0xfff)"},
		{"cpu/event=abc/", `"abc" is not a number`},
		{"cpu/evnt=1/", "unknown term evnt of PMU cpu: did you mean event"},
		{"cpu/odd/", "config7:0"},
		{"cpu/needs/", "umask=…"},
		{"cpu/percore/", "for counting"},
		{"cpu/../type/", "unknown term ../type"},
		{"cpu/slots.scale/", "unknown term"},
		{"cpux/event=1/", "no PMU cpux: did you mean cpu?"},
		{"../cpu/event=1/", "no PMU"},
		{"broken/x/", "no PMU broken"},
		{"tracepoint/config=3/", "SYSTEM:NAME"},
		{"uprobe/retprobe/", "uprobe:FILE:FUNCTION"},
		{"cs/event=1/", "unknown term event"},
		{"cs/overwrite/", "overwrite"},
		{"cs/call-graph=lbr/", "branch records"},
		{"cs/call-graph=x/", "fp, dwarf and no"},
		{"cs/period=1,freq=2/", "exclude each other"},
		{"cs/period=0/", "0 is not allowed"},
		{"cs/max-stack=70000/", "65535"},
		{"cs/name/", "name is missing"},
		{"cs/,/", "empty term"},
		{"cs/period=1/W", "groups"},
		{"skb:kfree_skb/config=1/", "unknown term config"},
		{"mem:", "mem:ADDR"},
		{"mem:0x10:q:u", `"q" is not an access`},
		{"mem:0x10:rr:u", "not an access"},
		{"mem:0x10/9", "1 to 8"},
		{"mem:0xzz", "not an address"},
		{"mem:jifies:w", "no symbol jifies in /proc/kallsyms: did you mean jiffies?"},
		{"{cs,mem:0x10/4:w:u", "} is missing"},
		{"{skb:nothing,cs}", "unknown event"},
		{"uprobe:" + self(t) + ":runtime.gopark here/max-stack=0/", `argument "here"`},
	} {
		t.Run(c.spec, func(t *testing.T) {
			l, err := Parse(c.spec, at)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q: %+v, %v; want %q", c.spec, l, err, c.want)
			}
		})
	}
}

// TestBreakpointHidden checks that symbols are not found if the kernel hides its addresses.
func TestBreakpointHidden(t *testing.T) {
	at := machine(t)
	if err := os.WriteFile(at.Kallsyms, []byte("0000000000000000 T _text\n0000000000000000 D jiffies\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Parse("mem:jiffies:w", at); err == nil || !strings.Contains(err.Error(), "kptr_restrict") {
		t.Error(err)
	}
}

// TestBreakpointAmbiguous checks that a name of several symbols, except aliases, is refused with their addresses.
func TestBreakpointAmbiguous(t *testing.T) {
	at := machine(t)
	if err := os.WriteFile(at.Kallsyms, []byte("ffffffff82000010 d count\nffffffff82000020 d alias\n"+
		"ffffffff82000020 D alias\nffffffffc0000010 d count\t[nft]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const want = "the kernel has 2 symbols count: use an address, 0xffffffff82000010, 0xffffffffc0000010 (nft)"
	var bad *SpecError
	if l, err := Parse("mem:count/8:w", at); !errors.As(err, &bad) || bad.Msg != want {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err := Parse("mem:alias/8:w", at); err != nil || l[0].Config1 != 0xffffffff82000020 {
		t.Errorf("%+v, %v", l, err)
	}
}

// self is a program with functions that every kernel can probe: the test itself.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestProbesModifiers checks modifiers after probes, as after other events.
func TestProbesModifiers(t *testing.T) {
	at := machine(t)
	for _, mods := range []string{":u", "/max-stack=1/u", "/max-stack=1/:u"} {
		t.Run(mods, func(t *testing.T) {
			l, err := Parse("uprobe:"+self(t)+":runtime.gopark"+mods, at)
			if err != nil || len(l) != 1 || l[0].Name != "probe_event:runtime_gopark" ||
				l[0].Flags != format.FlagExcludeKernel|format.FlagExcludeHV {
				t.Errorf("%+v, %v", l, err)
			}
		})
	}
	var none *program.FileError
	if _, err := Parse("usdt:"+self(t)+":u", at); !errors.As(err, &none) {
		t.Errorf("a name that looks like modifiers: %v", err)
	}
}

func TestGroups(t *testing.T) {
	at := machine(t)
	for _, c := range []struct {
		spec string
		want string
	}{
		{"{cs,faults},cpu-clock", "cs +faults cpu-clock"},
		{"a-b{cs, faults}:S", "[a-b]cs.S +faults.S.silent"},
		{"{cs,faults/period=3/}:S", "cs.S +faults/period=3/.S"},
		{"{cs:S,faults}", "cs:S.S +faults.silent"},
		{"{cs,faults}:W,cs", "cs.weak +faults.weak cs"},
		{"{skb:k*,cs}", "skb:kfree_skb +cs"},
		{"{cpu/event=1,umask=2/,cs},{cs}", "cpu/event=1,umask=2/ +cs cs"},
		{"{mem:0x10/4:w:u,cs}", "mem:0x10/4:w:u +cs"},
		{"{uprobe:EXE:runtime.mallocgc,uprobe:EXE:runtime.gopark/max-stack=1,time/}",
			"probe_event:runtime_mallocgc +probe_event:runtime_gopark"},
	} {
		t.Run(c.spec, func(t *testing.T) {
			l, err := Parse(strings.ReplaceAll(c.spec, "EXE", self(t)), at)
			if err != nil {
				t.Errorf("%s: %v", c.spec, err)
				return
			}
			var got []string
			for _, ev := range l {
				s := ev.Name
				if ev.Group != "" {
					s = "[" + ev.Group + "]" + s
				}
				if ev.Member {
					s = "+" + s
				}
				if ev.SampleRead {
					s += ".S"
				}
				if ev.Weak {
					s += ".weak"
				}
				if ev.Silent {
					s += ".silent"
				}
				got = append(got, s)
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("%s:\n%s, want\n%s", c.spec, s, c.want)
			}
		})
	}
	// A group's modifiers add to its events' own, as perf's do.
	l, err := Parse("{cs:u,faults}:k", at)
	if err != nil || l[0].Flags != format.FlagExcludeHV || l[1].Flags != format.FlagExcludeHV|format.FlagExcludeUser {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestPMUs(t *testing.T) {
	var got []string
	for _, p := range machine(t).PMUs() {
		got = append(got, p.Name+": "+strings.Join(p.Events(), " ")+"; "+strings.Join(p.Terms(), " "))
	}
	want := []string{"cpu: cpu-cycles cycles-ct needs; edge event frontend odd offcore_rsp threshold umask",
		"software: ; ", "uncore_imc: reads; event"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
