package script

import "gperf/symbolize/replay"

// A data source is union perf_mem_data_src of include/uapi/linux/perf_event.h.
// Its text is that of tools/perf/util/mem-events.c.

var (
	levels = [...]string{"N/A", "HIT", "MISS", "L1", "LFB/MAB", "L2", "L3", "Local RAM", "Remote RAM (1 hop)",
		"Remote RAM (2 hops)", "Remote Cache (1 hop)", "Remote Cache (2 hops)", "I/O", "Uncached"}
	levelNumbers = [...]string{1: "L1", 2: "L2", 3: "L3", 4: "L4", 5: "L2 MHB", 6: "Memory-side Cache", 7: "Unknown level 7",
		8: "Uncached", 9: "CXL", 10: "I/O", 11: "Any cache", 12: "LFB/MAB", 13: "RAM", 14: "PMEM", 15: "N/A"}
	hops       = [...]string{"N/A", "core, same node", "node, same socket", "socket, same board", "board", "unknown", "unknown", "unknown"}
	operations = [...]string{"N/A", "LOAD", "STORE", "PFETCH", "EXEC"}
	snoops     = [...]string{"N/A", "None", "Hit", "Miss", "HitM"}
	peers      = [...]string{"Fwd", "Peer"}
	tlbs       = [...]string{"N/A", "HIT", "MISS", "L1", "L2", "Walker", "Fault"}
)

const (
	hitBits     = 1<<1 | 1<<2 // of a level and of a TLB: hit, miss
	levelNumber = 15          // PERF_MEM_LVLNUM_NA
	// maxDataSource is where perf's buffer ends.
	maxDataSource = 99
)

// dataWidths follows how wide decoded data sources get. Batches are printed at
// the same time, but each must know how wide those before it made the column.
type dataWidths struct {
	fields []Field // by event
	widest int
	text   []byte
}

// before returns the width of the widest data source before the batch.
func (d *dataWidths) before(b *replay.Batch) int {
	widest := d.widest
	for i := range b.Samples {
		if s := &b.Samples[i]; d.fields[s.Event]&FieldDataSrc != 0 {
			d.text = appendDataSource(d.text[:0], s.DataSrc)
			d.widest = max(d.widest, len(d.text))
		}
	}
	return widest
}

// appendDataSource appends a data source in hexadecimal and in words.
func appendDataSource(b []byte, src uint64) []byte {
	start := len(b)
	b = appendHex(b, src, 16)
	b = append(b, " |OP "...)
	b = appendFirst(b, src&31, operations[:], "No")
	b = append(b, "|LVL "...)
	b = appendLevel(b, src)
	b = append(b, "|SNP "...)
	n := len(b)
	b = appendOr(b, src>>19&31, snoops[:])
	if peer := src >> 38 & 3; peer != 0 {
		if len(b) > n {
			b = append(b, " or "...)
		}
		b = appendOr(b, peer, peers[:])
	}
	b = orNA(b, n)
	b = append(b, "|TLB "...)
	n = len(b)
	b = orNA(appendOr(b, src>>26&127&^hitBits, tlbs[:]), n)
	if src>>26&2 != 0 {
		b = append(b, " hit"...)
	}
	if src>>26&4 != 0 {
		b = append(b, " miss"...)
	}
	b = append(b, "|LCK "...)
	b = appendFirst(b, src>>24&3, []string{"N/A", "Yes"}, "No")
	b = append(b, "|BLK "...)
	b = appendBlocked(b, src>>40&7)
	return b[:min(len(b), start+maxDataSource)]
}

func appendLevel(b []byte, src uint64) []byte {
	level, number := src>>5&(1<<14-1), src>>33&15
	switch {
	case number != 0 && number != levelNumber:
		if src>>37&1 != 0 {
			b = append(b, "Remote "...)
		}
		if hop := src >> 43 & 7; hop != 0 {
			b = append(append(b, hops[hop]...), ' ')
		}
		b = append(b, levelNumbers[number]...)
	case level&^(hitBits|1) != 0:
		b = appendOr(b, level&^(hitBits|1), levels[:])
	default:
		return append(b, "N/A"...)
	}
	switch {
	case level&2 != 0:
		return append(b, " hit"...)
	case level&4 != 0:
		return append(b, " miss"...)
	}
	return append(b, ' ')
}

func appendBlocked(b []byte, blocked uint64) []byte {
	if blocked == 0 || blocked&1 != 0 {
		return append(b, " N/A"...)
	}
	if blocked&2 != 0 {
		b = append(b, " Data"...)
	}
	if blocked&4 != 0 {
		b = append(b, " Addr"...)
	}
	return b
}

// appendOr appends the names of the bits that are set.
func appendOr(b []byte, bits uint64, names []string) []byte {
	n := len(b)
	for i, name := range names {
		if bits>>i&1 == 0 {
			continue
		}
		if len(b) > n {
			b = append(b, " or "...)
		}
		b = append(b, name...)
	}
	return b
}

// appendFirst appends the name of the lowest bit that is set, none for no bit.
func appendFirst(b []byte, bits uint64, names []string, none string) []byte {
	for i, name := range names {
		if bits>>i&1 != 0 {
			return append(b, name...)
		}
	}
	return append(b, none...)
}

// orNA appends "N/A" where nothing was appended since b was n long.
func orNA(b []byte, n int) []byte {
	if len(b) == n {
		return append(b, "N/A"...)
	}
	return b
}
