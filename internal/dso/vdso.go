package dso

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"sync"

	"gperf/internal/procfs"
	"gperf/internal/procmem"
)

// maxVDSO limits the vdso, in bytes; real ones take one or two pages.
const maxVDSO = 1 << 20

var ownVDSO = sync.OnceValues(readVDSO)

// readVDSO copies the vdso out of this process's memory. It is an ELF image without a file.
func readVDSO() ([]byte, error) {
	start, end, err := findVDSO()
	if err != nil {
		return nil, err
	}
	mem, err := procmem.Open(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("read vdso: %w", err)
	}
	defer mem.Close()
	b := make([]byte, end-start)
	if _, err := mem.ReadAt(b, int64(start)); err != nil {
		return nil, fmt.Errorf("read vdso: %w", err)
	}
	return b, nil
}

func findVDSO() (start, end uint64, err error) {
	if bits.UintSize == 32 {
		return 0, 0, errors.New("find vdso: this process has the one of 32-bit programs")
	}
	maps, err := procfs.Maps(os.Getpid())
	if err != nil {
		return 0, 0, fmt.Errorf("find vdso: %w", err)
	}
	for m := range maps {
		if m.Path == VDSO && m.End-m.Start <= maxVDSO {
			return m.Start, m.End, nil
		}
	}
	return 0, 0, errors.New("find vdso: this process has none")
}
