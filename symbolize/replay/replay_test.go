package replay

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"gperf/format"
	"gperf/symbolize"
	"gperf/symbolize/dso"
)

func newHistory() *History {
	return New(&format.File{Order: binary.LittleEndian}, symbolize.New(symbolize.Options{Kallsyms: "testdata/none"}))
}

func mmapOf(pid int32, start, length, pgoff uint64, name string) *format.Mmap {
	return &format.Mmap{Misc: format.MiscUser, PID: pid, TID: pid, Start: start, Len: length, Pgoff: pgoff, Prot: format.ProtExec, V2: true, Filename: name}
}

// describe lists the mappings: "1000-2000 /bin/x+0".
func describe(ms *maps) (l []string) {
	for _, m := range ms.list {
		l = append(l, fmt.Sprintf("%x-%x %s+%x", m.Start, m.End, m.DSO.Name, m.Pgoff))
	}
	return l
}

func TestMappingsOverlap(t *testing.T) {
	for _, tc := range []struct {
		name string
		add  []*format.Mmap
		want string
	}{
		{"apart", []*format.Mmap{mmapOf(1, 0x3000, 0x1000, 0, "b"), mmapOf(1, 0x1000, 0x1000, 0, "a")}, "1000-2000 a+0, 3000-4000 b+0"},
		{"same place", []*format.Mmap{mmapOf(1, 0x1000, 0x1000, 0, "a"), mmapOf(1, 0x1000, 0x1000, 0, "b")}, "1000-2000 b+0"},
		{"into the middle", []*format.Mmap{mmapOf(1, 0x1000, 0x3000, 0x100, "a"), mmapOf(1, 0x2000, 0x1000, 0, "b")},
			"1000-2000 a+100, 2000-3000 b+0, 3000-4000 a+2100"},
		{"over the end", []*format.Mmap{mmapOf(1, 0x1000, 0x2000, 0, "a"), mmapOf(1, 0x2000, 0x2000, 0, "b")}, "1000-2000 a+0, 2000-4000 b+0"},
		{"over the start", []*format.Mmap{mmapOf(1, 0x2000, 0x2000, 0, "a"), mmapOf(1, 0x1000, 0x2000, 0, "b")}, "1000-3000 b+0, 3000-4000 a+1000"},
		{"over several", []*format.Mmap{mmapOf(1, 0x1000, 0x1000, 0, "a"), mmapOf(1, 0x2000, 0x1000, 0, "b"), mmapOf(1, 0x3000, 0x1000, 0, "c"), mmapOf(1, 0x1800, 0x2000, 0, "d")},
			"1000-1800 a+0, 1800-3800 d+0, 3800-4000 c+800"},
		{"empty", []*format.Mmap{mmapOf(1, 0x1000, 0, 0, "a")}, ""},
		{"past the end of memory", []*format.Mmap{mmapOf(1, 1<<64-0x1000, 0x2000, 0, "a")}, ""},
	} {
		h := newHistory()
		for _, m := range tc.add {
			h.Apply(m)
		}
		if got := strings.Join(describe(h.thread(1, 1).space.maps), ", "); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.name, got, tc.want)
		}
	}
}

func TestNamesOfMappings(t *testing.T) {
	for _, tc := range []struct{ file, want string }{
		{"/bin/x", "/bin/x"},
		{"/bin/x (deleted)", "/bin/x (deleted)"},
		{"/memfd:x (deleted)", "/memfd:x (deleted)"},
		{"//anon", "/tmp/perf-7.map"},
		{"/dev/zero (deleted)", "/tmp/perf-7.map"},
		{"[heap]", "/tmp/perf-7.map"},
		{"[vdso]", "[vdso]"},
	} {
		if got := newMap(mmapOf(7, 0x1000, 0x1000, 0, tc.file), dso.BuildID{}).DSO.Name; got != tc.want {
			t.Errorf("%s: %s, want %s", tc.file, got, tc.want)
		}
	}
}

func TestThreads(t *testing.T) {
	h := newHistory()
	comm := func(pid, tid int32) string { return h.thread(pid, tid).Comm }
	if got := comm(0, 0); got != "swapper" {
		t.Errorf("thread 0 is called %q", got)
	}
	h.Apply(&format.Comm{PID: 10, TID: 10, Comm: "shell"})
	h.Apply(mmapOf(10, 0x1000, 0x1000, 0, "/bin/sh"))
	h.Apply(&format.Fork{PID: 11, TID: 11, PPID: 10, PTID: 10}) // a process
	h.Apply(&format.Fork{PID: 10, TID: 12, PPID: 10, PTID: 10}) // a thread
	h.Apply(mmapOf(11, 0x1000, 0x1000, 0, "/bin/child"))
	h.Apply(mmapOf(10, 0x5000, 0x1000, 0, "/lib/late"))
	for _, tc := range []struct {
		pid, tid int32
		comm     string
		maps     string
	}{
		{10, 10, "shell", "1000-2000 /bin/sh+0, 5000-6000 /lib/late+0"},
		{11, 11, "shell", "1000-2000 /bin/child+0"},
		{10, 12, "shell", "1000-2000 /bin/sh+0, 5000-6000 /lib/late+0"},
		{10, 13, ":13", "1000-2000 /bin/sh+0, 5000-6000 /lib/late+0"}, // never heard of
	} {
		if got := comm(tc.pid, tc.tid); got != tc.comm {
			t.Errorf("thread %d is called %q, want %q", tc.tid, got, tc.comm)
		}
		if got := strings.Join(describe(h.thread(tc.pid, tc.tid).space.maps), ", "); got != tc.maps {
			t.Errorf("thread %d maps %s, want %s", tc.tid, got, tc.maps)
		}
	}
	h.Apply(&format.Exit{PID: 11, TID: 11})
	if got := comm(11, 11); got != ":11" {
		t.Errorf("after its exit thread 11 is called %q", got)
	}
	h.KeepExited = true
	h.Apply(&format.Exit{PID: 10, TID: 10})
	if got := comm(10, 10); got != "shell" {
		t.Errorf("kept after its exit thread 10 is called %q", got)
	}
	// A number that is used again is another process.
	h.Apply(&format.Comm{PID: 20, TID: 20, Comm: "old"})
	h.Apply(mmapOf(20, 0x1000, 0x1000, 0, "/bin/old"))
	h.Apply(&format.Fork{PID: 20, TID: 20, PPID: 12, PTID: 12})
	if got := comm(20, 20); got != ":12" {
		t.Errorf("the new thread 20 is called %q", got)
	}
	if got := describe(h.thread(20, 20).space.maps); len(got) != 0 {
		t.Errorf("the new thread 20 maps %v", got)
	}
}

func chainOf(ips ...uint64) format.Words {
	var b []byte
	for _, ip := range ips {
		b = binary.LittleEndian.AppendUint64(b, ip)
	}
	return format.NewWords(b, binary.LittleEndian)
}

func ips(frames []*Frame) (l []uint64) {
	for _, f := range frames {
		l = append(l, f.IP)
	}
	return l
}

func TestCallchain(t *testing.T) {
	h := newHistory()
	h.Apply(&format.Mmap{Misc: format.MiscKernel, PID: -1, Start: 0xffffffff81000000, Len: 0x1000000, Filename: "[kernel.kallsyms]_text"})
	h.Apply(&format.KSymbol{Addr: 0xffffffffc0000000, Len: 0x100, Name: "bpf_prog_1"})
	h.Apply(mmapOf(1, 0x1000, 0x1000, 0, "/bin/x"))
	s := Sample{}
	s.PID, s.TID, s.Misc, s.IP = 1, 1, format.MiscKernel, 0xffffffff81000010
	s.Callchain = chainOf(format.ContextKernel, 0xffffffff81000010, 0xffffffffc0000004, format.ContextUser, 0x1004, 0x9000)
	s.Thread = h.thread(1, 1)
	h.resolveFrames(&s)
	if got, want := ips(s.Kernel), []uint64{0xffffffff81000010, 0xffffffffc0000004}; !reflect.DeepEqual(got, want) {
		t.Errorf("kernel %x, want %x", got, want)
	}
	if got, want := ips(s.User), []uint64{0x1004, 0x9000}; !reflect.DeepEqual(got, want) {
		t.Errorf("user %x, want %x", got, want)
	}
	var names []string
	for i := range s.Frames() {
		names = append(names, s.Frame(i).DSO()+" "+s.Frame(i).Symbol())
	}
	want := []string{"[kernel.kallsyms] [unknown]", "bpf_prog_1 bpf_prog_1", "/bin/x [unknown]", "[unknown] [unknown]"}
	if !reflect.DeepEqual(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	if s.Leaf != s.Kernel[0] {
		t.Error("the sampled address and the chain's first are two frames")
	}
	// The same chain again is the same frames, until the mappings change.
	again := s
	h.resolveFrames(&again)
	if &again.User[0] != &s.User[0] || &again.Kernel[0] != &s.Kernel[0] {
		t.Error("the chain was resolved twice")
	}
	h.Apply(mmapOf(1, 0x1000, 0x1000, 0, "/bin/y"))
	h.Apply(&format.KSymbol{Addr: 0xffffffffc0000000, Len: 0x100, Name: "bpf_prog_1", Flags: format.KSymbolUnregister})
	h.resolveFrames(&again)
	if got := again.User[0].DSO(); got != "/bin/y" {
		t.Errorf("after another mapping the frame is of %s", got)
	}
	if got := again.Kernel[1].DSO(); got != "[unknown]" {
		t.Errorf("after the program went the frame is of %s", got)
	}
}

func TestKernelNames(t *testing.T) {
	for file, want := range map[string]string{
		"[kernel.kallsyms]_text":                        "[kernel.kallsyms]",
		"[kernel.kallsyms]_stext":                       "[kernel.kallsyms]",
		"/lib/modules/6.1.0/kernel/net/br-netfilter.ko": "[br_netfilter]",
		"/lib/modules/6.12/kernel/fs/ext4/ext4.ko.xz":   "[ext4]",
		"[veth]": "[veth]",
	} {
		if got := kernelDSOName(file); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
}
