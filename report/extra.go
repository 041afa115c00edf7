package report

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"

	"gperf/format"
	"gperf/internal/session"
	"gperf/internal/text"
	"gperf/report/key"
)

// extra holds the fields that only a few keys read: fields of a sample besides
// address and callchain, or one of the branches.
type extra struct {
	flags       uint64         // of the branch
	from, to    *session.Frame // of the branch
	data        *session.Frame // the frame of Addr
	code        *session.Frame // the frame of IP, of memory accesses
	line        cacheLine      // of data
	is32        bool           // the program is a 32-bit one
	addr        uint64
	phys        uint64
	weight      uint64
	source      uint64 // perf_mem_data_src
	time        uint64
	cgroup      uint64
	dataPage    uint64
	codePage    uint64
	transaction uint64
	parallelism uint64
	socket      int64            // -1 if unknown
	ins, stage  uint16           // latencies besides the weight
	level       byte             // of data
	path        string           // of cgroup
	container   string           // of cgroup, key.Missing without one
	pod         string           // as container
	unit        string           // as container
	origin      *session.Origin  // of the recording
	derived     *key.Group       // the values of layout.derived, nil without
	namespace   format.Namespace // of cgroups
}

// appendIdentity appends the identity of the values of the keys: the values themselves for a
// stack, the numbers that perf compares for an entry.
func (l *layout) appendIdentity(b []byte, x *extra, frame func(*SortKey, *session.Frame) uint64) []byte {
	for _, k := range l.sorts {
		switch {
		case k.value != nil:
			b = binary.LittleEndian.AppendUint64(b, k.value(x))
		case k.frame != nil:
			b = binary.LittleEndian.AppendUint64(b, frame(k, k.frame(x)))
		}
	}
	return b
}

// numberKey describes a key whose values are numbers.
type numberKey struct {
	name, head   string
	min          int  // width of the column
	biggestFirst bool // perf's order of the values
	value        func(*extra) uint64
	text         func([]byte, *Entry) []byte // appends the value; nil if the caller of key sets append
}

func (n numberKey) key() *SortKey {
	k := &SortKey{Name: n.name, Head: n.head, uses: usesExtra, min: n.min, value: n.value}
	k.cmp = func(_ *Hist, a, b *Entry) int {
		if n.biggestFirst {
			a, b = b, a
		}
		return cmp.Compare(n.value(b.extra), n.value(a.extra))
	}
	k.append = func(_ *Hist, b []byte, e *Entry, width int) []byte {
		start := len(b)
		b = n.text(b, e)
		return text.AppendBlanks(b, width-(len(b)-start))
	}
	return k
}

// appendValue makes a text of a key's number.
func decimal(value func(*Entry) uint64) func([]byte, *Entry) []byte {
	return func(b []byte, e *Entry) []byte { return strconv.AppendUint(b, value(e), 10) }
}

// word makes a text of a key that shows one of a few words.
func word(text func(*extra) string) func([]byte, *Entry) []byte {
	return func(b []byte, e *Entry) []byte { return append(b, text(e.extra)...) }
}

// extraKeys are keys of fields of any sample.
var extraKeys = []*SortKey{
	numberKey{
		name:  "socket",
		head:  "Socket",
		min:   6,
		value: func(x *extra) uint64 { return uint64(x.socket) },
		text:  func(b []byte, e *Entry) []byte { return fmt.Appendf(b, "%6.3d", e.extra.socket) },
	}.key(),
	numberKey{
		name:         "local_weight",
		head:         "Local Weight",
		min:          12,
		biggestFirst: true,
		value:        func(x *extra) uint64 { return x.weight },
		text:         decimal(func(e *Entry) uint64 { return e.extra.weight }),
	}.key(),
	numberKey{
		name:         "weight",
		head:         "Weight",
		min:          12,
		biggestFirst: true,
		value:        func(x *extra) uint64 { return x.weight },
		text:         decimal(func(e *Entry) uint64 { return e.extra.weight * e.Self.Samples }),
	}.key(),
	numberKey{
		name:         "transaction",
		head:         "Transaction",
		min:          27,
		biggestFirst: true,
		value:        func(x *extra) uint64 { return x.transaction },
		text:         appendTransaction,
	}.key(),
	cgroupKey(),
	cgroupIDKey(),
	textKey("container", "Container", func(x *extra) string { return x.container }),
	textKey("pod", "Pod", func(x *extra) string { return x.pod }),
	textKey("unit", "Unit", func(x *extra) string { return x.unit }),
	ipcKey("ipc_null", "-      -"),
	timeKey(),
	pageSizeKey("code_page_size", "Code Page Size", 0, func(x *extra) uint64 { return x.codePage }),
	numberKey{
		name:         "local_ins_lat",
		head:         "Local INSTR Latency",
		min:          13,
		biggestFirst: true,
		value:        func(x *extra) uint64 { return uint64(x.ins) },
		text:         decimal(func(e *Entry) uint64 { return uint64(e.extra.ins) }),
	}.key(),
	numberKey{
		name:         "ins_lat",
		head:         "INSTR Latency",
		min:          13,
		biggestFirst: true,
		value:        func(x *extra) uint64 { return uint64(x.ins) },
		text:         decimal(func(e *Entry) uint64 { return uint64(e.extra.ins) * e.Self.Samples }),
	}.key(),
	numberKey{
		name:         "local_p_stage_cyc",
		head:         "Local Retire Latency",
		min:          13,
		biggestFirst: true,
		value:        func(x *extra) uint64 { return uint64(x.stage) },
		text:         decimal(func(e *Entry) uint64 { return uint64(e.extra.stage) }),
	}.key(),
	numberKey{
		name:         "p_stage_cyc",
		head:         "Retire Latency",
		min:          13,
		biggestFirst: true,
		value:        func(x *extra) uint64 { return uint64(x.stage) },
		text:         decimal(func(e *Entry) uint64 { return uint64(e.extra.stage) * e.Self.Samples }),
	}.key(),
	addressKey(),
	offsetKey(),
	parallelismKey,
	processKey(),
}

// aliases are other names of keys.
var aliases = map[string]string{"local_retire_lat": "local_p_stage_cyc", "retire_lat": "p_stage_cyc"}

// transactions are the names of PERF_TXN_ flags from bit 0 on
// (include/uapi/linux/perf_event.h).
var transactions = [...]string{"EL ", "TX ", "SYNC ", "ASYNC ", "RETRY ", "CON ", "CAP-WRITE ", "CAP-READ "}

func appendTransaction(b []byte, e *Entry) []byte {
	const sync, async, abortShift = 1 << 2, 1 << 3, 32
	t := e.extra.transaction
	for i, name := range transactions {
		if t>>i&1 != 0 {
			b = append(b, name...)
		}
	}
	if t != 0 && t&(sync|async) == 0 {
		b = append(b, "NEITHER "...)
	}
	if abort := t >> abortShift; abort != 0 {
		b = strconv.AppendUint(append(b, ':'), abort, 16)
	}
	return b
}

func cgroupKey() *SortKey {
	text := func(e *Entry) string {
		switch {
		case e.extra.cgroup == 0:
			return "N/A"
		case e.extra.path == "":
			return "unknown"
		}
		return e.extra.path
	}
	k := numberKey{
		name:  "cgroup",
		head:  "Cgroup",
		value: func(x *extra) uint64 { return x.cgroup },
	}.key()
	k.width = func(_ *Hist, e *Entry) int { return len(text(e)) }
	k.append = func(_ *Hist, b []byte, e *Entry, _ int) []byte { return append(b, text(e)...) }
	return k
}

// leftKey makes a key of a text that is aligned left.
func leftKey(name, head string, uses uses, text func(*Hist, *Entry) string) *SortKey {
	return &SortKey{Name: name, Head: head, uses: uses,
		cmp:    func(h *Hist, a, b *Entry) int { return strings.Compare(text(h, b), text(h, a)) },
		width:  func(h *Hist, e *Entry) int { return len(text(h, e)) },
		append: func(h *Hist, b []byte, e *Entry, width int) []byte { return appendLeft(b, text(h, e), width) }}
}

// textKey makes a key of a text that few samples have different ones of.
func textKey(name, head string, text func(*extra) string) *SortKey {
	k := leftKey(name, head, usesExtra, func(_ *Hist, e *Entry) string { return text(e.extra) })
	k.value = func(x *extra) uint64 { return maphash.String(textSeed, text(x)) }
	return k
}

// derivedKey makes a key of package key's derived ones.
func derivedKey(name string) *SortKey {
	k := textKey(name, name, func(x *extra) string { return x.derived.Value(name).Text })
	k.derived = true
	byText := k.cmp
	k.cmp = func(h *Hist, a, b *Entry) int {
		x, y := a.extra.derived.Value(name), b.extra.derived.Value(name)
		if x.Numeric && y.Numeric {
			return cmp.Compare(x.Number, y.Number)
		}
		return byText(h, a, b)
	}
	return k
}

// textSeed makes the identities of texts. Orders do not depend on them.
var textSeed = maphash.MakeSeed()

// cgroupIDKey shows the cgroup namespace by device and inode, 32 bits each.
func cgroupIDKey() *SortKey {
	k := &SortKey{Name: "cgroup_id", Head: "cgroup id (dev/inode)", uses: usesExtra, min: 20,
		value: func(x *extra) uint64 { return x.namespace.Dev<<32 ^ x.namespace.Ino }}
	k.cmp = func(_ *Hist, a, b *Entry) int {
		an, bn := a.extra.namespace, b.extra.namespace
		return cmp.Or(cmp.Compare(an.Dev, bn.Dev), cmp.Compare(an.Ino, bn.Ino))
	}
	k.append = func(_ *Hist, b []byte, e *Entry, _ int) []byte {
		return fmt.Appendf(b, "%d/%#x", e.extra.namespace.Dev, e.extra.namespace.Ino)
	}
	return k
}

// timeKey pads the column only if another follows.
func timeKey() *SortKey {
	k := numberKey{
		name:  "time",
		head:  "Time",
		min:   12,
		value: func(x *extra) uint64 { return x.time },
	}.key()
	k.width = func(h *Hist, _ *Entry) int {
		if h.opts.Nanosecs {
			return 16
		}
		return 12
	}
	k.append = func(h *Hist, b []byte, e *Entry, _ int) []byte { return appendTime(b, e.extra.time, h.opts.Nanosecs) }
	return k
}

// appendTime appends seconds with six digits, or nine.
func appendTime(b []byte, ns uint64, all bool) []byte {
	const second = 1e9
	b = strconv.AppendUint(b, ns/second, 10)
	fraction := strconv.AppendUint(nil, second+ns%second, 10)
	fraction[0] = '.'
	if !all {
		fraction = fraction[:len(".123456")]
	}
	return append(b, fraction...)
}

// addressKey is the address of the sample, or of a caller.
func addressKey() *SortKey {
	k := &SortKey{Name: "addr", Head: "Address", uses: usesAddress, min: len("0x") + hexWidth}
	k.cmp = func(_ *Hist, a, b *Entry) int { return cmp.Compare(int64(b.place.frame.IP-a.place.frame.IP), 0) }
	k.append = func(_ *Hist, b []byte, e *Entry, width int) []byte {
		n := len(b)
		b = strconv.AppendUint(append(b, "0x"...), e.place.frame.IP, 16)
		return text.AppendBlanks(b, width-(len(b)-n))
	}
	return k
}

// pageSizeKey shows the size of a page as perf does (get_page_size_name of
// tools/perf/util/event.c).
func pageSizeKey(name, head string, min int, size func(*extra) uint64) *SortKey {
	return numberKey{
		name:  name,
		head:  head,
		min:   min,
		value: size,
		text: func(b []byte, e *Entry) []byte {
			n := size(e.extra)
			if n == 0 {
				return append(b, "N/A"...)
			}
			unit := 0
			for ; n >= 1024 && unit < len("KMGTPE"); n /= 1024 {
				unit++
			}
			b = strconv.AppendUint(b, n, 10)
			if unit == 0 {
				return append(b, 'B')
			}
			return append(b, "KMGTPE"[unit-1])
		},
	}.key()
}

// originKeys say which recording a sample is from. Fields of tracepoints may use the same names.
var originKeys = []*SortKey{originKey("host", "Host"), originKey("file", "File"), originKey("boot", "Boot")}

func originKey(name, head string) *SortKey {
	return textKey(name, head, func(x *extra) string { return x.origin.Part(name) })
}

// ipcKey makes a column that only perf annotate fills: perf report shows dashes.
func ipcKey(name, none string) *SortKey {
	k := &SortKey{Name: name, Head: "IPC   [IPC Coverage]", uses: usesSymbol, cmp: compareSymbol, min: 20}
	k.append = func(_ *Hist, b []byte, _ *Entry, width int) []byte { return appendLeft(b, none, width) }
	return k
}
