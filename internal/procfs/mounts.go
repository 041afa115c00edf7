package procfs

import (
	"strconv"
	"strings"
)

// Mount is a line of /proc/PID/mountinfo.
type Mount struct {
	Major, Minor uint32
	Point        string // below the root of the process
	Type         string // of the file system
}

// Mounts returns the mounts that a process sees; see proc_pid_mountinfo(5). Of two at one point, the later one is seen.
func Mounts(pid int) ([]Mount, error) {
	text, err := readFile("/proc/" + strconv.Itoa(pid) + "/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseMounts(text), nil
}

// parseMounts skips lines that it cannot parse.
func parseMounts(text string) (l []Mount) {
	for line := range strings.Lines(text) {
		before, after, _ := strings.Cut(line, " - ")
		typ, _, _ := strings.Cut(after, " ")
		f := strings.Fields(before)
		if len(f) < 5 {
			continue
		}
		major, minor, _ := strings.Cut(f[2], ":")
		maj, err := strconv.ParseUint(major, 10, 32)
		if err != nil {
			continue
		}
		if min, err := strconv.ParseUint(minor, 10, 32); err == nil {
			l = append(l, Mount{uint32(maj), uint32(min), unescapeMount.Replace(f[4]), typ})
		}
	}
	return l
}

var unescapeMount = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// MountOf returns the mount that a path without links is in; nil if there is none.
func MountOf(l []Mount, path string) (in *Mount) {
	for i := range l {
		m := &l[i]
		below := m.Point == "/" || path == m.Point || strings.HasPrefix(path, m.Point+"/")
		if below && (in == nil || len(m.Point) >= len(in.Point)) {
			in = m
		}
	}
	return in
}
