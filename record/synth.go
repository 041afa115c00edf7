package record

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/internal/dso"
)

// synth makes records that the kernel did not write, because their subjects existed before
// the recording: mappings of the kernel, processes and their mappings. They have no time, and
// so come before all others.
type synth struct {
	idSize   int  // size of the sample id at the end of each record
	data     bool // include mappings without code
	buildIDs bool // put build IDs into mappings
	omit     Synth
	spaces   bool // include namespaces of threads
	buf      []byte
	out      func([]byte) error
	known    map[fileID][]byte // cached build IDs
	files    map[string]bool   // names of mapped files, if set
	denied   int               // number of processes with unreadable mappings
}

// fileID names a file on this machine.
type fileID struct {
	maj, min uint32
	ino      uint64
}

const flushSize = 1 << 16

// Synth are kinds of synthesized records.
type Synth uint8

const (
	SynthTask Synth = 1 << iota
	SynthMmap
	SynthCgroup
	SynthAll = SynthTask | SynthMmap | SynthCgroup
)

// ParseSynth parses the argument of --synth, kinds with commas. Mappings are synthesized with
// their processes.
func ParseSynth(list string) (kinds Synth, err error) {
	for kind := range strings.SplitSeq(list, ",") {
		switch kind {
		case "no":
			return 0, nil
		case "task":
			kinds |= SynthTask
		case "mmap":
			kinds |= SynthTask | SynthMmap
		case "cgroup":
			kinds |= SynthCgroup
		case "all":
			kinds = SynthAll
		default:
			return 0, fmt.Errorf("%q is not one of no, task, mmap, cgroup, all", kind)
		}
	}
	return kinds, nil
}

// flush writes the records made so far, if they have at least so many bytes.
func (s *synth) flush(least int) error {
	if len(s.buf) < least || len(s.buf) == 0 {
		return nil
	}
	err := s.out(s.buf)
	s.buf = s.buf[:0]
	return err
}

// kernel makes the records of the kernel, its modules and BPF programs, as far as kallsyms
// and /proc/modules show them. It reports whether kallsyms did.
func (s *synth) kernel() (visible bool, err error) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return false, nil
	}
	defer f.Close()
	k, err := scanKallsyms(f)
	if err != nil {
		return false, fmt.Errorf("/proc/kallsyms: %w", err)
	}
	if k.text == 0 {
		return false, nil
	}
	m := format.Mmap{Misc: format.MiscKernel, PID: -1, Start: k.text, Len: k.end - k.text, Pgoff: k.text,
		Filename: "[kernel.kallsyms]" + k.name}
	if s.buildIDs {
		if id, err := dso.KernelBuildID(); err == nil {
			m.BuildID = id.Bytes()
		}
	}
	s.buf = m.Append(s.buf, s.idSize)
	if b, err := os.ReadFile("/proc/modules"); err == nil {
		s.modules(parseModules(b))
	}
	for _, sym := range k.bpf {
		s.buf = sym.Append(s.buf, s.idSize)
	}
	return true, s.flush(flushSize)
}

// kernelText is the kernel's own text according to kallsyms.
type kernelText struct {
	name      string // name of the symbol at text
	text, end uint64
	bpf       []format.KSymbol
}

// hiddenEnd is the end of the kernel if kallsyms hides it.
const hiddenEnd = ^uint64(0)

// ksymbolBPF is PERF_RECORD_KSYMBOL_TYPE_BPF.
const ksymbolBPF = 1

// scanKallsyms finds the start (_text, else _stext: perf's reference for relocation) and the
// end (_etext) of the kernel's code, and BPF programs. kallsyms has no sizes of BPF programs:
// each is assumed to extend to the next one, or to the end of its page.
func scanKallsyms(r io.Reader) (k kernelText, err error) {
	var stext uint64
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 1<<16), 1<<16)
	for sc.Scan() {
		line := sc.Bytes()
		if len(line) < 20 || line[16] != ' ' {
			continue
		}
		name := line[19:]
		switch {
		case name[0] != '_' && line[len(line)-1] != ']':
			continue // almost all symbols
		case string(name) == "_text":
			k.text = hex(line[:16])
		case string(name) == "_stext":
			stext = hex(line[:16])
		case string(name) == "_etext":
			k.end = hex(line[:16])
		case bytes.HasSuffix(name, []byte("\t[bpf]")):
			name = bytes.TrimSuffix(name, []byte("\t[bpf]"))
			k.bpf = append(k.bpf, format.KSymbol{Addr: hex(line[:16]), Type: ksymbolBPF, Name: string(name)})
		}
	}
	k.name = "_text"
	if k.text == 0 {
		k.name, k.text = "_stext", stext
	}
	if k.end <= k.text { // hidden or implausible: assume that it extends to the modules
		k.end = hiddenEnd
	}
	slices.SortFunc(k.bpf, func(a, b format.KSymbol) int {
		if a.Addr < b.Addr {
			return -1
		}
		return 1
	})
	for i := range k.bpf {
		b := &k.bpf[i]
		end := (b.Addr | 0xfff) + 1
		if i+1 < len(k.bpf) {
			end = min(end, k.bpf[i+1].Addr)
		}
		b.Len = uint32(end - b.Addr)
	}
	return k, sc.Err()
}

func hex(b []byte) uint64 {
	n, _ := strconv.ParseUint(string(b), 16, 64)
	return n
}

// module is a line of /proc/modules.
type module struct {
	name        string
	addr, bytes uint64
}

// file returns the module's file, or its name in brackets if none is installed.
func (m module) file(paths map[string]string) string {
	if path, ok := paths[m.name]; ok {
		return path
	}
	return "[" + m.name + "]"
}

// parseModules parses lines "name size refs users state address"; it skips those with a
// hidden address. Since Linux 6.4 a module's parts are spread: the size is the sum of all
// parts, and the address belongs to its code. The code ends at the latest where another
// module begins.
func parseModules(b []byte) (l []module) {
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 6 {
			continue
		}
		size, err1 := strconv.ParseUint(f[1], 10, 64)
		addr, err2 := strconv.ParseUint(strings.TrimPrefix(f[5], "0x"), 16, 64)
		if err1 == nil && err2 == nil && addr != 0 {
			l = append(l, module{f[0], addr, size})
		}
	}
	slices.SortFunc(l, func(a, b module) int { return cmp.Compare(a.addr, b.addr) })
	for i := range len(l) - 1 {
		l[i].bytes = min(l[i].bytes, l[i+1].addr-l[i].addr)
	}
	return l
}

func (s *synth) modules(l []module) {
	if len(l) == 0 {
		return
	}
	paths := modulePaths()
	for _, m := range l {
		r := format.Mmap{Misc: format.MiscKernel, PID: -1, Start: m.addr, Len: m.bytes, Filename: m.file(paths)}
		if s.buildIDs {
			if id, err := dso.ModuleBuildID(m.name); err == nil {
				r.BuildID = id.Bytes()
			}
		}
		s.buf = r.Append(s.buf, s.idSize)
	}
}

// modulePaths returns the files of the installed modules by module name, in which _ replaces
// - of the file name.
func modulePaths() map[string]string {
	var u unix.Utsname
	unix.Uname(&u)
	root := "/lib/modules/" + unix.ByteSliceToString(u.Release[:])
	paths := map[string]string{}
	b, err := os.ReadFile(root + "/modules.dep")
	if err != nil {
		return paths
	}
	for line := range strings.Lines(string(b)) {
		file, _, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		if !strings.HasPrefix(file, "/") {
			file = root + "/" + file
		}
		name, _, _ := strings.Cut(filepath.Base(file), ".ko")
		paths[strings.ReplaceAll(name, "-", "_")] = file
	}
	return paths
}

// process makes the records of a process: its threads, and its mappings. If the process has
// exited meanwhile, the records are incomplete.
func (s *synth) process(pid int) error {
	st, err := readStatus(pid)
	if err != nil {
		return nil
	}
	tids, err := threadsOf(pid)
	if err != nil {
		return nil
	}
	for _, tid := range tids {
		comm, parent := st.name, st.ppid
		if tid != pid {
			t, err := readStatus(tid)
			if err != nil {
				continue
			}
			comm, parent = t.name, pid
		}
		s.thread(format.Fork{PID: int32(pid), TID: int32(tid), PPID: int32(parent), PTID: int32(parent)}, comm)
		if tid == pid && s.omit&SynthMmap == 0 {
			s.maps(pid)
		}
	}
	return s.flush(flushSize)
}

func (s *synth) thread(f format.Fork, comm string) {
	f.Ran = true
	s.buf = f.Append(s.buf, s.idSize)
	if s.spaces {
		n := namespaces(f.PID, f.TID)
		s.buf = n.Append(s.buf, s.idSize)
	}
	c := format.Comm{PID: f.PID, TID: f.TID, Comm: comm}
	s.buf = c.Append(s.buf, s.idSize)
}

// status is the content of /proc/PID/status.
type status struct {
	name string
	tgid int
	ppid int
}

// maxComm is the maximum length of a thread's name in the kernel's records.
const maxComm = 15

// processOf returns the process of a thread.
func processOf(tid int) (int, error) {
	st, err := readStatus(tid)
	return st.tgid, err
}

func readStatus(id int) (st status, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", id))
	if err != nil {
		return st, err
	}
	return parseStatus(b), nil
}

func parseStatus(b []byte) (st status) {
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":\t")
		switch key {
		case "Name":
			value = unescape(value)
			st.name = value[:min(len(value), maxComm)]
		case "Tgid":
			st.tgid, _ = strconv.Atoi(value)
		case "PPid":
			st.ppid, _ = strconv.Atoi(value)
			return st
		}
	}
	return st
}

// unescape reverts /proc's escaping of line feeds and backslashes in names.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return strings.NewReplacer(`\n`, "\n", `\\`, `\`, `\012`, "\n", `\134`, `\`).Replace(s)
}

// maps makes the records of a process's mappings.
func (s *synth) maps(pid int) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if errors.Is(err, fs.ErrPermission) {
		s.denied++
	}
	if err != nil {
		return
	}
	for line := range strings.Lines(string(b)) {
		m, ok := parseMap(line)
		if !ok || m.Prot&format.ProtExec == 0 && !(s.data && m.Prot&unix.PROT_READ != 0) {
			continue
		}
		m.PID, m.TID = int32(pid), int32(pid)
		if m.Ino != 0 && strings.HasPrefix(m.Filename, "/") {
			if s.buildIDs {
				m.BuildID = s.buildID(pid, &m)
			} else if s.files != nil {
				s.files[m.Filename] = true
			}
		}
		s.buf = m.Append(s.buf, s.idSize)
	}
}

// parseMap parses a line of /proc/PID/maps: see proc_pid_maps(5).
func parseMap(line string) (m format.Mmap, ok bool) {
	var f [5]string
	rest := strings.TrimSuffix(line, "\n")
	for i := range f {
		f[i], rest, _ = strings.Cut(rest, " ")
	}
	from, to, _ := strings.Cut(f[0], "-")
	maj, min, _ := strings.Cut(f[3], ":")
	var n [6]uint64
	for i, x := range [...]struct {
		s    string
		base int
	}{{from, 16}, {to, 16}, {f[2], 16}, {maj, 16}, {min, 16}, {f[4], 10}} {
		var err error
		if n[i], err = strconv.ParseUint(x.s, x.base, 64); err != nil {
			return m, false
		}
	}
	if n[1] <= n[0] || len(f[1]) != 4 {
		return m, false
	}
	m = format.Mmap{V2: true, Misc: format.MiscUser, Start: n[0], Len: n[1] - n[0], Pgoff: n[2],
		Maj: uint32(n[3]), Min: uint32(n[4]), Ino: n[5],
		Filename: unescape(strings.TrimLeft(rest, " "))}
	for i, p := range [...]uint32{unix.PROT_READ, unix.PROT_WRITE, unix.PROT_EXEC} {
		if f[1][i] != '-' {
			m.Prot |= p
		}
	}
	m.Flags = unix.MAP_PRIVATE
	if f[1][3] == 's' {
		m.Flags = unix.MAP_SHARED
	}
	if m.Prot&format.ProtExec == 0 {
		m.Misc |= format.MiscMmapData
	}
	if m.Filename == "" {
		m.Filename = "//anon" // as the kernel names it
	}
	return m, true
}

// buildID returns the build ID of a mapping's file, nil if it has none or cannot be read. The
// process may see another file under that name than gperf does: buildID reads the file
// through the process's root, if that is the mapped file, else through the mapping itself.
func (s *synth) buildID(pid int, m *format.Mmap) []byte {
	key := fileID{maj: m.Maj, min: m.Min, ino: m.Ino}
	if id, ok := s.known[key]; ok {
		return id
	}
	path := fmt.Sprintf("/proc/%d/root%s", pid, m.Filename)
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || st.Ino != m.Ino {
		path = fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, m.Start, m.Start+m.Len)
	}
	var id []byte
	if b, err := dso.BuildIDOf(path); err == nil {
		id = b.Bytes()
	}
	s.known[key] = id
	return id
}
