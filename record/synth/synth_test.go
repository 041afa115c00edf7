package synth

import (
	"reflect"
	"strings"
	"testing"

	"gperf/format"
	"gperf/internal/procfs"
	"gperf/record/event"
	"slices"
)

func TestMmapOf(t *testing.T) {
	const user, data = format.MiscUser, format.MiscUser | format.MiscMmapData
	for _, c := range []struct {
		name, line string
		want       format.Mmap
	}{
		{"file", "55a23c5a2000-55a23c663000 r-xp 0002f000 fe:01 1024                       /usr/bin/bash\n",
			format.Mmap{Misc: user, Start: 0x55a23c5a2000, Len: 0xc1000, Pgoff: 0x2f000, Maj: 0xfe, Min: 1, Ino: 1024, Prot: 5, Flags: 2, Filename: "/usr/bin/bash"}},
		{"anonymous", "7f0000000000-7f0000001000 rwxs 00000000 00:00 0 \n",
			format.Mmap{Misc: user, Start: 0x7f0000000000, Len: 0x1000, Prot: 7, Flags: 1, Filename: "//anon"}},
		{"data", "7fff0000-7fff1000 r--p 00000000 00:01 7 /tmp/x",
			format.Mmap{Misc: data, Start: 0x7fff0000, Len: 0x1000, Min: 1, Ino: 7, Prot: 1, Flags: 2, Filename: "/tmp/x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want.V2, c.want.PID, c.want.TID = true, 9, 9
			for m := range procfs.ParseMaps(c.line) {
				if got := MmapOf(9, m); !reflect.DeepEqual(got, c.want) {
					t.Errorf("%q:\n got %+v\nwant %+v", c.line, got, c.want)
				}
			}
		})
	}
}

func TestScanKallsyms(t *testing.T) {
	k, err := scanKallsyms(strings.NewReader(`0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff810000c0 T startup_64
ffffffff82206448 T _etext
ffffffffc0a01000 t nf_nat_init	[nf_nat]
ffffffffc0b02100 t bpf_prog_6deef7357e7b4530_sd_devices	[bpf]
ffffffffc0b02000 t bpf_prog_12ab34cd56ef7890	[bpf]
ffffffffc0a00000 t kprobe_insn_page	[__builtin__kprobes]
ffffffffc0a00800 t kprobe_optinsn_page	[__builtin__kprobes]
ffffffffc0201000 t ftrace_trampoline	[__builtin__ftrace]
`))
	if err != nil || k.text != 0xffffffff81000000 || k.end != 0xffffffff82206448 || k.name != "_text" {
		t.Errorf("%+v, %v", k, err)
	}
	want := []format.KSymbol{
		{Addr: 0xffffffffc0201000, Len: 0x1000, Type: format.KSymbolOOL, Name: "ftrace_trampoline"},
		{Addr: 0xffffffffc0a00000, Len: 0x800, Type: format.KSymbolOOL, Name: "kprobe_insn_page"},
		{Addr: 0xffffffffc0a00800, Len: 0x800, Type: format.KSymbolOOL, Name: "kprobe_optinsn_page"},
		{Addr: 0xffffffffc0b02000, Len: 0x100, Type: format.KSymbolBPF, Name: "bpf_prog_12ab34cd56ef7890"},
		{Addr: 0xffffffffc0b02100, Len: 0xf00, Type: format.KSymbolBPF, Name: "bpf_prog_6deef7357e7b4530_sd_devices"}}
	if !reflect.DeepEqual(k.generated, want) {
		t.Errorf("generated code:\n got %+v\nwant %+v", k.generated, want)
	}
	// kptr_restrict hides addresses as zeros.
	k, err = scanKallsyms(strings.NewReader("0000000000000000 T _stext\n0000000000000000 T _text\n"))
	if err != nil || k.text != 0 {
		t.Errorf("hidden addresses: %+v, %v", k, err)
	}
}

func TestParseCPUInfo(t *testing.T) {
	desc, id := parseCPUInfo(
		"processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: Xeon: " +
			"fast\nstepping\t: 8\n\nprocessor\t: 1\nvendor_id\t: Other\n")
	if desc != "Xeon: fast" || id != "GenuineIntel,6,143,8" {
		t.Errorf("%q, %q", desc, id)
	}
}

func TestGroups(t *testing.T) {
	events := []event.Event{{}, {Group: "g"}, {Member: true}, {Member: true}, {}, {Member: true}, {}}
	want := []format.Group{{Name: "g", Leader: 1, Members: 3}, {Name: "{anon_group}", Leader: 4, Members: 2}}
	if got := groups(events); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
