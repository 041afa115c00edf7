package probe

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gperf/record/probe/kernel"
)

const testKallsyms = `ffffffff81000000 T _text
ffffffff81000000 T _stext
ffffffff81001000 T ip_rcv
ffffffff81001100 t ip_rcv_core.isra.0
ffffffff81001180 t ip_rcv_core.isra.0.cold
ffffffff81001200 t cleanup
ffffffff81001300 t cleanup
ffffffff81001400 W weak_one
ffffffff81001400 t another_name_of_weak_one
ffffffff81001500 d ip_data
ffffffff81001600 t __pfx_ip_rcv
ffffffff81001700 T tcp_send
ffffffff81001780 t tcp_send.constprop.0.isra.0
ffffffff81001800 t tcp_send.part.0
ffffffff81001880 t tcp_send.part.0.cold
ffffffff81002000 T __noinstr_text_start
ffffffff81002010 t ip_noinstr
ffffffff81002100 T __noinstr_text_end
ffffffff81003000 t ip_notrace
ffffffff82000000 T _sinittext
ffffffff82000010 t ip_init
ffffffff82001000 T _einittext
ffffffffc0001000 t nf_conntrack_in	[nf_conntrack]
ffffffffc0001100 t twice	[nf_conntrack]
ffffffffc0001200 t twice	[nf_conntrack]
ffffffffc0002000 t bpf_prog_0123456789abcdef_ip	[bpf]
ffffffffc0003000 t ip_tramp	[__builtin__ftrace]
nonsense
`

// testResolver finds functions of testKallsyms; notices receives the resolver's warnings.
func testResolver(t *testing.T, notices *[]error) *Resolver {
	t.Helper()
	fs := fakeTracefs(t, map[string]string{
		kprobeEvents: "",
		"available_filter_functions": "ip_rcv\nip_rcv_core.isra.0\ncleanup\nip_init\ntcp_send\n" +
			"nf_conntrack_in [nf_conntrack]\n",
	})
	return &Resolver{Tracefs: fs, Root: rootWith(t, testKallsyms), Notice: func(err error) {
		*notices = append(*notices, err)
	}}
}

// rootWith returns a directory with a file of kallsyms.
func rootWith(t *testing.T, kallsyms string) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "proc/kallsyms"), []byte(kallsyms), 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestKernelProbes(t *testing.T) {
	for spec, want := range map[string][]string{
		"kprobe:ip_rcv":                       {"p:g/ip_rcv _text+4096"},
		"kretprobe:ip_rcv":                    {"r:g/ip_rcv__return _text+4096"},
		"kprobe:ip_rcv+0x1f":                  {"p:g/ip_rcv _text+4127"},
		"kprobe:ip_rcv_core":                  {"p:g/ip_rcv_core _text+4352"},
		"kprobe:ip_rcv_core.isra.0":           {"p:g/ip_rcv_core _text+4352"},
		"kprobe:cleanup":                      {"p:g/cleanup _text+4608", "p:g/cleanup _text+4864"},
		"kprobe:weak_one":                     {"p:g/weak_one _text+5120"},
		"kprobe:nf_conntrack_in":              {"p:g/nf_conntrack_in nf_conntrack:nf_conntrack_in"},
		"kprobe:nf_conntrack:nf_conntrack_in": {"p:g/nf_conntrack_in nf_conntrack:nf_conntrack_in"},
		"kprobe:nf-conntrack:nf_conntrack_in": {"p:g/nf_conntrack_in nf_conntrack:nf_conntrack_in"},
		"kprobe:nf_conntrack:twice":           {"p:g/twice 0xffffffffc0001100", "p:g/twice 0xffffffffc0001200"},
		"kprobe:nf_conntrack:nf_*":            {"p:g/nf_conntrack_in nf_conntrack:nf_conntrack_in"},
		"kprobe:0xffffffff81001004":           {"p:g/abs_ffffffff81001004 0xffffffff81001004"},
		"kprobe:ip_rc*":                       {"p:g/ip_rcv _text+4096", "p:g/ip_rcv_core _text+4352"},
		"kprobe:vmlinux:ip_rcv":               {"p:g/ip_rcv _text+4096"},
	} {
		t.Run(spec, func(t *testing.T) {
			var notices []error
			l, err := testResolver(t, &notices).Find(spec)
			if err != nil {
				t.Errorf("%v", err)
				return
			}
			var got []string
			for _, p := range l {
				got = append(got, p.Definition("g", p.Event))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
			if len(notices) > 0 {
				t.Errorf("warned: %v", notices)
			}
		})
	}
}

// TestKernelGlobSkips checks that functions that cannot be probed are counted, by reason.
func TestKernelGlobSkips(t *testing.T) {
	var notices []error
	l, err := testResolver(t, &notices).Find("kprobe:ip_*")
	if err != nil {
		t.Fatal(err)
	}
	if len(l) != 2 || l[0].Glob != "kprobe:ip_*" {
		t.Errorf("%d probes, of glob %q", len(l), l[0].Glob)
	}
	var skipped *SkippedError
	if len(notices) != 1 || !errors.As(notices[0], &skipped) {
		t.Fatalf("warned: %v", notices)
	}
	if skipped.Of != 5 || skipped.Skipped != 3 || len(skipped.Why) != 3 {
		t.Errorf("%+v", skipped)
	}
	if _, err := testResolver(t, &notices).Find("kprobe:ip_no*"); !errors.As(err, &skipped) {
		t.Errorf("of a glob nothing of which can be probed: %v", err)
	}
}

// TestCallsGlobSkips checks that functions of a glob are counted if ftrace cannot trace them, which the list of
// traceable names does not say of functions with one name.
func TestCallsGlobSkips(t *testing.T) {
	var notices []error
	r := testResolver(t, &notices)
	path := filepath.Join(r.Tracefs.Root, "available_filter_functions_addrs")
	if err := os.WriteFile(path, []byte("ffffffff81001304 cleanup\nffffffff81001004 ip_rcv\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := r.FindCalls("span:c*", "c*")
	if err != nil || len(l) != 1 || l[0].Address != 0xffffffff81001300 {
		t.Errorf("%v, %v", l, err)
	}
	const want = `probe "span:c*": 1 of 2 functions cannot be probed (1: ftrace cannot trace them, such as cleanup)`
	if len(notices) != 1 || notices[0].Error() != want {
		t.Errorf("warned: %v, want %s", notices, want)
	}
}

// TestKernelCopies checks that a probe at a function reports the compiler's copies, which callers call instead.
func TestKernelCopies(t *testing.T) {
	for spec, want := range map[string]string{
		"kprobe:tcp_send": `probe "kprobe:tcp_send" misses calls of the compiler's copies ` +
			"(tcp_send.constprop.0.isra.0, tcp_send.part.0; probe these, too)",
		"kretprobe:vmlinux:*_send": `probe "kretprobe:vmlinux:*_send" misses calls of the compiler's copies ` +
			"(tcp_send.constprop.0.isra.0, tcp_send.part.0; probe these, too)",
		"kprobe:tcp_send+4":      "",
		"kprobe:tcp_send.part.0": "",
		"kprobe:ip_rcv_core":     "",
	} {
		t.Run(spec, func(t *testing.T) {
			var notices []error
			r := testResolver(t, &notices)
			if _, err := r.Find(spec); err != nil {
				t.Fatal(err)
			}
			if got := errors.Join(notices...); (got == nil) != (want == "") || got != nil && got.Error() != want {
				t.Errorf("%v, want %q", got, want)
			}
		})
	}
}

func TestKernelUnknown(t *testing.T) {
	for spec, want := range map[string]string{
		"kprobe:ip_rvc":           "the kernel has no function ip_rvc: did you mean ip_rcv?",
		"kprobe:nosuch_at_all":    "the kernel has no function nosuch_at_all",
		"kprobe:nf_nat:nf_nat_in": "the module nf_nat is not loaded",
		"kprobe:nf_conntrack:nf_conntrak_in": "nf_conntrack has no function nf_conntrak_in: " +
			"did you mean nf_conntrack_in?",
		"kprobe:ip_tramp":       "the kernel has no function ip_tramp",
		"kprobe:nosuch*":        "the kernel has no function nosuch*",
		"kprobe:[ip":            "bracket",
		"kprobe:ip_rcv+0x100":   "ip_rcv is only 256 bytes long",
		"kretprobe:ip_rcv+0x1f": "it has no offset",
	} {
		t.Run(spec, func(t *testing.T) {
			var notices []error
			_, err := testResolver(t, &notices).Find(spec)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}

// TestHiddenAddresses checks that probes use names if kallsyms hides addresses.
func TestHiddenAddresses(t *testing.T) {
	text := ""
	for line := range strings.Lines(testKallsyms) {
		if _, rest, ok := strings.Cut(line, " "); ok {
			text += "0000000000000000 " + rest
		}
	}
	f := testResolver(t, new([]error))
	f.Root = rootWith(t, text)
	l, err := f.Find("kprobe:ip_rcv+4")
	if err != nil {
		t.Fatal(err)
	}
	if got := l[0].Definition("g", "e"); len(l) != 1 || got != "p:g/e ip_rcv+4" {
		t.Errorf("%d probes, %q", len(l), got)
	}
	if l, err = f.Find("kprobe:cleanup"); err != nil || len(l) != 1 {
		t.Errorf("a name of two: %d probes, %v", len(l), err)
	}
}

func TestNoKprobes(t *testing.T) {
	f := testResolver(t, new([]error))
	f.Tracefs = fakeTracefs(t, map[string]string{uprobeEvents: ""})
	_, err := f.Find("kprobe:ip_rcv")
	if err == nil || err.Error() != "this kernel has no kprobes (tracefs has no kprobe_events)" {
		t.Errorf("%v", err)
	}
}

func TestTranslate(t *testing.T) {
	for _, c := range []struct {
		text               string
		where              Where
		group, event, spec string
	}{
		{"ip_rcv", Where{}, "", "", "kprobe:ip_rcv"},
		{"ip_rcv+0x1f skb->len:u32", Where{}, "", "", "kprobe:ip_rcv+0x1f skb->len:u32"},
		{"mine=ip_rcv%return ret=$retval", Where{}, "", "mine", "kretprobe:ip_rcv ret=$retval"},
		{"grp:mine=ip_rcv", Where{}, "grp", "mine", "kprobe:ip_rcv"},
		{"nf_conntrack_in", Where{Module: "/lib/modules/6.1/nf-conntrack.ko.xz"}, "", "", "kprobe:nf_conntrack:nf_conntrack_in"},
		{"main a=%di", Where{Path: "/bin/x"}, "", "", "uprobe:/bin/x:main a=%di"},
		{"main%return", Where{Path: "/a b/x"}, "", "", `uretprobe:"/a b/x":main`},
	} {
		t.Run(c.text, func(t *testing.T) {
			group, event, spec, err := translate(c.text, c.where)
			if err != nil || group != c.group || event != c.event || spec != c.spec {
				t.Errorf("%q %q %q, %v", group, event, spec, err)
			}
		})
	}
	for _, text := range []string{"", "net/ipv4/ip_input.c:400", "ip_rcv:3", "ip_rcv@net/ipv4/ip_input.c"} {
		t.Run(text, func(t *testing.T) {
			if _, _, spec, err := translate(text, Where{}); err == nil {
				t.Errorf("%q is taken: %s", text, spec)
			}
		})
	}
}

func TestAssignNames(t *testing.T) {
	fs := fakeTracefs(t, map[string]string{"events/probe/ip_rcv/id": "1\n", "events/probe/cleanup/id": "2\n"})
	probes := func(names ...string) (l []*Probe) {
		for _, n := range names {
			l = append(l, &Probe{Group: "probe", Event: n})
		}
		return l
	}
	var exists *ExistsError
	if err := AssignNames(fs, probes("ip_rcv"), false); !errors.As(err, &exists) || exists.Event != "probe:ip_rcv" {
		t.Errorf("%v", err)
	}
	l := probes("ip_rcv", "ip_rcv", strings.Repeat("x", 70))
	if err := AssignNames(fs, l, true); err != nil || l[0].Event != "ip_rcv_1" || l[1].Event != "ip_rcv_2" ||
		len(l[2].Event) != 63 {
		t.Errorf("%v %v %v: %v", l[0], l[1], l[2], err)
	}
}

// TestReportSkipped checks that rejected probes of a glob are skipped, and that one of a name is
// an error.
func TestReportSkipped(t *testing.T) {
	one, some := &Probe{Group: "probe", Event: "one"}, &Probe{Glob: "kprobe:s*"}
	refused := &InstallError{Probe: some, Why: "it is holy"}
	var notices []error
	notice := func(err error) { notices = append(notices, err) }
	if err := ReportSkipped([]*Probe{one, some, some}, []error{nil, nil, refused}, notice); err != nil {
		t.Error(err)
	}
	if len(notices) != 1 ||
		notices[0].Error() != `probe "kprobe:s*": 1 of 2 functions cannot be probed (1: it is holy)` {
		t.Errorf("warned: %v", notices)
	}
	if err := ReportSkipped([]*Probe{one, some}, []error{nil, refused}, notice); err == nil {
		t.Error("a glob of which nothing is left is none")
	}
	if err := ReportSkipped([]*Probe{one}, []error{refused}, notice); !errors.Is(err, refused) {
		t.Errorf("%v", err)
	}
}

func TestNamer(t *testing.T) {
	n := Namer{kernel: kernel.Symbols{Root: rootWith(t, testKallsyms)}}
	for _, c := range []struct {
		p    Installed
		want string
	}{
		{Installed{Place: "_text+4096"}, "ip_rcv"},
		{Installed{Place: "_text+4100", Kind: Kretprobe}, "ip_rcv+4%return"},
		{Installed{Place: "ip_rcv+4"}, "ip_rcv+4"},
		{Installed{Place: "nf_conntrack:nf_conntrack_in"}, "nf_conntrack_in in nf_conntrack"},
		{Installed{Place: "0xffffffffc0001104"}, "twice+4 in nf_conntrack"},
		{Installed{Place: "/no/such/file:0x0000000000001139", Kind: Uprobe}, "0x1139 in /no/such/file"},
	} {
		t.Run(c.p.Place, func(t *testing.T) {
			if got := n.Place(&c.p); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func FuzzParseInstalled(f *testing.F) {
	f.Add("p:probe/ip_rcv ip_rcv+4 dev=%si\nr3:a/b c:d\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, p := range parseInstalled(text, true) {
			if p.Group == "" && p.Event == "" && p.Place == "" {
				t.Errorf("%q: %+v", text, p)
			}
		}
	})
}
