package record

import (
	"slices"
	"strings"
	"testing"

	"gperf/format"
)

func TestParseMap(t *testing.T) {
	const user, data = format.MiscUser, format.MiscUser | format.MiscMmapData
	for _, c := range []struct {
		line string
		want format.Mmap
	}{
		{"55a23c5a2000-55a23c663000 r-xp 0002f000 fe:01 1024                       /usr/bin/bash\n",
			format.Mmap{Misc: user, Start: 0x55a23c5a2000, Len: 0xc1000, Pgoff: 0x2f000, Maj: 0xfe, Min: 1, Ino: 1024, Prot: 5, Flags: 2, Filename: "/usr/bin/bash"}},
		{"7f0000000000-7f0000001000 rwxs 00000000 00:00 0 \n",
			format.Mmap{Misc: user, Start: 0x7f0000000000, Len: 0x1000, Prot: 7, Flags: 1, Filename: "//anon"}},
		{"7fff0000-7fff1000 r--p 00000000 00:01 7 /tmp/with two  spaces (deleted)",
			format.Mmap{Misc: data, Start: 0x7fff0000, Len: 0x1000, Min: 1, Ino: 7, Prot: 1, Flags: 2, Filename: "/tmp/with two  spaces (deleted)"}},
		{"7fff0000-7fff1000 r-xp 00000000 00:01 7 /tmp/line\\012feed",
			format.Mmap{Misc: user, Start: 0x7fff0000, Len: 0x1000, Min: 1, Ino: 7, Prot: 5, Flags: 2, Filename: "/tmp/line\nfeed"}},
		{"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]",
			format.Mmap{Misc: user, Start: 0xffffffffff600000, Len: 0x1000, Prot: 4, Flags: 2, Filename: "[vsyscall]"}},
	} {
		c.want.V2 = true
		m, ok := parseMap(c.line)
		if !ok || !sameMap(m, c.want) {
			t.Errorf("%q:\n got %+v (%v)\nwant %+v", c.line, m, ok, c.want)
		}
	}
	for _, line := range []string{"", "\n", "x", "1-2", "2000-1000 r-xp 0 00:00 0 x", "1000-2000 rx 0 00:00 0 x", "1000-2000 r-xp 0 0000 0 x"} {
		if m, ok := parseMap(line); ok {
			t.Errorf("%q is taken for %+v", line, m)
		}
	}
}

func sameMap(a, b format.Mmap) bool {
	return a.Misc == b.Misc && a.Start == b.Start && a.Len == b.Len && a.Pgoff == b.Pgoff && a.Maj == b.Maj && a.Min == b.Min &&
		a.Ino == b.Ino && a.Prot == b.Prot && a.Flags == b.Flags && a.Filename == b.Filename && a.V2 == b.V2
}

func FuzzParseMap(f *testing.F) {
	f.Add("55a23c5a2000-55a23c663000 r-xp 0002f000 fe:01 1024   /usr/bin/bash\n")
	f.Add("0-1 ---p 0 0:0 0")
	f.Fuzz(func(t *testing.T, line string) {
		m, ok := parseMap(line)
		if ok && (m.Len == 0 || m.Start+m.Len < m.Start || m.Filename == "") {
			t.Errorf("%q: %+v", line, m)
		}
	})
}

func TestParseStatus(t *testing.T) {
	st := parseStatus([]byte("Name:\tkworker/0:0-events\nUmask:\t0000\nState:\tI (idle)\nTgid:\t9\nNgid:\t0\nPid:\t9\nPPid:\t2\n"))
	if st.name != "kworker/0:0-eve" || st.tgid != 9 || st.ppid != 2 {
		t.Errorf("%+v", st)
	}
	if st := parseStatus([]byte(`Name:	a\nb\\c` + "\nPPid:\t1\n")); st.name != "a\nb\\c" {
		t.Errorf("name %q", st.name)
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
`))
	if err != nil || k.text != 0xffffffff81000000 || k.end != 0xffffffff82206448 || k.name != "_text" {
		t.Errorf("%+v, %v", k, err)
	}
	if len(k.bpf) != 2 || k.bpf[0].Name != "bpf_prog_12ab34cd56ef7890" || k.bpf[0].Len != 0x100 ||
		k.bpf[1].Addr != 0xffffffffc0b02100 || k.bpf[1].Len != 0xf00 {
		t.Errorf("BPF programs: %+v", k.bpf)
	}
	// kptr_restrict hides addresses as zeros.
	k, err = scanKallsyms(strings.NewReader("0000000000000000 T _stext\n0000000000000000 T _text\n"))
	if err != nil || k.text != 0 {
		t.Errorf("hidden addresses: %+v, %v", k, err)
	}
}

func TestParseModules(t *testing.T) {
	l := parseModules([]byte("nf_nat 57344 2 nft_nat,xt_MASQUERADE, Live 0xffffffffc0a01000\nhidden 1 0 - Live 0x0000000000000000\nbad\n" +
		"spread 1000000 1 - Live 0xffffffffc0a00000\n"))
	if !slices.Equal(l, []module{{"spread", 0xffffffffc0a00000, 0x1000}, {"nf_nat", 0xffffffffc0a01000, 57344}}) {
		t.Errorf("%+v", l)
	}
}

func TestParseCPUInfo(t *testing.T) {
	desc, id := parseCPUInfo("processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: Xeon: fast\nstepping\t: 8\n\nprocessor\t: 1\nvendor_id\t: Other\n")
	if desc != "Xeon: fast" || id != "GenuineIntel,6,143,8" {
		t.Errorf("%q, %q", desc, id)
	}
}
