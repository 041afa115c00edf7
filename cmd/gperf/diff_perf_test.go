package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gperf/format"
)

// taken is samples of a thread at an address.
type taken struct {
	comm    string
	pid     uint32
	ip      uint64
	samples int
	period  uint64
}

// Functions of testdata/kallsyms, and addresses of a file without symbols.
const (
	atEntry = 0xffffffff810000ba // entry_SYSCALL_64_after_hwframe
	atFault = 0xffffffff81000c60 // asm_exc_page_fault
	atUser  = 0x400100
)

// comparedPairs are pairs of recordings with the events cpu-clock and context-switches: the first
// list of each side is of one, the second of the other.
var comparedPairs = []struct {
	name     string
	old, new [2][]taken
}{
	{"shares", [2][]taken{{{"made", 10, atUser, 50, 100}, {"made", 10, atEntry, 30, 100}, {"made", 10, atFault, 20, 100}}},
		[2][]taken{{{"made", 10, atUser, 40, 100}, {"made", 10, atEntry, 61, 100}, {"made", 10, atFault, 20, 100}}}},
	{"threads", [2][]taken{{{"made", 10, atUser, 7, 3}, {"other", 11, atUser, 5, 30}, {"other", 11, atEntry, 1, 1}}},
		[2][]taken{{{"made", 10, atUser, 9, 2}, {"third", 12, atUser, 4, 17}, {"other", 11, atFault, 2, 1 << 40}}}},
	{"events", [2][]taken{{{"made", 10, atUser, 3, 1000}}, {{"made", 10, atEntry, 3, 1}, {"other", 11, atFault, 9, 7}}},
		[2][]taken{{{"made", 10, atUser + 16, 3, 999}}, {{"made", 10, atEntry, 8, 1}, {"made", 10, atFault, 2, 7}}}},
}

// comparedLines are the flags of perf diff with these pairs; OLD is the first recording again.
var comparedLines = []string{
	"", "OLD -c ratio -p", "-p", "-F", "-p -F", "-b", "-b -p -F", "-q", "-v", "-o 0", "-o 1",
	"-c delta", "-c delta -F -p", "-c delta-abs -F", "-c ratio", "-c ratio -F -p", "-c ratio -b -o 1",
	"-c wdiff:1,2 -F", "-c wdiff:3,1 -p", "-c wdiff:5,7 -b -F -p",
	"-s comm", "-s dso", "-s sym", "-s pid", "-s cpu,comm", "-s comm,dso,sym", "-s srcline",
	"-t ; -p -F", "-t , -c ratio -s comm,sym", "-t @ -c wdiff:1,1 -q",
	"-C made", "-C made,other -c ratio", "-d [kernel.kallsyms]", "-d made -s dso", "-S asm_exc_page_fault -p",
	"-S asm_exc_page_fault --percentage relative", "-d [kernel.kallsyms] --percentage absolute -F",
	"--pid 10", "--tid 11,12 -s comm", "--cpu 1 -s cpu,sym", "--time 0,0.000005:0.000002,1", "--time 0.000003,",
}

// saveTaken writes a recording whose samples alternate between the CPUs 0 and 1, 1 µs apart.
func saveTaken(t *testing.T, name string, events [2][]taken) (path string) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const fields = usual | format.SampleID | format.SampleCPU | format.SamplePeriod
	attrs := []format.Attr{{Type: format.TypeSoftware, SampleType: fields, IDs: []uint64{7}},
		{Type: format.TypeSoftware, Config: 3, SampleType: fields, IDs: []uint64{8}}}
	w, err := format.NewWriter(f, attrs, []format.Section{format.StringSection(format.FeatureArch, "x86_64")})
	if err != nil {
		t.Fatal(err)
	}
	id, known, n := attrs[0].SampleIDSize(), map[uint32]bool{}, uint64(0)
	kernel := format.Mmap{Misc: format.MiscKernel, PID: -1, Start: 0xffffffff81000000, Len: 1 << 28,
		Pgoff: 0xffffffff81000000, Filename: "[kernel.kallsyms]_text"}
	data := kernel.Append(nil, id)
	for event, list := range events {
		for _, s := range list {
			if !known[s.pid] {
				known[s.pid] = true
				comm := format.Comm{PID: int32(s.pid), TID: int32(s.pid), Comm: s.comm}
				m := format.Mmap{V2: true, Misc: format.MiscUser, PID: int32(s.pid), TID: int32(s.pid),
					Start: 0x400000, Len: 0x1000, Prot: format.ProtExec, Filename: "/bin/made"}
				data = m.Append(comm.Append(data, id), id)
			}
			misc := format.MiscUser
			if s.ip >= atEntry {
				misc = format.MiscKernel
			}
			for range s.samples {
				n++
				data = append(data, sample(misc, u64s(s.ip), pidTID(s.pid, s.pid), u64s(1000*n, uint64(7+event), n%2,
					s.period))...)
			}
		}
	}
	if err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// TestDiffEqualsPerf compares with perf 7.3.4, for all flags of perf diff: its output is
// in testdata/perf/diff-PAIR.txt, in which "$" precedes each line of flags.
func TestDiffEqualsPerf(t *testing.T) {
	o, _ := findOracle()
	for _, pair := range comparedPairs {
		t.Run(pair.name, func(t *testing.T) {
			old, new := saveTaken(t, "old.data", pair.old), saveTaken(t, "new.data", pair.new)
			// perf divides by the baseline's zero samples that pass a filter.
			names := strings.NewReplacer(old, "old.data", new, "new.data", "   -nan%", "+100.00%")
			argsOf := func(line string) []string {
				args := strings.Fields("diff " + old + " " + new + " " + strings.ReplaceAll(line, "OLD", old))
				return append(args, "-f", "--kallsyms", filepath.Join(root, "testdata", "kallsyms"),
					"--symfs", recordedFiles.dir)
			}
			golden := filepath.Join(root, "testdata", "perf", "diff-"+pair.name+".txt")
			if o != nil && o.compat == "7.3" && *update {
				var b strings.Builder
				for _, line := range comparedLines {
					fmt.Fprintf(&b, "$ %s\n%s", line, names.Replace(string(o.output(t, argsOf(line)))))
				}
				if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			text, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range comparedLines {
				t.Run(line, func(t *testing.T) {
					_, want, ok := strings.Cut("\n"+string(text), "\n$ "+line+"\n")
					if o != nil && o.compat == "7.3" {
						want, ok = names.Replace(string(o.output(t, argsOf(line)))), true
					}
					want, _, _ = strings.Cut(want, "$ ")
					if !ok || want == "" {
						t.Fatalf("%s has nothing of it: -update lets $PERF print it", golden)
					}
					got, _ := gperf(t, argsOf(line)...)
					sameText(t, line, names.Replace(got), want)
				})
			}
		})
	}
}
