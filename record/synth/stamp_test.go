package synth

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"gperf/format"
)

// TestStamp checks that records from a second reading of /proc have a time at the
// position that readers expect.
func TestStamp(t *testing.T) {
	const at = 1_234_567
	for _, st := range []format.SampleType{
		format.SampleIP | format.SampleTID | format.SampleTime,
		format.SampleIdentifier | format.SampleIP | format.SampleTID | format.SampleTime | format.SampleCPU,
		format.SampleID | format.SampleIP | format.SampleTID | format.SampleTime | format.SampleCPU,
	} {
		a := format.Attr{SampleType: st, Flags: format.FlagSampleIDAll}
		size := a.SampleIDSize()
		b := (&format.Comm{PID: 5, TID: 6, Comm: "read"}).Append(nil, size)
		first := len(b)
		b = (&format.Mmap{PID: 5, TID: 5, Start: 0x1000, Len: 0x1000, Prot: format.ProtExec,
			Filename: "/bin/again"}).Append(b, size)
		Stamp(b, size, at)
		comm, err := format.ParseRecord(format.Raw{Type: format.TypeComm, Data: b[8:first]}, st)
		if c, ok := comm.(*format.Comm); err != nil || !ok || c.ID.Time != at || c.Comm != "read" {
			t.Errorf("sample type %#x: %+v, %v", st, comm, err)
		}
		mmap, err := format.ParseRecord(format.Raw{Type: format.TypeMmap2, Data: b[first+8:]}, st)
		if m, ok := mmap.(*format.Mmap); err != nil || !ok || m.ID.Time != at || m.Filename != "/bin/again" {
			t.Errorf("sample type %#x: %+v, %v", st, mmap, err)
		}
	}
}

func TestWithDescendants(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 100 & echo; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	out.Read(make([]byte, 1)) // its child runs
	l := WithDescendants([]int{cmd.Process.Pid})
	if len(l) != 2 || l[0] != cmd.Process.Pid {
		t.Errorf("%v, want %d and its child", l, cmd.Process.Pid)
	}
	if len(l) == 2 {
		child, _ := os.FindProcess(l[1])
		child.Kill()
	}
	if !slices.Contains(WithDescendants([]int{os.Getpid()}), cmd.Process.Pid) {
		t.Errorf("%d is not among this process's", cmd.Process.Pid)
	}
}
