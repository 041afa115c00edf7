package track

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gperf/format"
)

const idSize = 16

// records is a text of records, a word each.
func records(b []byte) string {
	var l []string
	for len(b) > 0 {
		size := int(binary.LittleEndian.Uint16(b[6:]))
		raw := format.Raw{Type: format.Type(binary.LittleEndian.Uint32(b)),
			Misc: format.Misc(binary.LittleEndian.Uint16(b[4:])), Data: b[format.HeaderSize : size-idSize]}
		rec, err := format.ParseRecord(raw, 0)
		switch r := rec.(type) {
		case *format.Fork:
			l = append(l, fmt.Sprintf("fork:%d/%d<%d", r.PID, r.TID, r.PPID))
		case *format.Comm:
			l = append(l, fmt.Sprintf("comm:%d/%d=%s", r.PID, r.TID, r.Comm))
		case *format.Mmap:
			l = append(l, fmt.Sprintf("mmap:%d:%x-%x@%x=%s", r.PID, r.Start, r.Start+r.Len, r.Pgoff, r.Filename))
		case *format.KSymbol:
			l = append(l, fmt.Sprintf("symbol:%x=%s", r.Addr, r.Name))
		case *format.Cgroup:
			l = append(l, fmt.Sprintf("cgroup:%d=%s", r.CgroupID, r.Path))
		case *format.Namespaces:
			l = append(l, fmt.Sprintf("ns:%d/%d=%d", r.PID, r.TID, len(r.NS)))
		default:
			l = append(l, fmt.Sprintf("%v %v", rec, err))
		}
		b = b[size:]
	}
	return strings.Join(l, " ")
}

// appender is a record.
type appender interface {
	Append(b []byte, idSize int) []byte
}

func exit(pid, tid int32) appender { return exited{format.Fork{PID: pid, TID: tid, PPID: 1, PTID: 1}} }

type exited struct{ format.Fork }

func (e exited) Append(b []byte, idSize int) []byte {
	start := len(b)
	b = e.Fork.Append(b, idSize)
	binary.LittleEndian.PutUint32(b[start:], uint32(format.TypeExit))
	return b
}

func mmap(pid int32, start, size, pgoff uint64, name string) *format.Mmap {
	return &format.Mmap{V2: true, Misc: format.MiscUser, PID: pid, TID: pid, Start: start, Len: size, Pgoff: pgoff,
		Ino: 7, Prot: format.ProtExec, Filename: name}
}

func TestMachine(t *testing.T) {
	kernel := &format.Mmap{V2: true, Misc: format.MiscKernel, PID: -1, Start: 0xf000, Len: 0x100,
		Filename: "[kernel.kallsyms]_text"}
	start := []appender{kernel, &format.KSymbol{Addr: 0xf800, Len: 8, Name: "bpf_prog_1"},
		&format.Cgroup{CgroupID: 1, Path: "/"},
		&format.Fork{PID: 1, TID: 1, Ran: true}, &format.Comm{PID: 1, TID: 1, Comm: "init"},
		mmap(1, 0x1000, 0x1000, 0, "/sbin/init"),
		&format.Fork{PID: 1, TID: 2, PPID: 1, PTID: 1, Ran: true}, &format.Comm{PID: 1, TID: 2, Comm: "worker"}}
	const begin = "mmap:-1:f000-f100@0=[kernel.kallsyms]_text symbol:f800=bpf_prog_1 cgroup:1=/ "
	const first = "fork:1/1<0 comm:1/1=init mmap:1:1000-2000@0=/sbin/init fork:1/2<1 comm:1/2=worker"
	fork := &format.Fork{PID: 5, TID: 5, PPID: 1, PTID: 2}
	exec := &format.Comm{PID: 5, TID: 5, Comm: "ls", Exec: true}
	for _, c := range []struct {
		name    string
		records []appender
		want    string
	}{
		{"nothing", nil, begin + first},
		{"a fork has its parent's mappings and name", []appender{fork},
			begin + first + " fork:5/5<1 comm:5/5=worker mmap:5:1000-2000@0=/sbin/init"},
		{"a mapping of the child is not the parent's", []appender{fork, mmap(5, 0x1800, 0x1000, 0x10, "/lib")},
			begin + first + " fork:5/5<1 comm:5/5=worker mmap:5:1000-1800@0=/sbin/init mmap:5:1800-2800@10=/lib"},
		{"the end of an overlapped mapping has its own offset", []appender{mmap(1, 0x0800, 0xc00, 0x10, "/lib")},
			begin +
				"fork:1/1<0 comm:1/1=init mmap:1:800-1400@10=/lib mmap:1:1400-2000@400=/sbin/init fork:1/2<1 comm:1/2=worker"},
		{"an exec replaces the mappings", []appender{fork, exec, mmap(5, 0x5000, 0x1000, 0, "/bin/ls")},
			begin + first + " fork:5/5<1 comm:5/5=ls mmap:5:5000-6000@0=/bin/ls"},
		{"an exit", []appender{fork, exec, exit(5, 5)}, begin + first},
		{"a thread", []appender{&format.Fork{PID: 1, TID: 3, PPID: 1, PTID: 2}, exit(1, 2)},
			begin + "fork:1/1<0 comm:1/1=init mmap:1:1000-2000@0=/sbin/init fork:1/3<1 comm:1/3=worker"},
		{"a leader exits before its threads", []appender{exit(1, 1)},
			begin + "fork:1/1<0 comm:1/1= mmap:1:1000-2000@0=/sbin/init fork:1/2<1 comm:1/2=worker"},
		{"a thread calls exec after the leader has exited", []appender{fork,
			&format.Fork{PID: 5, TID: 6, PPID: 5, PTID: 5}, exit(5, 5), exec},
			begin + first + " fork:5/5<1 comm:5/5=ls"},
		{"a process exits after a thread called exec", []appender{fork,
			&format.Fork{PID: 5, TID: 6, PPID: 5, PTID: 5}, exit(5, 5), exec, exit(5, 5)}, begin + first},
		{"a thread of an unknown process", []appender{&format.Fork{PID: 7, TID: 8, PPID: 7, PTID: 7}},
			begin + first + " fork:7/7<0 comm:7/7= fork:7/8<7 comm:7/8="},
		{"all threads exit", []appender{exit(1, 1), exit(1, 2)}, strings.TrimSpace(begin)},
		{"a pid is used again", []appender{fork, &format.Fork{PID: 5, TID: 5, PPID: 9, PTID: 9}},
			begin + first + " fork:5/5<9 comm:5/5="},
		{"code of the kernel", []appender{&format.KSymbol{Addr: 0xf800, Flags: 1, Name: "bpf_prog_1"},
			&format.KSymbol{Addr: 0xf900, Name: "bpf_prog_2"}, &format.Cgroup{CgroupID: 9, Path: "/new"}},
			strings.Replace(begin, "f800=bpf_prog_1 cgroup:1=/", "f900=bpf_prog_2 cgroup:1=/ cgroup:9=/new", 1) +
				first},
		{"namespaces", []appender{&format.Namespaces{PID: 1, TID: 2, NS: make([]format.Namespace, 7)}},
			begin + strings.Replace(first, " comm:1/2", " ns:1/2=7 comm:1/2", 1)},
		{"an empty mapping", []appender{mmap(1, 0x5000, 0, 0, "/none"), mmap(1, 1<<63, 1<<63+1, 0, "/wraps")}, begin + first},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := New()
			for _, r := range slices.Concat(start, c.records) {
				m.Apply(r.Append(nil, idSize), idSize)
			}
			b := m.Append(nil, idSize)
			if got := records(b); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
			again := New()
			again.Apply(b, idSize)
			if got := again.Append(nil, idSize); string(got) != string(b) {
				t.Errorf("from its own records:\n got %s\nwant %s", records(got), records(b))
			}
		})
	}
}

// TestDamaged: records that end early are ignored.
func TestDamaged(t *testing.T) {
	m := New()
	b := (&format.Comm{PID: 1, TID: 1, Comm: "init"}).Append(nil, idSize)
	for n := range len(b) {
		m.Apply(b[:n], idSize)
	}
	binary.LittleEndian.PutUint16(b[6:], 9)
	m.Apply(b, idSize)
	if len(m.processes) != 0 {
		t.Errorf("%d processes", len(m.processes))
	}
}

// TestFlat: processes and threads that come and go leave nothing.
func TestFlat(t *testing.T) {
	m := New()
	for pid := int32(10); pid < 1000; pid++ {
		for _, r := range []appender{&format.Fork{PID: pid, TID: pid, PPID: 1, PTID: 1},
			&format.Comm{PID: pid, TID: pid, Comm: "ls", Exec: true}, mmap(pid, 0x1000, 0x1000, 0, "/bin/ls"),
			&format.Fork{PID: pid, TID: pid + 5000, PPID: pid, PTID: pid}, exit(pid, pid), exit(pid, pid+5000)} {
			m.Apply(r.Append(nil, idSize), idSize)
		}
	}
	if len(m.processes) > 0 || len(m.files) != 1 {
		t.Errorf("%d processes and %d files are left", len(m.processes), len(m.files))
	}
}
