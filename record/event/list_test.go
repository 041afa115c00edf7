package event

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gperf/record/probe"
	"gperf/record/tracefs"
)

// write makes files below root.
func write(t testing.TB, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

func lister(t testing.TB, files map[string]string) *Lister {
	t.Helper()
	root := t.TempDir()
	write(t, root, files)
	write(t, root, map[string]string{"tracing/events/header_page": ""})
	return &Lister{Tracefs: &tracefs.FS{Root: filepath.Join(root, "tracing")}, Root: root}
}

func names(l []Listed) (s []string) {
	for _, e := range l {
		s = append(s, strings.Join(e.Names, " "))
	}
	return s
}

func TestList(t *testing.T) {
	l := lister(t, map[string]string{
		"tracing/events/skb/kfree_skb/id": "1", "tracing/events/skb/consume_skb/id": "2",
		"tracing/events/ftrace/function/id": "3",
		"tracing/events/probe/ip_rcv/id":    "4", "tracing/events/probe_hello/main/id": "5",
		"tracing/events/skb/enable": "",
		"tracing/kprobe_events":     "p:probe/ip_rcv ip_rcv len=+112(%di):u32\n",
		"tracing/uprobe_events":     "p:probe_hello/main /bin/hello:0x1000\n",
		"tracing/available_filter_functions": "tcp_sendmsg\nnf_conntrack_in " +
			"[nf_conntrack]\n__ftrace_invalid_address___16\ntcp_sendmsg\n",
		"proc/kallsyms": "ffff0001 T tcp_sendmsg\nffff0002 T not_traced\nffff0003 t " +
			"nf_conntrack_in\t[nf_conntrack]\n",
		"sys/kernel/btf/vmlinux":                    "\x00int\x00btf_trace_kfree_skb\x00x\x00btf_trace_sched_switch\x00",
		"sys/kernel/btf/nf_conntrack":               "\x00btf_trace_nf\x00",
		"sys/bus/event_source/devices/cpu/events/a": "event=1", "sys/bus/event_source/devices/cpu/events/a.scale": "2",
		"sys/bus/event_source/devices/msr/events/tsc": "event=0", "sys/bus/event_source/devices/cpu/type": "4",
		"sys/bus/event_source/devices/msr/type": "9",
	})
	for _, c := range []struct {
		kind ListKind
		glob string
		want []string
	}{
		{KindTracepoint, "*", []string{"skb:consume_skb", "skb:kfree_skb"}},
		{KindTracepoint, "SKB:k*", []string{"skb:kfree_skb"}},
		{KindProbe, "*", []string{"probe:ip_rcv", "probe_hello:main"}},
		{KindProbe, "probe:*", []string{"probe:ip_rcv"}},
		{KindKprobe, "kprobe:*", []string{"kprobe:nf_conntrack_in kprobe:nf_conntrack:nf_conntrack_in",
			"kprobe:tcp_sendmsg"}},
		{KindKprobe, "kretprobe:*tcp*", []string{"kretprobe:tcp_sendmsg"}},
		{KindKprobe, "kprobe:nf_conntrack:*", []string{"kprobe:nf_conntrack_in kprobe:nf_conntrack:nf_conntrack_in"}},
		{KindRawTracepoint, "*", []string{"raw_tracepoint:kfree_skb", "raw_tracepoint:nf",
			"raw_tracepoint:sched_switch"}},
		{KindNetfilter, "nf:*", []string{"nf:drop"}},
		{KindPacket, "*", []string{"packet:drops", "tc:drop", "xdp:drop"}},
		{KindSpan, "span:s*s", []string{"span:syscalls"}},
		{KindPMU, "*", []string{"cpu/a/", "msr/tsc/"}},
		{KindPMU, "msr*", []string{"msr/tsc/"}},
		{KindSoftware, "*faults*", []string{"alignment-faults", "emulation-faults", "major-faults", "minor-faults",
			"page-faults faults"}},
		{KindHardware, "cycles", []string{"cpu-cycles cycles"}},
		{KindCache, "*l1-icache*", []string{"L1-icache-load-misses", "L1-icache-loads", "L1-icache-prefetch-misses",
			"L1-icache-prefetches"}},
	} {
		t.Run(c.glob, func(t *testing.T) {
			got, err := l.List(c.kind, c.glob)
			g := names(got)
			slices.Sort(g)
			if err != nil || !slices.Equal(g, c.want) {
				t.Errorf("%s %s: %q, %v; want %q", string(c.kind), c.glob, g, err, c.want)
			}
		})
	}
	if got, _ := l.List(KindProbe, "probe:*"); len(got) != 1 ||
		got[0].Desc != "p:probe/ip_rcv ip_rcv len=+112(%di):u32" {
		t.Errorf("the probe's definition: %+v", got)
	}
}

// TestListKallsyms checks that without ftrace's list of functions, the kernel's symbols are
// listed, except those that cannot be probed.
func TestListKallsyms(t *testing.T) {
	l := lister(t, map[string]string{"tracing/kprobe_events": "",
		"proc/kallsyms": "ffff0001 T ip_rcv\nffff0002 t local.isra.0\nffff0003 D " +
			"data\nffff0004 T __pfx_ip_rcv\nffff0005 T notify_die\nffff0006 t nf_in\t[nf_conntrack]\n",
		"sys/kernel/debug/kprobes/blacklist": "0xffff0005-0xffff0006\tnotify_die\n"})
	got, err := l.List(KindKprobe, "kprobe:*")
	if want := []string{"kprobe:ip_rcv", "kprobe:local.isra.0",
		"kprobe:nf_in kprobe:nf_conntrack:nf_in"}; err != nil || !slices.Equal(names(got), want) {
		t.Errorf("%q, %v; want %q", names(got), err, want)
	}
}

func TestListRefusals(t *testing.T) {
	l := lister(t, nil)
	var none *probe.AccessError
	if _, err := l.List(KindKprobe, "kprobe:*"); !errors.As(err, &none) {
		t.Errorf("without kprobe_events: %v", err)
	}
	var bad *SpecError
	for _, c := range []struct {
		kind ListKind
		glob string
	}{{KindTracepoint, "skb:["}, {KindUprobe, "uprobe:main"}} {
		t.Run(string(c.kind)+" "+c.glob, func(t *testing.T) {
			if _, err := l.List(c.kind, c.glob); !errors.As(err, &bad) {
				t.Errorf("%s %s: %v", string(c.kind), c.glob, err)
			}
		})
	}
	if _, err := l.List(KindUprobe, "uprobe:/etc/passwd:*"); err == nil ||
		!strings.Contains(err.Error(), "not an ELF file") {
		t.Errorf("functions of a text: %v", err)
	}
	if _, err := l.List(KindRawTracepoint, "*"); err == nil {
		t.Error("raw tracepoints without BTF")
	}
}

func TestListFunctions(t *testing.T) {
	const libc = "/lib/x86_64-linux-gnu/libc.so.6"
	if _, err := os.Stat(libc); err != nil {
		t.Skipf("the C library is missing there: %v", err)
	}
	got, err := (&Lister{}).List(KindUprobe, "uretprobe:"+libc+":fopen?4")
	if want := []string{"uretprobe:" + libc + ":fopen64"}; err != nil || !slices.Equal(names(got), want) {
		t.Errorf("%q, %v; want %q", names(got), err, want)
	}
}

func TestMatcher(t *testing.T) {
	for _, c := range []struct {
		glob, name string
		want       bool
	}{
		{"*", "", true}, {"a*", "abc", true}, {"a*", "ba", false}, {"*c", "abc", true}, {"abc", "ABC", true},
		{"abc", "abcd", false},
		{"a*b*c", "aXbXc", true}, {"a*b*c", "acb", false}, {"ab*ba", "aba", false}, {"**tsc**", "msr/tsc/", true},
		{"m?r/*", "msr/tsc/", true},
		{"[lm]sr*", "msr/tsc/", true}, {"*[x]", "msr", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			match, err := matcher(c.glob)
			if err != nil || match(c.name) != c.want {
				t.Errorf("%q matches %q: %v, %v", c.glob, c.name, !c.want, err)
			}
		})
	}
}

// TestListedAreEvents checks that -e accepts everything that hw, sw and cache list.
func TestListedAreEvents(t *testing.T) {
	l := lister(t, nil)
	for _, kind := range []ListKind{KindHardware, KindSoftware, KindCache} {
		t.Run(string(kind), func(t *testing.T) {
			all, err := l.List(kind, "*")
			if err != nil || len(all) == 0 {
				t.Fatalf("%s: %d, %v", kind, len(all), err)
			}
			for _, e := range all {
				for _, n := range e.Names {
					if ev, ok := plainEvent(n); !ok || ev.Type != e.Event.Type || ev.Config != e.Event.Config {
						t.Errorf("%s is %+v, listed as %+v", n, ev, e.Event)
					}
				}
				if kind == KindSoftware && e.Desc == "" {
					t.Errorf("%s has no description", e.Names[0])
				}
			}
		})
	}
}

func BenchmarkListKprobes(b *testing.B) {
	var traced, symbols strings.Builder
	for i := range 60000 {
		fmt.Fprintf(&traced, "some_function_of_the_kernel_%d\n", i)
		fmt.Fprintf(&symbols, "%016x t some_function_of_the_kernel_%[1]d\n", i+1)
	}
	l := lister(b, map[string]string{"tracing/kprobe_events": "", "tracing/available_filter_functions": traced.String(),
		"proc/kallsyms": symbols.String()})
	for b.Loop() {
		if all, err := l.List(KindKprobe, "kprobe:*9*"); err != nil || len(all) == 0 {
			b.Fatal(err)
		}
	}
}
