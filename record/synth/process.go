package synth

import (
	"errors"
	"io/fs"
	"iter"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/internal/procfs"
)

// found holds the data shared by the goroutines that read processes.
type found struct {
	denied atomic.Int64 // processes whose mappings this user may not read
	mu     sync.Mutex
	known  map[fileID][]byte // build IDs
}

// fileID names a file on this machine.
type fileID struct {
	maj, min uint32
	ino      uint64
}

func newFound() *found { return &found{known: map[fileID][]byte{}} }

// atOnce is the number of processes that a goroutine reads at once.
const atOnce = 32

// Processes makes the records of processes: of threads, and of mappings. If a
// process has exited meanwhile, its records are incomplete. The records have the order of pids,
// but several goroutines read the processes. The sequence is the numbers of processes done. An error is the last
// element.
func (s *Synthesizer) Processes(pids []int) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		stop := make(chan struct{})
		defer close(stop)
		n := 0
		for result := range s.read(pids, stop) {
			part := <-result
			s.buf = append(s.buf, part.buf...)
			maps.Copy(s.opts.Files, part.opts.Files)
			n = min(n+atOnce, len(pids))
			if err := s.Flush(flushSize); !yield(n, err) || err != nil {
				return
			}
		}
	}
}

// read starts goroutines that read processes, one for each CPU, until stop is closed. It
// returns their results in the order of pids.
func (s *Synthesizer) read(pids []int, stop <-chan struct{}) <-chan chan *Synthesizer {
	results := make(chan chan *Synthesizer, max(0, runtime.GOMAXPROCS(0)-2)) // besides the first two
	go func() {
		defer close(results)
		for some := range slices.Chunk(pids, atOnce) {
			result := make(chan *Synthesizer, 1)
			go func() { result <- s.part(some) }()
			select {
			case results <- result:
			case <-stop:
				return
			}
		}
	}()
	return results
}

// part makes the records of some processes. The caller may change s.opts.Files meanwhile.
func (s *Synthesizer) part(pids []int) *Synthesizer {
	part := &Synthesizer{opts: s.opts, found: s.found}
	if s.opts.Files != nil {
		part.opts.Files = map[string]bool{}
	}
	for _, pid := range pids {
		part.process(pid)
	}
	return part
}

// process makes the records of a process.
func (s *Synthesizer) process(pid int) {
	st, err := procfs.StatusOf(pid)
	if err != nil {
		return
	}
	s.Thread(format.Fork{PID: int32(pid), TID: int32(pid), PPID: int32(st.PPid), PTID: int32(st.PPid)}, st.Name)
	if s.opts.Omit&Mmap == 0 {
		s.maps(pid)
	}
	if st.Threads == 1 {
		return
	}
	tids, err := procfs.Threads(pid)
	if err != nil {
		return
	}
	for _, tid := range tids {
		if tid == pid {
			continue
		}
		if t, err := procfs.StatusOf(tid); err == nil {
			s.Thread(format.Fork{PID: int32(pid), TID: int32(tid), PPID: int32(pid), PTID: int32(pid)}, t.Name)
		}
	}
}

// maps makes the records of a process's mappings.
func (s *Synthesizer) maps(pid int) {
	maps, err := procfs.Maps(pid)
	if errors.Is(err, fs.ErrPermission) {
		s.found.denied.Add(1)
	}
	if err != nil {
		return
	}
	list := slices.Collect(maps)
	for _, mapping := range list {
		if !mapping.Executable() && !(s.opts.Data && mapping.Prot&unix.PROT_READ != 0) {
			continue
		}
		m := MmapOf(pid, mapping)
		if HasFile(&m) {
			if s.opts.BuildIDs {
				m.BuildID = s.found.buildID(&m)
			} else if s.opts.Files != nil {
				s.opts.Files[m.Filename] = true
			}
		}
		s.buf = m.Append(s.buf, s.opts.IDSize)
	}
	for _, m := range AppendCopies(nil, pid, list, s.opts.BuildIDs) {
		s.buf = m.Append(s.buf, s.opts.IDSize)
	}
}

// buildID returns BuildID, which it calls once for each file.
func (f *found) buildID(m *format.Mmap) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := fileID{maj: m.Maj, min: m.Min, ino: m.Ino}
	id, ok := f.known[key]
	if !ok {
		id = BuildID(m)
		f.known[key] = id
	}
	return id
}
