package inspect

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"gperf/format"
	"gperf/internal/session"
)

// BuildIDs prints the build IDs and names of the DSOs that a recording lists, or, with hits, of the DSOs that
// samples hit, as `perf buildid-list` does. If a recording lists none (it comes from a pipe, or contains build IDs
// in MMAP2 records), BuildIDs prints the hit DSOs. In a recording with AUX data and a list, it does not look for
// hits.
func BuildIDs(w *bufio.Writer, s *session.Session, hits bool) (format.Skipped, error) {
	f := s.File
	var skipped format.Skipped
	listed := listedDSOs(f)
	found := listed
	if !f.Has(format.FeatureBuildID) || hits && !f.Has(format.FeatureAuxtrace) {
		var err error
		if found, skipped, err = hitDSOs(s); err != nil {
			return skipped, err
		}
		for i := range found {
			if j := slices.IndexFunc(listed, found[i].sameFile); j >= 0 {
				found[i] = listed[j]
			}
		}
	}
	slices.SortFunc(found, listedDSO.compare)
	found = slices.Compact(found)
	for i, d := range found {
		// perf counts a mapping without a build ID as the file's mapping with a build ID.
		if d.id == "" && i+1 < len(found) && d.sameFile(found[i+1]) {
			continue
		}
		fmt.Fprintf(w, "%-40s %s\n", d.id, d.name)
	}
	return skipped, w.Flush()
}

// listedDSO is a line of the list. pid identifies the DSO's guest machine, -1 for
// the host.
type listedDSO struct {
	pid      int32
	name, id string // id in hexadecimal
}

func (d listedDSO) compare(e listedDSO) int {
	return cmp.Or(cmp.Compare(d.pid, e.pid), cmp.Compare(d.name, e.name), cmp.Compare(d.id, e.id))
}

func (d listedDSO) sameFile(e listedDSO) bool { return d.pid == e.pid && d.name == e.name }

// listedDSOs returns the DSOs in the BUILD_ID section. The last entry of a name counts.
func listedDSOs(f *format.File) (l []listedDSO) {
	entries, _ := f.BuildIDs()
	for _, e := range entries {
		switch e.Misc & format.MiscCPUModeMask {
		case format.MiscKernel, format.MiscUser, format.MiscGuestKernel, format.MiscGuestUser:
		default:
			continue
		}
		d := listedDSO{e.PID, e.Filename, hex.EncodeToString(e.BuildID)}
		l = append(slices.DeleteFunc(l, d.sameFile), d)
	}
	return l
}

// hitDSOs returns the DSOs of the samples' addresses.
func hitDSOs(s *session.Session) ([]listedDSO, format.Skipped, error) {
	hit := map[*session.Map]bool{}
	skipped, err := s.Walk(session.WalkOptions{}, func(b *session.Batch) error {
		for i := range b.Samples {
			s := &b.Samples[i]
			note(hit, s.Leaf)
			for j := range s.Chain.Len() {
				note(hit, s.Chain.Frame(j))
			}
		}
		b.Release()
		return nil
	})
	modules, moduleErr := kernelModules(s.File)
	var l []listedDSO
	for m, kernel := range hit {
		d := listedDSO{-1, m.DSO.Name, m.DSO.BuildID.String()}
		if path := modules[m.Start]; kernel && path != "" {
			d.name = path
		}
		l = append(l, d)
	}
	return l, skipped, cmp.Or(err, moduleErr)
}

// note marks a frame's mapping as hit, and whether it is the kernel's.
func note(hit map[*session.Map]bool, f *session.Frame) {
	if f != nil && f.Map != nil {
		hit[f.Map] = f.Kernel
	}
}

// kernelModules returns the files of the kernel's modules, by start address. Frames contain only the modules' short
// names.
func kernelModules(f *format.File) (map[uint64]string, error) {
	modules := map[uint64]string{}
	for r := f.Records(); ; {
		raw, err := r.Next()
		if err == io.EOF {
			return modules, nil
		}
		if err != nil {
			return modules, err
		}
		if raw.Type != format.TypeMmap && raw.Type != format.TypeMmap2 {
			continue
		}
		rec, err := f.Record(raw)
		m, ok := rec.(*format.Mmap)
		kernel := err == nil && ok && m.Misc&format.MiscCPUModeMask == format.MiscKernel
		if kernel && strings.HasPrefix(m.Filename, "/") {
			modules[m.Start] = m.Filename
		}
	}
}
