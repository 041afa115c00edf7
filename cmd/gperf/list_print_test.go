package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gperf/format"
	"gperf/internal/packet"
	"gperf/record/event"
	"gperf/record/tracefs"
)

const kfreeSKBFormat = `name: kfree_skb
ID: 1
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:void * location;	offset:8;	size:8;	signed:0;
	field:unsigned long args[6];	offset:16;	size:48;	signed:0;
	field:__data_loc char[] name;	offset:64;	size:4;	signed:0;

print fmt: "%p", REC->location
`

// fakeList is a list of a machine made of files, whose PMU counts cycles alone.
func fakeList(t *testing.T) *listFlags {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"tracing/events/header_page": "", "tracing/events/skb/kfree_skb/format": kfreeSKBFormat, "tracing/events/sched/sched_switch/id": "2",
		"tracing/events/probe/ip_rcv/id": "3", "tracing/kprobe_events": "p:probe/ip_rcv ip_rcv\n", "tracing/uprobe_events": "",
		"tracing/available_filter_functions":          "ip_rcv\nnf_conntrack_in [nf_conntrack]\n",
		"proc/kallsyms":                               "ffff0001 T ip_rcv\nffff0002 t nf_conntrack_in\t[nf_conntrack]\n",
		"sys/kernel/btf/vmlinux":                      "\x00btf_trace_kfree_skb\x00",
		"sys/bus/event_source/devices/msr/type":       "9",
		"sys/bus/event_source/devices/msr/events/tsc": "event=0",
	} {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return &listFlags{
		lister:    event.Lister{Tracefs: &tracefs.FS{Root: filepath.Join(root, "tracing")}, Root: root},
		supported: func(ev *event.Event) bool { return ev.Type == format.TypeSoftware || ev.Config == format.HWCycles },
	}
}

func TestList(t *testing.T) {
	for _, c := range []struct {
		args   []string
		change func(*listFlags)
		want   string
	}{
		{[]string{"hw"}, nil, "  cpu-cycles OR cycles                               [Hardware event]\n"},
		{[]string{"cache"}, nil, "  L1-dcache-loads                                    [Hardware cache event]\n"},
		{[]string{"task", "msr"}, nil, `  task-clock                                         [Software event]
       [A timer that runs while the task does]

  msr/tsc/                                           [Kernel PMU event]
`},
		{[]string{"*task*"}, func(o *listFlags) { o.noDesc = true }, "  task-clock                                         [Software event]\n"},
		{[]string{"kfree"}, func(o *listFlags) { o.long = true }, `  skb:kfree_skb                                      [Tracepoint event]
       void * location
       unsigned long[6] args
       __data_loc char[] name
       --filter: common_type common_pid location name comm cpu

  raw_tracepoint:kfree_skb                           [Raw tracepoint event]
`},
		{[]string{"s*:*s*"}, func(o *listFlags) { o.rawDump = true },
			"sched:sched_switch\nskb:kfree_skb\nspan:syscalls\nspan:SYSTEM:NAME..SYSTEM:NAME[/key=FIELDS/]\n"},
		{[]string{"probe:*"}, nil, "  probe:ip_rcv                                       [Probe event]\n       [p:probe/ip_rcv ip_rcv]\n"},
		{[]string{"kprobe:*conntrack*"}, nil, "  kprobe:nf_conntrack_in                             [Kernel function]\n"},
		{[]string{"kretprobe:nf_conntrack:*"}, nil, "  kretprobe:nf_conntrack_in                          [Kernel function]\n"},
		{[]string{"raw_tracepoint"}, nil, "  raw_tracepoint:kfree_skb                           [Raw tracepoint event]\n"},
		{[]string{"nf:d*"}, nil, `  nf:drop                                            [Netfilter event]
       [Packets that a rule of the firewall drops, with the table, chain and rule]
`},
		{[]string{"packet:*"}, func(o *listFlags) { o.long = true }, `  packet:drops                                       [Packet event]
       [Lost packets: drops, resets, retransmits]
       packet: ` + strings.Join(packet.Names(), " ") + "\n"},
		{[]string{"span"}, func(o *listFlags) { o.noDesc = true }, `  span:syscalls                                      [Durations]
  span:FUNCTION                                      [Durations]
  span:FILE:FUNCTION                                 [Durations]
  span:SYSTEM:NAME..SYSTEM:NAME[/key=FIELDS/]        [Durations]
`},
		{[]string{"sdt:"}, nil, ""},
		{[]string{"task-clock", "sched:*", "msr"}, func(o *listFlags) { o.details, o.noDesc = true, true }, `  task-clock                                         [Software event]
        software/config=1/

  sched:sched_switch                                 [Tracepoint event]
        tracepoint/config=2/

  msr/tsc/                                           [Kernel PMU event]
        msr/event=0/
`},
		{[]string{""}, func(o *listFlags) { o.unit, o.rawDump = "msr", true }, "msr/tsc/\n"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			o := fakeList(t)
			if c.change != nil {
				c.change(o)
			}
			var out, errs strings.Builder
			err := o.run(c.args, &out, &errs)
			if out.String() != c.want || err != nil && c.want != "" {
				t.Errorf("%q: %v\n%s%swant\n%s", c.args, err, errs.String(), out.String(), c.want)
			}
		})
	}
}

// Without arguments all kinds are there but those that would drown them, and these are named.
func TestListEverything(t *testing.T) {
	var out, errs strings.Builder
	if err := fakeList(t).run(nil, &out, &errs); err != nil || errs.Len() > 0 {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	for _, want := range []string{"cpu-cycles OR cycles", "cpu-clock", "L1-dcache-loads ", "msr/tsc/", "skb:kfree_skb",
		"probe:ip_rcv", "raw_tracepoint:kfree_skb", "gperf list 'kprobe:"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
	for _, no := range []string{"kprobe:ip_rcv", "instructions", "LLC-loads"} {
		if strings.Contains(out.String(), no) {
			t.Errorf("%q is listed", no)
		}
	}
}

func TestListJSON(t *testing.T) {
	o := fakeList(t)
	o.json, o.long = true, true
	var out, errs strings.Builder
	if err := o.run([]string{"skb:*", "page-faults"}, &out, &errs); err != nil {
		t.Fatal(err)
	}
	var got []struct {
		EventName, EventType, Kind, BriefDescription string
		EventAlias                                   []string
		Fields                                       []field
	}
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil || len(got) != 2 {
		t.Fatalf("%d events, %v\n%s", len(got), err, out.String())
	}
	if tp := got[0]; tp.EventName != "skb:kfree_skb" || tp.EventType != "Tracepoint event" || tp.Kind != "tracepoint" ||
		len(tp.Fields) != 5 ||
		tp.Fields[2] != (field{"location", "void *", 8, 8, false, true}) || tp.Fields[3].Filter ||
		!tp.Fields[4].Filter {
		t.Errorf("%+v", tp)
	}
	if sw := got[1]; sw.EventName != "page-faults" || sw.BriefDescription == "" || len(sw.EventAlias) != 1 ||
		sw.EventAlias[0] != "faults" {
		t.Errorf("%+v", sw)
	}
	o.rawDump, o.json = false, true
	out.Reset()
	if err := o.run([]string{"usdt:/etc/passwd:*"}, &out, &errs); err == nil ||
		strings.TrimSpace(out.String()) != "[]" {
		t.Errorf("of no event: %v, %q", err, out.String())
	}
}

// If one kind cannot be listed, gperf lists the others.
func TestListRefusals(t *testing.T) {
	for _, c := range []struct{ arg, want string }{
		{"nosuchthing", `no event matches "nosuchthing"`},
		{"kprobe:nosuch*", "no event matches"},
		{"usdt:/nosuch:*", "no such file"},
		{"skb:[", "bracket"},
	} {
		t.Run(c.arg, func(t *testing.T) {
			var out, errs strings.Builder
			err := fakeList(t).run([]string{c.arg, "cpu-clock"}, &out, &errs)
			if err == nil || !strings.Contains(err.Error()+errs.String(), c.want) {
				t.Errorf("%s: %v\n%s", c.arg, err, errs.String())
			}
			if !strings.Contains(out.String(), "cpu-clock") {
				t.Errorf("%s hides the kinds after it:\n%s", c.arg, out.String())
			}
		})
	}
	var out, errs strings.Builder
	o := fakeList(t)
	o.unit = "nosuch"
	if err := o.run(nil, &out, &errs); err == nil || !strings.Contains(err.Error(), "no event of the PMU nosuch") ||
		out.Len() > 0 {
		t.Errorf("of an unknown PMU: %v\n%s", err, &out)
	}
	for _, kind := range []string{"uprobe", "sdt"} {
		out.Reset()
		err := fakeList(t).run([]string{kind}, &out, &errs)
		if err != nil || !strings.Contains(out.String(), ":FILE:") {
			t.Errorf("%s: %v\n%s", kind, err, &out)
		}
	}
	out.Reset()
	o = fakeList(t)
	o.lister.Tracefs.Root = t.TempDir()
	if err := o.run([]string{"cpu-clock"}, &out, &errs); err != nil ||
		!strings.Contains(errs.String(), "no tracepoint: ") || !strings.Contains(out.String(), "cpu-clock") {
		t.Errorf("without tracefs: %v\n%s%s", err, errs.String(), out.String())
	}
}

// TestListWithoutPMU: kinds of a PMU are listed as lacking where there is none.
func TestListWithoutPMU(t *testing.T) {
	for _, c := range []struct{ arg, want string }{
		{"hw", "no hw events: this machine or virtual machine has no PMU"},
		{"cache", "no cache events: this machine or virtual machine has no PMU"},
		{"sw", ""},
	} {
		t.Run(c.arg, func(t *testing.T) {
			o := fakeList(t)
			o.supported = func(ev *event.Event) bool { return ev.Type == format.TypeSoftware }
			var out, errs strings.Builder
			if err := o.run([]string{c.arg}, &out, &errs); err != nil || c.want == "" && errs.Len() > 0 ||
				!strings.Contains(errs.String(), c.want) {
				t.Errorf("%s: %v, %q; want %q", c.arg, err, errs.String(), c.want)
			}
		})
	}
}

// TestListMetrics: gperf knows no metrics, and names the tool that does.
func TestListMetrics(t *testing.T) {
	for _, word := range []string{"metric", "metricgroup"} {
		o := fakeList(t)
		o.json = true
		var out, errs strings.Builder
		if err := o.run([]string{word}, &out, &errs); err != nil || out.String() != "[]\n" ||
			!strings.Contains(errs.String(), "`perf list "+word+"`") {
			t.Errorf("%s: %v, %q, %q", word, err, out.String(), errs.String())
		}
	}
}
