package event

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"gperf/format"
	"gperf/record/probe"
	"gperf/record/probe/kernel"
	"gperf/record/tracefs"
)

// Listed is an existing event.
type Listed struct {
	Names []string // names for -e: the name, and its aliases
	Kind  ListKind
	Desc  string // "" if unknown
	// Event is the event itself, for kinds that the machine may not have.
	Event *Event
	// Terms are the kernel's terms of a PMU's event.
	Terms string
	// Tracepoint is "system/name" for events with a format in tracefs.
	Tracepoint string
}

// ListKind is a kind of events, named by the word that selects it.
type ListKind string

// The kinds, in the order of listing.
const (
	KindHardware      ListKind = "hw"
	KindSoftware      ListKind = "sw"
	KindCache         ListKind = "cache"
	KindPMU           ListKind = "pmu"
	KindRaw           ListKind = "raw"
	KindMemory        ListKind = "mem"
	KindTracepoint    ListKind = "tracepoint"
	KindProbe         ListKind = "probe"
	KindRawTracepoint ListKind = "raw_tracepoint"
	KindNetfilter     ListKind = "nf"
	KindPacket        ListKind = "packet"
	KindSpan          ListKind = "span"
	KindKprobe        ListKind = "kprobe"
	KindUprobe        ListKind = "uprobe"
	KindUSDT          ListKind = "usdt"
)

// Kinds are all kinds, in the order of listing.
var Kinds = []ListKind{KindHardware, KindSoftware, KindCache, KindPMU, KindRaw, KindMemory, KindTracepoint, KindProbe,
	KindRawTracepoint, KindNetfilter, KindPacket, KindSpan, KindKprobe, KindUprobe, KindUSDT}

var kindNames = map[ListKind]string{
	KindHardware: "Hardware event", KindSoftware: "Software event", KindCache: "Hardware cache event",
	KindPMU: "Kernel PMU event",
	KindRaw: "Raw hardware event descriptor", KindMemory: "Hardware breakpoint", KindTracepoint: "Tracepoint event",
	KindProbe: "Probe event", KindRawTracepoint: "Raw tracepoint event", KindKprobe: "Kernel function",
	KindUprobe: "Function", KindUSDT: "USDT probe", KindNetfilter: "Netfilter event",
	KindPacket: "Packet event", KindSpan: "Durations",
}

// String returns the kind's name in listings; perf's if perf has the kind.
func (k ListKind) String() string { return kindNames[k] }

// ListKindOf returns the kind for a word, including perf's words.
func ListKindOf(word string) (k ListKind, ok bool) {
	switch word {
	case "hardware":
		return KindHardware, true
	case "software":
		return KindSoftware, true
	case "hwcache", "cache":
		return KindCache, true
	case "rawtp":
		return KindRawTracepoint, true
	case "sdt":
		return KindUSDT, true
	case "kretprobe":
		return KindKprobe, true
	case "uretprobe":
		return KindUprobe, true
	}
	return ListKind(word), slices.Contains(Kinds, ListKind(word))
}

// Lister lists events. The zero value lists this machine's.
type Lister struct {
	Tracefs *tracefs.FS
	Root    string // directory with proc and sys; "": /
	// Notice, if set, receives which file the name is that a glob gives.
	Notice func(what error)

	files *probe.Resolver // of files of code; nil: not used yet
}

func (l *Lister) path(name string) string { return filepath.Join("/", l.Root, name) }

// List returns the events of a kind whose names match the glob, sorted by name
// within the kind. The glob of uprobe and usdt begins with a file, FILE:GLOB. An
// event of hw and cache may be one that this machine's PMU does not have.
func (l *Lister) List(kind ListKind, glob string) ([]Listed, error) {
	match, err := matcher(glob)
	if err != nil {
		return nil, err
	}
	var all []Listed
	switch kind {
	case KindHardware:
		all = named(kind, hardwareEvents, format.TypeHardware)
	case KindSoftware:
		all = named(kind, softwareEvents, format.TypeSoftware)
	case KindCache:
		for _, name := range cacheSpellings() {
			ev, _ := plainEvent(name)
			all = append(all, Listed{Names: []string{name}, Kind: kind, Event: &ev})
		}
	case KindPMU:
		all = l.pmus()
	case KindRaw:
		all = []Listed{{Names: []string{"rNNN"}, Kind: kind, Event: &Event{Type: format.TypeRaw}}}
	case KindMemory:
		all = []Listed{{Names: []string{"mem:<addr>[/len][:access]"}, Kind: kind}}
	case KindTracepoint, KindProbe:
		all, err = l.tracepoints(kind)
	case KindRawTracepoint:
		all, err = l.rawTracepoints()
	case KindNetfilter:
		all = []Listed{{Names: []string{NetfilterDrop}, Kind: kind, Desc: netfilterDesc}}
	case KindPacket:
		all = packetEvents(kind)
	case KindSpan:
		all = spanEvents(kind)
	case KindKprobe:
		word, _, _ := strings.Cut(glob, ":")
		all, err = l.kprobes(word)
	case KindUprobe, KindUSDT:
		if glob == "*" {
			return l.inAnyFile(kind), nil
		}
		return l.inFile(kind, glob)
	}
	return slices.DeleteFunc(all, func(e Listed) bool { return !slices.ContainsFunc(e.Names, match) }), err
}

// matcher returns a function that reports whether a name matches the glob, ignoring case;
// wildcards match slashes too.
func matcher(glob string) (func(name string) bool, error) {
	flat := strings.NewReplacer("/", "\x00").Replace
	glob = strings.ToLower(glob)
	if !strings.ContainsAny(glob, `?[\`) { // fast path for stars only; there may be 60,000 names
		parts := strings.Split(glob, "*")
		return func(name string) bool { return matchStars(parts, strings.ToLower(name)) }, nil
	}
	glob = flat(glob)
	if _, err := path.Match(glob, ""); err != nil {
		return nil, &SpecError{glob, tracefs.ErrGlob.Error()}
	}
	return func(name string) bool {
		ok, _ := path.Match(glob, flat(strings.ToLower(name)))
		return ok
	}, nil
}

// matchStars matches a name with the parts between a glob's stars.
func matchStars(parts []string, name string) bool {
	if len(parts) == 1 {
		return name == parts[0]
	}
	name, ok := strings.CutPrefix(name, parts[0])
	if !ok {
		return false
	}
	last := len(parts) - 1
	for _, p := range parts[1:last] {
		_, name, ok = strings.Cut(name, p)
		if !ok {
			return false
		}
	}
	return strings.HasSuffix(name, parts[last])
}

// softwareDesc describes the kernel's software events.
var softwareDesc = map[uint64]string{
	format.SWCPUClock:        "A timer of each CPU. Each sample is where the CPU was then",
	format.SWTaskClock:       "A timer that runs while the task does",
	format.SWPageFaults:      "Faults that give a page to a process, minor and major",
	format.SWContextSwitches: "Switches from one task to another",
	format.SWCPUMigrations:   "Tasks that moved to another CPU",
	format.SWMinorFaults:     "Page faults that took no reading from disk",
	format.SWMajorFaults:     "Page faults that took reading from disk",
	format.SWAlignmentFaults: "Accesses to unaligned memory that the kernel handled",
	format.SWEmulationFaults: "Instructions that the kernel emulated",
	format.SWDummy:           "Counts nothing; carries side-band records",
	format.SWBPFOutput:       "What BPF programs write to the ring",
	format.SWCgroupSwitches:  "Switches to a task of another cgroup",
}

// named lists the events of a map: perf's first name of each number, then its aliases.
func named(kind ListKind, names map[string]uint64, typ format.EventType) []Listed {
	byConfig := map[uint64][]string{}
	for name, config := range names {
		byConfig[config] = append(byConfig[config], name)
	}
	var l []Listed
	for config, names := range byConfig {
		slices.SortFunc(names, func(a, b string) int { return aliasRank(a) - aliasRank(b) })
		e := Listed{Names: names, Kind: kind, Event: &Event{Type: typ, Config: config}}
		if typ == format.TypeSoftware {
			e.Desc = softwareDesc[config]
		}
		l = append(l, e)
	}
	sortByName(l)
	return l
}

// aliasRank sorts the names that perf lists second after the others.
func aliasRank(name string) int {
	if slices.Contains([]string{"cycles", "branches", "cs", "faults", "migrations", "idle-cycles-frontend",
		"idle-cycles-backend"}, name) {
		return 1
	}
	return 0
}

func sortByName(l []Listed) {
	slices.SortFunc(l, func(a, b Listed) int { return strings.Compare(a.Names[0], b.Names[0]) })
}

// pmus lists the events of the kernel's PMUs.
func (l *Lister) pmus() (all []Listed) {
	at := Resolver{Sysfs: l.path(sysfsPMUs)}
	for _, p := range at.PMUs() {
		for _, name := range p.Events() {
			all = append(all, Listed{Names: []string{p.Name + "/" + name + "/"}, Kind: KindPMU,
				Terms: strings.TrimSpace(p.read("events/" + name))})
		}
	}
	sortByName(all)
	return all
}

// tracepoints lists the kernel's own tracepoints, or the tracepoints of probes.
func (l *Lister) tracepoints(kind ListKind) ([]Listed, error) {
	names, err := l.Tracefs.Names()
	if err != nil {
		return nil, err
	}
	probes := l.probes()
	var all []Listed
	for _, dir := range names {
		desc, isProbe := probes[dir]
		if isProbe == (kind == KindProbe) {
			all = append(all, Listed{Names: []string{strings.Replace(dir, "/", ":", 1)}, Kind: kind, Desc: desc,
				Tracepoint: dir})
		}
	}
	sortByName(all)
	return all, nil
}

// probes returns the definitions of existing probes, by their tracepoints' directories.
func (l *Lister) probes() map[string]string {
	probes := map[string]string{}
	all, _ := probe.List(l.Tracefs) // without permission, tracepoints are listed without definitions
	for _, p := range all {
		probes[p.Group+"/"+p.Event] = p.Definition()
	}
	return probes
}

// rawTracepoints lists the raw tracepoints in the kernel's BTF.
func (l *Lister) rawTracepoints() ([]Listed, error) {
	names, err := kernel.RawTracepoints(l.path(kernel.BTFDir))
	for i := range names {
		names[i] = kernel.RawPrefix + names[i]
	}
	return listed(KindRawTracepoint, names), err
}

// listed lists names, each once.
func listed(kind ListKind, names []string) (all []Listed) {
	slices.Sort(names)
	for _, n := range slices.Compact(names) {
		all = append(all, Listed{Names: []string{n}, Kind: kind})
	}
	return all
}

// kprobes lists the functions that can be probed, a module's functions also as
// MODULE:FUNCTION. word is kprobe or kretprobe.
func (l *Lister) kprobes(word string) ([]Listed, error) {
	at := probe.Resolver{Tracefs: l.Tracefs, Root: l.Root}
	if err := at.HaveKprobes(); err != nil {
		return nil, err
	}
	functions, err := at.KernelFunctions("", "*")
	all := make([]Listed, 0, len(functions))
	for _, f := range functions {
		e := Listed{Names: []string{word + ":" + f.Name}, Kind: KindKprobe}
		if f.Module != "" {
			e.Names = append(e.Names, word+":"+f.Module+":"+f.Name)
		}
		all = append(all, e)
	}
	return all, err
}

// packetEvents lists the events of packets that are no single tracepoint.
func packetEvents(kind ListKind) []Listed {
	return []Listed{
		{Names: []string{PacketDrops}, Kind: kind, Desc: "Lost packets: drops, resets, retransmits"},
		{Names: []string{TCDrop}, Kind: kind, Desc: "Packets that BPF programs of tc drop"},
		{Names: []string{XDPDrop}, Kind: kind, Desc: "Packets that XDP programs drop"},
	}
}

// spanEvents lists the forms of spans.
func spanEvents(kind ListKind) []Listed {
	return []Listed{
		{Names: []string{SpanPrefix + spanSyscalls}, Kind: kind, Desc: "Durations of system calls"},
		{Names: []string{SpanPrefix + "FUNCTION"}, Kind: kind, Desc: "Of calls of a kernel function, or a glob: ip_*"},
		{Names: []string{SpanPrefix + "FILE:FUNCTION"}, Kind: kind,
			Desc: "Of calls of a function, such as span:libc:malloc"},
		{Names: []string{SpanPrefix + "SYSTEM:NAME..SYSTEM:NAME[/key=FIELDS/]"}, Kind: kind,
			Desc: "From one tracepoint to another; gperf list -v 'block:*' has fields"},
	}
}

// commonUSDT is a file with USDT probes that each machine has.
const commonUSDT = "libc"

// inAnyFile lists the form of probes in files, and the USDT probes of libc.
func (l *Lister) inAnyFile(kind ListKind) []Listed {
	if kind == KindUprobe {
		return []Listed{{Names: []string{"uprobe:FILE:FUNCTION"}, Kind: kind,
			Desc: "gperf list 'uprobe:FILE:*' lists the functions of a file"}}
	}
	form := Listed{Names: []string{"usdt:FILE:PROVIDER:NAME"}, Kind: kind,
		Desc: "gperf list 'usdt:FILE:*' lists the probes of a file"}
	found, _ := l.inFile(kind, "usdt:"+commonUSDT+":*")
	return append([]Listed{form}, found...)
}

// WithPacket returns which of the listed events can have a packet in their samples: -e 'skb:kfree_skb flow dev'.
func (l *Lister) WithPacket(all []Listed) map[string]bool {
	has := map[string]bool{}
	var names []string
	for _, e := range all {
		switch {
		case e.Kind == KindPacket, e.Kind == KindNetfilter:
			has[e.Names[0]] = true
		case e.Kind == KindTracepoint:
			names = append(names, e.Names[0])
		}
	}
	events, _ := existing(names, l.Tracefs)
	for _, e := range WithPackets(events, l.Tracefs) {
		if e.HasPacket() {
			has[e.Name] = true
		}
	}
	return has
}

// inFile lists the possible probes in the file of FILE:GLOB.
func (l *Lister) inFile(kind ListKind, glob string) ([]Listed, error) {
	word, place, _ := strings.Cut(glob, ":")
	file, pattern, ok := cutFile(place)
	if !ok {
		return nil, &SpecError{glob, fmt.Sprintf("name a file: '%s:FILE:*'", string(kind))}
	}
	match, err := matcher(pattern)
	if err != nil {
		return nil, err
	}
	found, err := l.namesIn(kind, file)
	if err != nil {
		return nil, err
	}
	var matching []string
	for _, n := range found {
		_, short, _ := strings.Cut(n, ":") // a USDT probe without its provider
		if match(n) || kind == KindUSDT && match(short) {
			matching = append(matching, word+":"+file+":"+n)
		}
	}
	return listed(kind, matching), nil
}

// namesIn returns the functions or the USDT probes of a file of code.
func (l *Lister) namesIn(kind ListKind, file string) (names []string, err error) {
	if l.files == nil {
		l.files = &probe.Resolver{Notice: l.Notice}
	}
	if kind == KindUSDT {
		marks, err := l.files.USDT(file)
		for i := range marks {
			names = append(names, marks[i].String())
		}
		return names, err
	}
	functions, err := l.files.Functions(file)
	for i := range functions {
		names = append(names, functions[i].Name())
	}
	return names, err
}

// cutFile splits FILE:GLOB after the longest existing file, because both parts may contain
// colons; if no file exists, it splits at the first colon.
func cutFile(s string) (file, glob string, ok bool) {
	for i := len(s) - 1; i > 0; i-- {
		if s[i] != ':' {
			continue
		}
		file, glob, ok = s[:i], s[i+1:], true
		if _, err := os.Stat(file); err == nil {
			return file, glob, true
		}
	}
	return file, glob, ok
}
