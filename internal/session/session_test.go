package session

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gperf/format"
	"gperf/internal/dso"
	"gperf/symbolize"
)

func newSession() *Session {
	return New(Options{
		File:    &format.File{Order: format.LittleEndian, Attrs: make([]format.Attr, 1)},
		Symbols: symbolize.New(symbolize.Options{Kallsyms: "testdata/none"}),
	})
}

// resolve resolves the sample in the session's present state.
func resolve(s *Session, opts WalkOptions, sample *Sample) {
	s.machine.forget() // the frames of another walk
	w := s.newWalk(opts, nil)
	w.begin(newBatch())
	w.resolver.resolve(sample)
}

func mmapOf(pid int32, start, length, pgoff uint64, name string) *format.Mmap {
	return &format.Mmap{Misc: format.MiscUser, PID: pid, TID: pid, Start: start, Len: length, Pgoff: pgoff,
		Prot: format.ProtExec, V2: true, Filename: name}
}

func kernelText() *format.Mmap {
	return &format.Mmap{Misc: format.MiscKernel, PID: -1, Start: 0xffffffff81000000, Len: 0x1000000,
		Filename: "[kernel.kallsyms]_text"}
}

// describe lists the mappings: "1000-2000 /bin/x+0".
func describe(ms *maps) (l []string) {
	for _, m := range ms.list() {
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
		session := newSession()
		for _, r := range tc.add {
			session.Apply(r)
		}
		if got := strings.Join(describe(session.machine.thread(1, 1).space.maps), ", "); got != tc.want {
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
	session := newSession()
	comm := func(pid, tid int32) string { return session.machine.thread(pid, tid).Comm }
	if got := comm(0, 0); got != "swapper" {
		t.Errorf("thread 0 is called %q", got)
	}
	session.Apply(&format.Comm{PID: 10, TID: 10, Comm: "shell"})
	session.Apply(mmapOf(10, 0x1000, 0x1000, 0, "/bin/sh"))
	session.Apply(&format.Fork{PID: 11, TID: 11, PPID: 10, PTID: 10}) // a process
	session.Apply(&format.Fork{PID: 10, TID: 12, PPID: 10, PTID: 10}) // a thread
	session.Apply(mmapOf(11, 0x1000, 0x1000, 0, "/bin/child"))
	session.Apply(mmapOf(10, 0x5000, 0x1000, 0, "/lib/late"))
	session.Apply(&format.Fork{PID: 14, TID: 14, PPID: 10, PTID: 10, Ran: true}) // which was there already
	for _, tc := range []struct {
		pid, tid int32
		comm     string
		maps     string
	}{
		{10, 10, "shell", "1000-2000 /bin/sh+0, 5000-6000 /lib/late+0"},
		{11, 11, "shell", "1000-2000 /bin/child+0"},
		{10, 12, "shell", "1000-2000 /bin/sh+0, 5000-6000 /lib/late+0"},
		{14, 14, "shell", ""},
		{10, 13, ":13", "1000-2000 /bin/sh+0, 5000-6000 /lib/late+0"}, // never heard of
	} {
		if got := comm(tc.pid, tc.tid); got != tc.comm {
			t.Errorf("thread %d is called %q, want %q", tc.tid, got, tc.comm)
		}
		if got := strings.Join(describe(session.machine.thread(tc.pid, tc.tid).space.maps), ", "); got != tc.maps {
			t.Errorf("thread %d maps %s, want %s", tc.tid, got, tc.maps)
		}
	}
	session.Apply(&format.Exit{PID: 11, TID: 11})
	if got := comm(11, 11); got != ":11" {
		t.Errorf("after its exit thread 11 is called %q", got)
	}
	session.machine.keepExited = true
	session.Apply(&format.Exit{PID: 10, TID: 10})
	if got := comm(10, 10); got != "shell" {
		t.Errorf("kept after its exit thread 10 is called %q", got)
	}
	// A number that is used again is another process.
	session.Apply(&format.Comm{PID: 20, TID: 20, Comm: "old"})
	session.Apply(mmapOf(20, 0x1000, 0x1000, 0, "/bin/old"))
	session.Apply(&format.Fork{PID: 20, TID: 20, PPID: 12, PTID: 12})
	if got := comm(20, 20); got != ":20" {
		t.Errorf("the new thread 20 is called %q", got)
	}
	if got := describe(session.machine.thread(20, 20).space.maps); len(got) != 0 {
		t.Errorf("the new thread 20 maps %v", got)
	}
}

// TestThreadsOutliveLeader: the threads of a process keep its mappings after the first thread has exited, and so do
// threads that start then.
func TestThreadsOutliveLeader(t *testing.T) {
	for _, synthesized := range []bool{false, true} {
		session := newSession()
		session.Apply(&format.Comm{PID: 10, TID: 10, Comm: "server"})
		session.Apply(mmapOf(10, 0x1000, 0x1000, 0, "/bin/server"))
		session.Apply(&format.Fork{PID: 10, TID: 11, PPID: 10, PTID: 10, Ran: synthesized})
		session.Apply(&format.Exit{PID: 10, TID: 10})
		session.Apply(&format.Fork{PID: 10, TID: 12, PPID: 10, PTID: 11})
		session.Apply(&format.Exit{PID: 10, TID: 11})
		session.Apply(&format.Fork{PID: 10, TID: 13, PPID: 10, PTID: 12})
		mapped := mmapOf(10, 0x5000, 0x1000, 0, "/lib/late")
		mapped.TID = 13
		session.Apply(mapped)
		session.Apply(&format.Fork{PID: 20, TID: 20, PPID: 10, PTID: 13})
		const want = "1000-2000 /bin/server+0, 5000-6000 /lib/late+0"
		for _, id := range [][2]int32{{10, 12}, {10, 13}, {10, 99}, {20, 20}} {
			th := session.machine.thread(id[0], id[1])
			if got := strings.Join(describe(th.space.maps), ", "); got != want {
				t.Errorf("thread %d maps %s, want %s", th.TID, got, want)
			}
		}
		if got := session.machine.thread(10, 10).Comm; got != ":10" {
			t.Errorf("after its exit the first thread is called %q", got)
		}
		for _, tid := range []int32{11, 12, 13, 99} {
			session.Apply(&format.Exit{PID: 10, TID: tid})
		}
		if th := session.machine.threads[10]; th != nil {
			t.Errorf("after all threads have exited, the first one is %+v", th)
		}
	}
}

// TestThreadExecs: an exec of another thread than the first one leaves nothing when the process exits.
func TestThreadExecs(t *testing.T) {
	session := newSession()
	session.Apply(&format.Comm{PID: 10, TID: 10, Comm: "runc"})
	session.Apply(&format.Fork{PID: 10, TID: 11, PPID: 10, PTID: 10})
	session.Apply(&format.Exit{PID: 10, TID: 10})
	session.Apply(&format.Comm{PID: 10, TID: 10, Comm: "server", Exec: true})
	session.Apply(mmapOf(10, 0x1000, 0x1000, 0, "/bin/server"))
	if th := session.machine.thread(10, 10); th.Comm != "server" || len(th.space.maps.list()) != 1 {
		t.Errorf("after the exec the first thread is %+v", th)
	}
	session.Apply(&format.Exit{PID: 10, TID: 10})
	if got := describe(session.machine.thread(10, 10).space.maps); len(got) != 0 {
		t.Errorf("after the EXIT of the first thread, the process maps %v", got)
	}
}

func chainOf(ips ...uint64) format.Words {
	var b []byte
	for _, ip := range ips {
		b = binary.LittleEndian.AppendUint64(b, ip)
	}
	return format.NewWords(b, format.LittleEndian)
}

func ips(part Part) (l []uint64) {
	for _, f := range part.All() {
		l = append(l, f.IP)
	}
	return l
}

// TestInterruptedKernel: an interrupt comes at the first instruction of a function, whose name it must have, while the
// caller of a function that does not return is named by the function before the return address.
func TestInterruptedKernel(t *testing.T) {
	kallsyms := filepath.Join(t.TempDir(), "kallsyms")
	const text = `ffffffff81000000 T _text
ffffffff81000100 t asm_sysvec_apic_timer_interrupt
ffffffff81000200 t sysvec_apic_timer_interrupt
ffffffff81000300 t safe_ret
ffffffff81000307 t return_thunk
ffffffff81000400 t panic
ffffffff81001000 T _etext
`
	if err := os.WriteFile(kallsyms, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for callee, want := range map[uint64]string{0x104: "return_thunk", 0x100: "safe_ret", 0x404: "safe_ret"} {
		session := New(Options{File: &format.File{Order: format.LittleEndian, Attrs: make([]format.Attr, 1)},
			Symbols: symbolize.New(symbolize.Options{Kallsyms: kallsyms})})
		session.Apply(kernelText())
		s := Sample{Thread: session.machine.thread(1, 1)}
		s.PID, s.TID, s.Misc, s.IP = 1, 1, format.MiscKernel, 0xffffffff81000210
		s.Callchain = chainOf(format.ContextKernel, 0xffffffff81000210, 0xffffffff81000000+callee, 0xffffffff81000307)
		resolve(session, WalkOptions{}, &s)
		if got := s.Kernel.At(2).Symbol(); got != want {
			t.Errorf("after %x: %s, want %s", callee, got, want)
		}
	}
}

func TestCallchain(t *testing.T) {
	session := newSession()
	session.Apply(kernelText())
	session.Apply(&format.KSymbol{Addr: 0xffffffffc0000000, Len: 0x100, Name: "bpf_prog_1"})
	session.Apply(mmapOf(1, 0x1000, 0x1000, 0, "/bin/x"))
	s := Sample{}
	s.PID, s.TID, s.Misc, s.IP = 1, 1, format.MiscKernel, 0xffffffff81000010
	s.Callchain = chainOf(format.ContextKernel, 0xffffffff81000010, 0xffffffffc0000004,
		format.ContextUser, 0x1004, 0x9000)
	s.Thread = session.machine.thread(1, 1)
	w := session.newWalk(WalkOptions{KeepChains: true}, nil)
	w.begin(newBatch())
	w.resolver.resolve(&s)
	if got, want := ips(s.Kernel), []uint64{0xffffffff81000010, 0xffffffffc0000004}; !reflect.DeepEqual(got, want) {
		t.Errorf("kernel %x, want %x", got, want)
	}
	if got, want := ips(s.User), []uint64{0x1004, 0x9000}; !reflect.DeepEqual(got, want) {
		t.Errorf("user %x, want %x", got, want)
	}
	var names []string
	for i := range s.Chain.Len() {
		f := s.Chain.Frame(i)
		names = append(names, f.DSO()+" "+f.Symbol())
	}
	want := []string{"[kernel.kallsyms] [unknown]", "bpf_prog_1 bpf_prog_1", "/bin/x [unknown]", "[unknown] [unknown]"}
	if !reflect.DeepEqual(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	if s.Leaf != s.Kernel.At(0) {
		t.Error("the sampled address and the chain's first are two frames")
	}
	// The same chain again is the same frames, until the mappings change.
	again := s
	w.resolver.resolve(&again)
	if again.Chain.Key() != s.Chain.Key() {
		t.Error("the chain was resolved twice")
	}
	session.Apply(mmapOf(1, 0x1000, 0x1000, 0, "/bin/y"))
	session.Apply(&format.KSymbol{Addr: 0xffffffffc0000000, Len: 0x100, Name: "bpf_prog_1",
		Flags: format.KSymbolUnregister})
	w.resolver.resolve(&again)
	if got := again.User.At(0).DSO(); got != "/bin/y" {
		t.Errorf("after another mapping the frame is of %s", got)
	}
	if got := again.Kernel.At(1).DSO(); got != "[unknown]" {
		t.Errorf("after the program went the frame is of %s", got)
	}
	alone := s
	resolve(session, WalkOptions{LeafOnly: true}, &alone)
	if alone.Chain.Len() != 0 || alone.Leaf.IP != s.IP {
		t.Errorf("without callchains, a sample has %d frames, and that of %#x", alone.Chain.Len(), alone.Leaf.IP)
	}
}

// A mark that is none spoils the whole chain.
func TestDamagedCallchain(t *testing.T) {
	session := newSession()
	session.Apply(mmapOf(1, 0x1000, 0x1000, 0, "/bin/x"))
	for _, tc := range []struct {
		chain        format.Words
		kernel, user int
	}{
		{chainOf(format.ContextKernel, 1, 2, format.ContextUser, 0x1004), 2, 1},
		{chainOf(format.ContextKernel, 1, 2, 1<<64-77, 0x1004), 0, 0},
		{chainOf(format.ContextUser, 0x1004, 1<<64-1), 0, 0},
		{chainOf(1<<64-640, 0x1004), 0, 1},
		{chainOf(), 0, 0},
	} {
		s := Sample{Thread: session.machine.thread(1, 1)}
		s.Misc, s.Callchain = format.MiscUser, tc.chain
		resolve(session, WalkOptions{}, &s)
		if s.Kernel.Len() != tc.kernel || s.User.Len() != tc.user {
			t.Errorf("%x: %d and %d frames, want %d and %d", tc.chain.Bytes(), s.Kernel.Len(), s.User.Len(),
				tc.kernel, tc.user)
		}
	}
}

// The user part of a chain recorded with --call-graph lbr is the sampled address
// and where the branches came from.
func TestLBRCallchain(t *testing.T) {
	session := newSession()
	a := &session.File.Attrs[0]
	a.SampleType = format.SampleCallchain | format.SampleBranchStack
	session.Apply(mmapOf(1, 0x1000, 0x1000, 0, "/bin/x"))
	kernel := []uint64{0xffffffff81000010, 0xffffffff81000020}
	chain := chainOf(format.ContextKernel, kernel[0], kernel[1], format.ContextUser, 0x1004)
	branches := []uint64{0x1100, 0x1104, 1, 0x1200, 0x1204, 2}
	const callStack, hwIndex = 1 << 11, 1 << 17
	for _, tc := range []struct {
		name    string
		kind    uint64
		chain   format.Words
		stack   []uint64
		kernel  []uint64
		user    []uint64
		ofStack int
	}{
		{"call stack", callStack, chain, branches, kernel, []uint64{0x1010, 0x1100, 0x1200}, 2},
		{"with the place in the ring", callStack | hwIndex, chain, append([]uint64{31}, branches...), kernel, []uint64{0x1010, 0x1100, 0x1200}, 2},
		{"empty call stack", callStack, chain, nil, kernel, []uint64{0x1010}, 0},
		{"any branches", 1 << 3, chain, branches, kernel, []uint64{0x1004}, 2},
		{"kernel alone", callStack, chain.Slice(0, 3), branches, kernel, nil, 2},
		{"damaged chain", callStack, chainOf(1<<64-77, format.ContextUser), branches, nil, nil, 2},
	} {
		a.BranchSampleType = tc.kind
		s := Sample{Thread: session.machine.thread(1, 1)}
		s.Misc, s.IP, s.Callchain, s.BranchStack = format.MiscUser, 0x1010, tc.chain, chainOf(tc.stack...)
		resolve(session, WalkOptions{Branches: true}, &s)
		if !slices.Equal(ips(s.Kernel), tc.kernel) || !slices.Equal(ips(s.User), tc.user) {
			t.Errorf("%s: %x and %x, want %x and %x", tc.name, ips(s.Kernel), ips(s.User), tc.kernel, tc.user)
		}
		if s.Branch(a).Len() != tc.ofStack || len(s.Branches) != 2*tc.ofStack {
			t.Errorf("%s: %d branches with %d addresses, want %d", tc.name, s.Branch(a).Len(),
				len(s.Branches), tc.ofStack)
		}
	}
}

// Branches cross the border of the kernel, so both sides are searched for each end.
func TestBranchesOfBothSides(t *testing.T) {
	session := newSession()
	session.Apply(kernelText())
	session.Apply(mmapOf(1, 0x1000, 0x1000, 0, "/bin/x"))
	for _, misc := range []format.Misc{format.MiscKernel, format.MiscUser} {
		s := Sample{Thread: session.machine.thread(1, 1)}
		s.Misc, s.BranchStack, s.Addr = misc, chainOf(0x1100, 0xffffffff81000004, 0), 0x1008
		resolve(session, WalkOptions{Branches: true, Data: true}, &s)
		got := s.Branches[0].DSO() + " " + s.Branches[1].DSO() + " " + s.Data.DSO()
		if got != "/bin/x [kernel.kallsyms] /bin/x" {
			t.Errorf("mode %d: %s", misc, got)
		}
	}
}

// A sample with counter values becomes one for each counter that advanced.
func TestCounted(t *testing.T) {
	group := format.ReadGroup | format.ReadID | format.ReadTotalTimeEnabled
	single := format.ReadID | format.ReadTotalTimeEnabled | format.ReadTotalTimeRunning | format.ReadLost
	for _, tc := range []struct {
		name  string
		read  format.ReadFormat
		words [][]uint64
		want  string // id:value
	}{
		{"group", group, [][]uint64{{2, 9, 100, 7, 3, 8}, {2, 9, 150, 7, 3, 8}}, "7:100 8:3 7:150 8:3"},
		{"one", single, [][]uint64{{100, 9, 9, 7, 0}}, "7:100"},
		{"no id", format.ReadTotalTimeEnabled, [][]uint64{{100, 9}}, "0:100"},
		{"group with more than is there", group, [][]uint64{{1 << 60, 9, 100, 7, 3}}, "7:100"},
		{"nothing", group, [][]uint64{{}}, ""},
	} {
		var got []string
		for _, w := range tc.words {
			for _, v := range format.ParseCounters(chainOf(w...), tc.read).Values {
				got = append(got, fmt.Sprintf("%d:%d", v.ID, v.Value))
			}
		}
		if g := strings.Join(got, " "); g != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, g, tc.want)
		}
	}
}

// The list of build IDs contains the names under which perf shows the kernel and its modules.
func TestListedKernel(t *testing.T) {
	for _, tc := range []struct{ list, mapped, name, short string }{
		{"/lib/modules/6.6/build/vmlinux", "[kernel.kallsyms]_text", "/lib/modules/6.6/build/vmlinux", "[kernel.vmlinux]"},
		{"[kernel.kallsyms]", "[kernel.kallsyms]_text", "[kernel.kallsyms]", ""},
		{"/lib/modules/3.4/net/mac80211.ko", "/lib/modules/3.4/net/mac80211.ko", "/lib/modules/3.4/net/mac80211.ko", "[mac80211]"},
		{"/lib/modules/6.1/snd-hda.ko.xz", "/lib/modules/6.1/snd-hda.ko.xz", "/lib/modules/6.1/snd-hda.ko.xz", "[snd_hda]"},
		{"/lib/modules/3.4/net/other.ko", "/lib/modules/3.4/net/mac80211.ko", "[mac80211]", ""},
		{"[vdso]", "[kernel.kallsyms]_text", "[kernel.kallsyms]", ""},
	} {
		session := newSession()
		session.machine.kernel.note(&format.BuildIDEntry{Misc: format.MiscKernel, Filename: tc.list,
			BuildID: []byte("01234567890123456789")})
		session.Apply(&format.Mmap{Misc: format.MiscKernel, PID: -1, Start: 0xffffffff81000000, Len: 0x1000,
			Filename: tc.mapped})
		d := session.machine.kernelMap(0xffffffff81000010).DSO
		if d.Name != tc.name || d.Short != tc.short {
			t.Errorf("%s listed, %s mapped: %q, short %q; want %q, %q", tc.list, tc.mapped, d.Name, d.Short,
				tc.name, tc.short)
		}
	}
}

// A thread is identified by number, whatever process a sample names.
func TestThreadOfNoProcess(t *testing.T) {
	session := newSession()
	if got := session.machine.thread(1384, 0).Comm; got != "swapper" {
		t.Errorf("thread 0 is called %q", got)
	}
	session.Apply(&format.Comm{PID: 10, TID: 10, Comm: "shell"})
	session.Apply(&format.Fork{PID: 30, TID: 30, PPID: 20, PTID: 10}) // 10 is a thread of 20 now
	if got := session.machine.thread(30, 30).Comm; got != ":30" {
		t.Errorf("the child of a thread that was another process's is called %q", got)
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

// Big-endian machines lay the flags of a branch out from the highest bit on.
func TestBranchFlagsOfEitherOrder(t *testing.T) {
	const mispredicted, cycles, kind = 1, 20 << 4, 6 << 20
	for _, tc := range []struct {
		order format.Order
		word  uint64
	}{
		{format.LittleEndian, mispredicted | cycles | kind},
		{format.BigEndian, 1<<63 | 20<<44 | 6<<40},
	} {
		b := tc.order.AppendUint64(make([]byte, 16), tc.word)
		s := Sample{}
		s.BranchStack = format.NewWords(b, tc.order)
		if got := s.Branch(new(format.Attr)).Flags(0); got != mispredicted|cycles|kind {
			t.Errorf("%v: %#x, want %#x", tc.order, got, mispredicted|cycles|kind)
		}
	}
}

// A module of unknown address does not own the kernel's addresses.
func TestHiddenModule(t *testing.T) {
	for _, length := range []uint64{0, 1<<64 - 1} {
		session := newSession()
		session.Apply(&format.Mmap{Misc: format.MiscKernel, PID: -1, Filename: "[kernel.kallsyms]_text"})
		session.Apply(&format.Mmap{Misc: format.MiscKernel, PID: -1, Len: length, Filename: "/lib/hidden.ko"})
		if d := session.machine.kernelMap(0xffffffff81000010).DSO; d.Name != dso.KernelName {
			t.Errorf("after a module of %#x bytes at address 0, the kernel's address belongs to %s", length, d.Name)
		}
	}
}
