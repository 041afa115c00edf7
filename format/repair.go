package format

import "bytes"

// Repair corrects records that the kernel spoils if several recorders listen, because it passes one
// record on from listener to listener (kernel/events/core.c):
//   - perf_event_ksymbol_output, perf_event_bpf_output and perf_event_text_poke_output add the size of
//     the listener's sample id to the record's size and leave it there. The second listener's record
//     is too long, and ends with old bytes of its ring;
//   - perf_event_mmap_output leaves the bit set that says that the record has a build ID, also for
//     listeners that did not ask for one and get device and inode.
type Repair struct {
	idSizes  map[Type]int // by type, size of the sample ids in bytes; -1: that differs
	buildIDs bool         // events ask for build IDs
}

// repaired are the types of records whose sizes are repaired, with the flags of events that ask for them.
var repaired = map[Type]AttrFlags{TypeKSymbol: FlagKSymbol, TypeBPFEvent: FlagBPFEvent, TypeTextPoke: FlagTextPoke}

// Add adds an event.
func (p *Repair) Add(a *Attr) {
	if p.idSizes == nil {
		p.idSizes = map[Type]int{}
	}
	for typ, flag := range repaired {
		if a.Flags&flag == 0 {
			continue
		}
		size := a.SampleIDSize()
		if before, others := p.idSizes[typ]; others && before != size {
			size = -1
		}
		p.idSizes[typ] = size
	}
	p.buildIDs = p.buildIDs || a.Flags&FlagBuildID != 0
}

// Concerns reports whether records of a type may need the repair.
func (p *Repair) Concerns(typ Type) bool {
	switch typ {
	case TypeKSymbol, TypeBPFEvent, TypeTextPoke:
		size, asked := p.idSizes[typ]
		return asked && size >= 0
	case TypeMmap2:
		return !p.buildIDs
	}
	return false
}

// Apply corrects the misc and the body of a record.
func (p *Repair) Apply(typ Type, misc *Misc, body *[]byte, order Order) {
	switch {
	case !p.Concerns(typ):
	case typ != TypeMmap2:
		if size := fieldsSize(typ, *body, order); size > 0 && size+p.idSizes[typ] < len(*body) {
			*body = (*body)[:size+p.idSizes[typ]]
		}
	case *misc&MiscMmapBuildID != 0 && hasDevice(*body, order):
		*misc &^= MiscMmapBuildID
	}
}

// fieldsSize returns the size of a record's own fields, as they say; 0 if they do not.
func fieldsSize(typ Type, body []byte, order Order) int {
	const (
		fixed    = 16 // KSYMBOL: address, length, type and flags. BPF_EVENT: type, flags, number and tag
		pokeHead = 12 // TEXT_POKE: address and two lengths
	)
	if len(body) < fixed {
		return 0
	}
	switch typ {
	case TypeBPFEvent:
		return fixed
	case TypeTextPoke:
		return roundUp(pokeHead + int(order.Uint16(body[8:])) + int(order.Uint16(body[10:])))
	}
	name := bytes.IndexByte(body[fixed:], 0)
	if name < 0 {
		return 0
	}
	return roundUp(fixed + name + 1)
}

func roundUp(n int) int { return (n + 7) &^ 7 }

// hasDevice reports whether a MMAP2 record has device and inode where its misc announces a build ID.
// The events did not ask for build IDs, but other tools may have added them to the file (perf inject).
// A device's major number is at the place of the ID's length, the minor, which has 20 bits, at that of
// the ID's first bytes.
func hasDevice(body []byte, order Order) bool {
	const (
		at      = 8 + 3*8 // pid and tid, start, length and offset come before
		longest = 20      // IDs of 16 and 20 bytes are the usual ones
		usual   = 16
		minors  = 1 << 20
	)
	if len(body) < at+8 {
		return false
	}
	size := body[at]
	switch {
	case size == 0 || size > longest || body[at+1]|body[at+2]|body[at+3] != 0:
		return true
	case size >= usual:
		return false
	}
	return order.Uint32(body[at+4:]) < minors
}
