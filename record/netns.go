package record

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// NetworkNamespace returns the inode number of a network namespace, by number, path, or name, which
// `ip netns` lists, or the PID of a process in it.
func NetworkNamespace(name string) (uint32, error) {
	number, err := strconv.ParseUint(name, 10, 32)
	const first = 0xe0000000 // the kernel's numbers of namespaces are higher, PIDs lower
	if err == nil && number >= first {
		return uint32(number), nil
	}
	paths := []string{name, "/run/netns/" + name}
	if err == nil {
		paths = []string{fmt.Sprintf("/proc/%d/ns/net", number)}
	}
	for _, path := range paths {
		st, e := os.Stat(path)
		if e != nil {
			err = e
			continue
		}
		if sys, ok := st.Sys().(*syscall.Stat_t); ok && !st.IsDir() && sys.Ino >= first && sys.Ino>>32 == 0 {
			return uint32(sys.Ino), nil
		}
		err = fmt.Errorf("%s is not a network namespace", path)
	}
	if errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("no network namespace %s: `ip netns` lists names, `lsns -t net` processes", name)
	}
	return 0, err
}
