package report

import (
	"cmp"
	"encoding/binary"
	"strconv"

	"gperf/internal/text"
	"gperf/report/key"
)

// Keys that look at the symbol and the DSO of a place: sizes, and how far from
// the symbol's start it is.

// unknownSize is shown without a symbol or mapping.
const unknownSize = "unknown"

// sizeKey is a key of a size in bytes; size returns 0 if unknown.
func sizeKey(name, head string, size func(*places, *place) uint64) *SortKey {
	k := &SortKey{Name: name, Head: head, uses: usesPlace}
	k.ofPlace = func(p *places, pl *place, _ uint64) uint64 { return size(p, pl) }
	k.cmp = func(h *Hist, a, b *Entry) int { return cmp.Compare(size(h.places, b.place), size(h.places, a.place)) }
	k.append = func(h *Hist, b []byte, e *Entry, width int) []byte {
		n := size(h.places, e.place)
		if n == 0 {
			return append(text.AppendBlanks(b, width-len(unknownSize)), unknownSize...)
		}
		return text.AppendInt(b, int64(n), width)
	}
	return k
}

func symbolSize(_ *places, pl *place) uint64 {
	if sym := pl.frame.Sym(); sym != nil {
		return sym.End - sym.Start
	}
	return 0
}

func dsoSize(p *places, pl *place) uint64 {
	if pl.frame.Map == nil {
		return 0
	}
	return p.mapSize(pl.frame)
}

// offsetKey shows how far an address is from the symbol's start.
func offsetKey() *SortKey {
	k := &SortKey{Name: "symoff", Head: "Symbol Offset", uses: usesPlace | usesSymbol}
	k.ofPlace = func(_ *places, _ *place, ip uint64) uint64 { return ip }
	then := func(first func(*Hist, *Entry, *Entry) int) func(*Hist, *Entry, *Entry) int {
		return func(h *Hist, a, b *Entry) int {
			if c := first(h, a, b); c != 0 {
				return c
			}
			return cmp.Compare(int64(a.ip-b.ip), 0)
		}
	}
	k.cmp, k.sort = then(compareSymbol), then(compareName)
	k.append = func(_ *Hist, b []byte, e *Entry, width int) []byte {
		sym := e.place.frame.Sym()
		b = append(b, '[', e.Level, ']', ' ')
		if sym == nil {
			return appendHex(b, e.ip, width-len("[k] "))
		}
		b = append(append(b, sym.Name...), "+0x"...)
		return strconv.AppendUint(b, e.place.frame.Off(), 16)
	}
	return k
}

// numbersOf numbers the values of the keys for a place.
func (b *histBuilder) numbersOf(pl *place, ip uint64) int32 {
	b.buf = b.buf[:0]
	for _, k := range b.hist.layout.sorts {
		if k.ofPlace != nil {
			b.buf = binary.LittleEndian.AppendUint64(b.buf, k.ofPlace(b.hist.places, pl, ip))
		}
	}
	return b.identities.numbers.number(b.buf)
}

// processKey distinguishes processes, and shows the names of first threads.
func processKey() *SortKey {
	const head = "   Tgid:Command"
	k := &SortKey{Name: "tgid", Head: head, uses: usesPID, min: len(head)}
	k.cmp = func(_ *Hist, a, b *Entry) int { return cmp.Compare(b.Thread.PID, a.Thread.PID) }
	k.append = func(_ *Hist, b []byte, e *Entry, width int) []byte {
		b = append(text.AppendInt(b, int64(e.Thread.PID), 7), ':')
		return appendLeft(b, e.Thread.Leader().Comm, width-8)
	}
	return k
}

// commNoDigitKey distinguishes commands by names without digits.
func commNoDigitKey() *SortKey {
	return leftKey("comm_nodigit", "CommandNoDigit", usesNoDigit,
		func(_ *Hist, e *Entry) string { return key.NoDigits(e.Comm) })
}
