package dso

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
)

// maxVDSO limits the vdso, in bytes; real ones have one or two pages.
const maxVDSO = 1 << 20

// readVDSO copies this process's own vdso out of its memory: an ELF image that
// exists as a file nowhere.
func readVDSO() ([]byte, error) {
	start, end, err := findVDSO()
	if err != nil {
		return nil, err
	}
	mem, err := os.Open("/proc/self/mem")
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
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return 0, 0, fmt.Errorf("find vdso: %w", err)
	}
	defer maps.Close()
	for sc := bufio.NewScanner(maps); sc.Scan(); {
		line := sc.Text()
		if !strings.HasSuffix(line, VDSO) {
			continue
		}
		if _, err := fmt.Sscanf(line, "%x-%x ", &start, &end); err != nil || end <= start || end-start > maxVDSO {
			return 0, 0, fmt.Errorf("find vdso: unexpected line %q", line)
		}
		return start, end, nil
	}
	return 0, 0, errors.New("find vdso: this process has none")
}
