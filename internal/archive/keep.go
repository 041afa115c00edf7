package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gperf/format"
	"gperf/internal/dso"
	"gperf/internal/session"
	"gperf/internal/untrusted"
	"gperf/symbolize"
)

// keepFor limits how long KeepHits reads a recording.
const keepFor = 5 * time.Second

// errPart means that a recording is so large that only a part of it was read.
var errPart = errors.New("the recording is large: only the programs of its first part are kept; run gperf archive " +
	"before others change")

// KeepHits stores, in perf's build-ID cache, copies of the programs and libraries that samples of the recording at
// path hit, if a reader may not find them later (dso.Stays), and, for this recording alone, of the perf maps and
// jitdumps of processes in other namespaces. It does nothing unless path is a regular file. kept holds the copies
// that the recorder made before, held the files that it opened. The error may be errPart.
func KeepHits(kept *dso.Kept, held []dso.Generated, path string) error {
	defer func() {
		for _, g := range held {
			g.Close()
		}
	}()
	fd, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) { // the recording went into a pipe
		return nil
	}
	if err != nil {
		return err
	}
	defer fd.Close()
	st, err := fd.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return err
	}
	f, err := format.Open(fd, st.Size())
	if err != nil {
		return err
	}
	s := session.New(session.Options{File: f, Symbols: symbolize.New(symbolize.Options{})})
	h := hits{dsos: map[*session.DSO]bool{}, generated: map[int32]bool{}, dumps: map[int32][]string{},
		stacks: map[stackHash]bool{}, seed: maphash.MakeSeed()}
	err = h.read(s, time.Now().Add(keepFor))
	contested := contestedIDs(s.Symbols.Locator(), h.dsos)
	for d := range h.dsos {
		if !contested[d.BuildID] {
			err = errors.Join(err, keepDSO(kept, s.Symbols.Locator(), d))
		}
	}
	return errors.Join(err, h.keepGenerated(kept, held, recordingID(fd, st.Size())))
}

// contestedIDs returns the build IDs shared by several files with different contents. None of these files is kept,
// because readers find kept files by build ID alone.
func contestedIDs(l *dso.Locator, hit map[*session.DSO]bool) map[dso.BuildID]bool {
	byID := map[dso.BuildID][]*session.DSO{}
	for d := range hit {
		byID[d.BuildID] = append(byID[d.BuildID], d)
	}
	contested := map[dso.BuildID]bool{}
	for id, list := range byID {
		if len(list) == 1 || id.IsZero() {
			continue
		}
		sums := map[[sha256.Size]byte]bool{}
		for _, d := range list {
			if sum, ok := contentsOf(l, d); ok {
				sums[sum] = true
			}
		}
		contested[id] = len(sums) > 1
	}
	return contested
}

// contentsOf returns the SHA-256 of a DSO's file, and false if it cannot be read.
func contentsOf(l *dso.Locator, d *session.DSO) (sum [sha256.Size]byte, ok bool) {
	im, err := l.Find(d.Name, d.BuildID)
	if err != nil {
		return sum, false
	}
	defer im.Close()
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(im, 0, int64(im.Size))); err != nil {
		return sum, false
	}
	return [sha256.Size]byte(h.Sum(nil)), true
}

// hits holds the DSOs and processes that instructions and callers of samples hit.
type hits struct {
	dsos      map[*session.DSO]bool
	generated map[int32]bool     // processes, in code that they generated
	dumps     map[int32][]string // jitdumps, of all processes

	// stacks are the stacks that were looked at since mappings changed: most samples have the same ones.
	stacks map[stackHash]bool
	seed   maphash.Seed
}

// stackHash distinguishes the stacks of processes.
type stackHash struct {
	pid   int32
	ip    uint64
	chain uint64 // hash of the callchain
}

// maxStacks limits hits.stacks, for the memory of the recorder.
const maxStacks = 1 << 16

// isNew reports whether the stack of a sample is not in stacks, and adds it.
func (h *hits) isNew(s *format.Sample) bool {
	k := stackHash{s.PID, s.IP, maphash.Bytes(h.seed, s.Callchain.Bytes())}
	if h.stacks[k] {
		return false
	}
	if len(h.stacks) == maxStacks {
		clear(h.stacks)
	}
	h.stacks[k] = true
	return true
}

func (h *hits) add(m *session.Map) {
	h.dsos[m.DSO] = true
	if pid, ok := dso.PerfMapPID(m.PerfMap()); ok {
		h.generated[pid] = true
	}
}

// apply updates the session with a record that is no sample.
func (h *hits) apply(s *session.Session, rec format.Record) {
	s.Apply(rec)
	clear(h.stacks)
	m, ok := rec.(*format.Mmap)
	if ok && dso.KindOf(m.Filename) == dso.KindJITDump && !slices.Contains(h.dumps[m.PID], m.Filename) {
		h.dumps[m.PID] = append(h.dumps[m.PID], m.Filename)
	}
}

// read reads a recording up to a moment.
func (h *hits) read(s *session.Session, until time.Time) error {
	var sample format.Sample
	add := func(m *session.Map) {
		h.add(m)
		if dso.KindOf(m.DSO.Name) == dso.KindJITDump {
			h.generated[sample.PID] = true
		}
	}
	reader := s.File.Records()
	for n := 0; ; n++ {
		raw, err := reader.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case raw.Type != format.TypeSample:
			if rec, err := s.File.Record(raw); err == nil {
				h.apply(s, rec)
			}
		case n%(1<<16) == 1<<16-1 && time.Now().After(until):
			return errPart
		case s.File.Sample(raw, &sample) == nil && h.isNew(&sample):
			s.UserMaps(&sample, add)
		}
		raw.Release()
	}
}

// keepGenerated stores the perf maps and jitdumps of the processes with hits: the files that the recorder held, and
// the files of running processes in other namespaces.
func (h *hits) keepGenerated(kept *dso.Kept, held []dso.Generated, recording string) (err error) {
	dir := dso.GeneratedDir(recording)
	if dir == "" {
		return nil
	}
	type file struct {
		pid  int32
		name string
	}
	done := map[file]bool{}
	for _, g := range held {
		if h.generated[g.PID] {
			done[file{g.PID, g.Name}] = true
			err = errors.Join(err, kept.KeepGenerated(dir, g))
		}
	}
	for pid := range h.generated {
		if !dso.Elsewhere(pid) {
			continue
		}
		for _, name := range append(h.dumps[pid], dso.PerfMapPattern) {
			if done[file{pid, name}] {
				continue
			}
			if g, openErr := dso.OpenGenerated(pid, name); openErr == nil { // else the report says so
				err = errors.Join(err, kept.KeepGenerated(dir, g))
				g.Close()
			}
		}
	}
	return err
}

// recordingID identifies a recording by contents: header and first records, last records and feature sections.
func recordingID(r io.ReaderAt, size int64) string {
	const part = 64 << 10
	h := sha256.New()
	fmt.Fprintln(h, size)
	io.Copy(h, io.NewSectionReader(r, 0, part))
	io.Copy(h, io.NewSectionReader(r, max(size-part, 0), part))
	return hex.EncodeToString(h.Sum(nil)[:20])
}

// Generated returns the directory with the perf maps and jitdumps that were kept for the recording, "" without any.
func (r *Recording) Generated() string {
	if len(r.Parts) != 1 || r.Packed != nil {
		return ""
	}
	dir := dso.GeneratedDir(recordingID(r.Parts[0], r.Parts[0].Size))
	if _, err := os.Stat(dir); err != nil {
		return ""
	}
	return dir
}

// keepDSO stores the file of a DSO.
func keepDSO(kept *dso.Kept, l *dso.Locator, d *session.DSO) error {
	if _, hasInode := d.BuildID.Inode(); d.BuildID.IsZero() && !hasInode || !filepath.IsAbs(d.Name) {
		return nil
	}
	im, err := l.Find(d.Name, d.BuildID)
	if err != nil {
		return nil // the report says that names are missing
	}
	defer im.Close()
	file, err := untrusted.Open(im.Path)
	if err != nil {
		return nil // the image is the memory of a process
	}
	defer file.Close()
	name := dso.TrimDeleted(d.Name)
	if dso.Stays(name, file) {
		return nil
	}
	return kept.Keep(name, d.BuildID, file)
}
