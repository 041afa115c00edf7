// This file makes recordings of many machines from recordings of one, for tests and measurements.

package recording

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"time"

	"gperf/format"
)

// MakeFleet writes n recordings to dir, below a directory per host, from the files of bases in turn. It returns the
// recordings' paths in order. Each recording is of another host, and of another boot if its base contains
// CLOCK_DATA.
func MakeFleet(dir string, bases []string, n int) (paths []string, err error) {
	var files [][]byte
	for _, base := range bases {
		b, err := os.ReadFile(base)
		if err != nil {
			return nil, err
		}
		files = append(files, b)
	}
	for i := range n {
		host := fmt.Sprintf("host%04d", i)
		b, err := OfHost(files[i%len(files)], host, time.Duration(i)*time.Hour)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", bases[i%len(files)], err)
		}
		path := filepath.Join(dir, host, "perf.data")
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, b, 0o666); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// OfHost returns a little-endian recording in file mode with another host, whose name must be at most 63 bytes, and
// a later time of day.
func OfHost(recording []byte, host string, later time.Duration) ([]byte, error) {
	b := bytes.Clone(recording)
	f, err := format.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	name, err := section(b, f, format.FeatureHostname)
	if err != nil {
		return nil, err
	}
	if len(name) < 4+64 {
		return nil, fmt.Errorf("a host name of %d bytes", len(name))
	}
	clear(name[4:])
	copy(name[4:], host)
	if clock, err := section(b, f, format.FeatureClockData); err == nil {
		le.PutUint64(clock[8:], le.Uint64(clock[8:])+uint64(later))
	}
	return b, nil
}

// section returns the bytes of a section of the recording b.
func section(b []byte, f *format.File, n format.Feature) ([]byte, error) {
	const bitmap = 72 // in the header
	set := binary.LittleEndian.Uint64(b[bitmap:])
	if set>>n&1 == 0 {
		return nil, fmt.Errorf("no section %d", n)
	}
	at := int(f.FeatureOffset()) + 16*bits.OnesCount64(set&(1<<n-1))
	off, size := binary.LittleEndian.Uint64(b[at:]), binary.LittleEndian.Uint64(b[at+8:])
	return b[off : off+size], nil
}
