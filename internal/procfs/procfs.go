// Package procfs parses files of /proc that describe processes and kernel symbols, each in one place: see
// proc_pid_maps(5), proc_pid_status(5), proc_modules(5) and proc_kallsyms(5).
package procfs

import (
	"cmp"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Linux's PROT_READ, PROT_WRITE and PROT_EXEC.
const protRead, protWrite, protExec = 1, 2, 4

// Mapping is a line of /proc/PID/maps.
type Mapping struct {
	Start, End uint64 // ip
	Prot       int    // PROT_READ, PROT_WRITE, PROT_EXEC
	Shared     bool   // MAP_SHARED rather than MAP_PRIVATE
	Off        uint64 // in the file
	Major      uint32
	Minor      uint32
	Inode      uint64 // 0 for memory without a file
	Path       string // "" for anonymous memory; "[heap]" and the like name special memory
}

// Executable reports whether the mapping may contain code.
func (m Mapping) Executable() bool { return m.Prot&protExec != 0 }

// Maps returns the mappings of a process, by address. It reads them all at once, because the process
// may change them meanwhile.
func Maps(pid int) (iter.Seq[Mapping], error) {
	text, err := readFile("/proc/" + strconv.Itoa(pid) + "/maps")
	if err != nil {
		return nil, err
	}
	if text == "" {
		text = threadMaps(pid)
	}
	return ParseMaps(text), nil
}

// threadMaps returns the text of the mappings of a process whose first thread has exited: that thread's own is empty,
// as of a thread of the kernel.
func threadMaps(pid int) (text string) {
	tids, _ := Threads(pid)
	for i := 0; i < len(tids) && text == ""; i++ {
		text, _ = readFile("/proc/" + strconv.Itoa(tids[i]) + "/maps")
	}
	return text
}

// ParseMaps parses the text of a maps file; it skips lines that it cannot parse.
func ParseMaps(text string) iter.Seq[Mapping] {
	return func(yield func(Mapping) bool) {
		for line := range strings.Lines(text) {
			if m, ok := parseMapping(line); ok && !yield(m) {
				return
			}
		}
	}
}

func parseMapping(line string) (m Mapping, ok bool) {
	var f [5]string
	rest := strings.TrimSuffix(line, "\n")
	for i := range f {
		f[i], rest, _ = strings.Cut(rest, " ")
	}
	from, to, _ := strings.Cut(f[0], "-")
	major, minor, _ := strings.Cut(f[3], ":")
	var n [6]uint64
	for i, x := range [...]struct {
		s          string
		base, bits int
	}{{from, 16, 64}, {to, 16, 64}, {f[2], 16, 64}, {major, 16, 32}, {minor, 16, 32}, {f[4], 10, 64}} {
		var err error
		if n[i], err = strconv.ParseUint(x.s, x.base, x.bits); err != nil {
			return m, false
		}
	}
	if n[1] <= n[0] || len(f[1]) != 4 {
		return m, false
	}
	m = Mapping{Start: n[0], End: n[1], Shared: f[1][3] == 's', Off: n[2], Major: uint32(n[3]),
		Minor: uint32(n[4]), Inode: n[5],
		Path: unescape(strings.TrimLeft(rest, " "))}
	for i, p := range [...]int{protRead, protWrite, protExec} {
		if f[1][i] != '-' {
			m.Prot |= p
		}
	}
	return m, true
}

// unescape reverts the kernel's escaping of line feeds and backslashes in names.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return strings.NewReplacer(`\n`, "\n", `\\`, `\`, `\012`, "\n", `\134`, `\`).Replace(s)
}

// Status is /proc/PID/status of a process or thread.
type Status struct {
	Name    string // at most 15 bytes, as in the kernel's records
	Tgid    int
	PPid    int
	NStgid  []int // the PID in each PID namespace, the process's own namespace last
	Threads int   // number of the process's threads
	// MaxResident is the largest resident size that the process had, in bytes.
	MaxResident uint64
}

// MaxComm is the length of a thread's name in the kernel: TASK_COMM_LEN without the zero.
const MaxComm = 15

// StatusOf reads the status of a process or thread.
func StatusOf(id int) (Status, error) {
	text, err := readFile("/proc/" + strconv.Itoa(id) + "/status")
	if err != nil {
		return Status{}, err
	}
	return parseStatus(text), nil
}

func parseStatus(text string) (st Status) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":\t")
		switch key {
		case "Name":
			value = unescape(value)
			st.Name = value[:min(len(value), MaxComm)]
		case "Tgid":
			st.Tgid, _ = strconv.Atoi(value)
		case "PPid":
			st.PPid, _ = strconv.Atoi(value)
		case "NStgid":
			for word := range strings.FieldsSeq(value) {
				if n, err := strconv.Atoi(word); err == nil {
					st.NStgid = append(st.NStgid, n)
				}
			}
		case "VmHWM": // in KiB
			n, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			st.MaxResident = n << 10
		case "Threads":
			st.Threads, _ = strconv.Atoi(value)
			return st
		}
	}
	return st
}

// Switches returns how often a thread stopped running, and whether it sleeps now.
func Switches(tid int) (n uint64, asleep bool, err error) {
	text, err := readFile("/proc/" + strconv.Itoa(tid) + "/status")
	if err != nil {
		return 0, false, err
	}
	n, asleep = parseSwitches(text)
	return n, asleep, nil
}

func parseSwitches(text string) (n uint64, asleep bool) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":\t")
		switch key {
		case "State":
			asleep = strings.HasPrefix(value, "S") || strings.HasPrefix(value, "D")
		case "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches":
			count, _ := strconv.ParseUint(value, 10, 64)
			n += count
		}
	}
	return n, asleep
}

// Module is a kernel module and the addresses of the module's code.
type Module struct {
	Name  string
	Start uint64 // ip
	Size  uint64 // in bytes
}

// Modules returns the loaded modules whose addresses this user may see, by address.
func Modules() ([]Module, error) {
	b, err := os.ReadFile("/proc/modules")
	if err != nil {
		return nil, err
	}
	return parseModules(string(b)), nil
}

// parseModules parses lines "name size refs users state address". Since Linux 6.4 a module's parts are spread: the
// size is the sum of all parts, and the address belongs to the code, which ends at the latest where another module
// begins.
func parseModules(text string) (l []Module) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 6 {
			continue
		}
		size, err1 := strconv.ParseUint(f[1], 10, 64)
		addr, err2 := strconv.ParseUint(strings.TrimPrefix(f[5], "0x"), 16, 64)
		if err1 == nil && err2 == nil && addr != 0 {
			l = append(l, Module{f[0], addr, size})
		}
	}
	slices.SortFunc(l, func(a, b Module) int { return cmp.Compare(a.Start, b.Start) })
	for i := range len(l) - 1 {
		l[i].Size = min(l[i].Size, l[i+1].Start-l[i].Start)
	}
	return l
}
