// Package fields names the values of samples' fields: the registers of an architecture, kinds of branches, the
// sources of memory accesses (data_src), and system calls.
package fields

import (
	"cmp"
	"strings"
)

// DataSource is the origin of the data of a memory access: union perf_mem_data_src of
// include/uapi/linux/perf_event.h. The texts are perf's (tools/perf/util/mem-events.c).
type DataSource uint64

func (d DataSource) bits(shift, width uint) uint64 { return uint64(d) >> shift & (1<<width - 1) }

// Level returns the bits of mem_lvl.
func (d DataSource) Level() uint64 { return d.bits(5, 14) }

// Snoop returns the bits of mem_snoop.
func (d DataSource) Snoop() uint64 { return d.bits(19, 5) }

// Lock returns the bits of mem_lock.
func (d DataSource) Lock() uint64 { return d.bits(24, 2) }

// TLB returns the bits of mem_dtlb.
func (d DataSource) TLB() uint64 { return d.bits(26, 7) }

// Block returns the bits of mem_blk.
func (d DataSource) Block() uint64 { return d.bits(40, 3) }

const (
	memHit, memMiss   = 1 << 1, 1 << 2 // bits of mem_lvl and mem_dtlb
	memLevelNumberNA  = 0xf
	memLockedNA       = 1 << 0
	memLocked         = 1 << 1
	memBlockedNA      = 1 << 0
	memBlockedData    = 1 << 1
	memBlockedAddress = 1 << 2
)

var (
	memLevels = []string{"N/A", "HIT", "MISS", "L1", "LFB/MAB", "L2", "L3", "Local RAM", "Remote RAM (1 hop)",
		"Remote RAM (2 hops)", "Remote Cache (1 hop)", "Remote Cache (2 hops)", "I/O", "Uncached"}
	memLevelNumbers = map[uint64]string{1: "L1", 2: "L2", 3: "L3", 4: "L4", 5: "L2 MHB", 6: "Memory-side Cache",
		7: "Unknown level 7", 8: "Uncached", 9: "CXL", 10: "I/O", 11: "Any cache", 12: "LFB/MAB", 13: "RAM",
		14: "PMEM", 15: "N/A"}
	memHops    = []string{"", "core, same node", "node, same socket", "socket, same board", "board"}
	memSnoops  = []string{"N/A", "None", "Hit", "Miss", "HitM"}
	memSnoopsX = []string{"Fwd", "Peer"}
	memTLBs    = []string{"N/A", "HIT", "MISS", "L1", "L2", "Walker", "Fault"}
)

// words appends the names of the set bits.
func words(list []string, bits uint64, names []string) []string {
	for i, name := range names {
		if bits>>i&1 != 0 {
			list = append(list, name)
		}
	}
	return list
}

// LevelText returns the level of the memory hierarchy, and hit or miss.
func (d DataSource) LevelText() string {
	result := ""
	switch level := d.Level(); {
	case level&memHit != 0:
		result = "hit"
	case level&memMiss != 0:
		result = "miss"
	}
	if n := d.bits(33, 4); n != 0 && n != memLevelNumberNA {
		s := ""
		if d.bits(37, 1) != 0 {
			s = "Remote "
		}
		if hops := d.bits(43, 3); hops > 0 && hops < uint64(len(memHops)) {
			s += memHops[hops] + " "
		}
		return s + memLevelNumbers[n] + " " + result
	}
	list := words(nil, d.Level()&^(1|memHit|memMiss), memLevels)
	if len(list) == 0 {
		return "N/A"
	}
	return strings.Join(list, " or ") + " " + result
}

// SnoopText returns the result of snooping other caches.
func (d DataSource) SnoopText() string {
	list := words(words(nil, d.Snoop(), memSnoops), d.bits(38, 2), memSnoopsX)
	if len(list) == 0 {
		return "N/A"
	}
	return strings.Join(list, " or ")
}

// TLBText returns the level that translated the address, and hit or miss.
func (d DataSource) TLBText() string {
	tlb := d.TLB()
	s := cmp.Or(strings.Join(words(nil, tlb&^(memHit|memMiss), memTLBs), " or "), "N/A")
	if tlb&memHit != 0 {
		s += " hit"
	}
	if tlb&memMiss != 0 {
		s += " miss"
	}
	return s
}

// LockText returns whether the access was locked.
func (d DataSource) LockText() string {
	switch lock := d.Lock(); {
	case lock&memLockedNA != 0:
		return "N/A"
	case lock&memLocked != 0:
		return "Yes"
	}
	return "No"
}

// BlockText returns the reason why the access was blocked. The text begins with a blank,
// as in perf.
func (d DataSource) BlockText() string {
	block := d.Block()
	if block == 0 || block&memBlockedNA != 0 {
		return " N/A"
	}
	s := ""
	if block&memBlockedData != 0 {
		s += " Data"
	}
	if block&memBlockedAddress != 0 {
		s += " Addr"
	}
	return s
}
