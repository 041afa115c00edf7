package srcline

import (
	"cmp"
	"slices"
)

// span is the addresses from lo to hi, exclusive.
type span struct{ lo, hi uint64 }

// claim says that addresses belong to an owner, a number of at least 0.
type claim struct {
	span
	owner int32
}

// piece is the addresses from start to the next piece's start, with their owner, or -1 if they have none.
type piece struct {
	addr  uint64
	owner int32
}

// resolveClaims gives each address to the highest owner that claims it, and appends the pieces to out, which is empty.
// It sorts the claims.
func resolveClaims(claims []claim, out []piece) []piece {
	slices.SortFunc(claims, func(a, b claim) int {
		if a.lo != b.lo {
			return cmp.Compare(a.lo, b.lo)
		}
		return int(a.owner - b.owner) // both are at least 0
	})
	put := func(addr uint64, owner int32) {
		switch n := len(out); {
		case n > 0 && out[n-1].addr == addr:
			out[n-1].owner = owner
		case n > 0 && out[n-1].owner == owner:
		default:
			out = append(out, piece{addr, owner})
		}
	}
	var open heap
	for len(claims) > 0 || len(open) > 0 {
		if len(claims) > 0 && (len(open) == 0 || claims[0].lo < open[0].hi) {
			open.push(claims[0])
			put(claims[0].lo, open[0].owner)
			claims = claims[1:]
			continue
		}
		// The highest claim ends here. Other claims may have ended before.
		end := open.pop().hi
		for len(open) > 0 && open[0].hi <= end {
			open.pop()
		}
		if len(open) > 0 {
			put(end, open[0].owner)
		} else {
			put(end, -1)
		}
	}
	return out
}

// ownerOf returns the owner of addr, or -1.
func ownerOf(pieces []piece, addr uint64) int32 {
	i, found := slices.BinarySearchFunc(pieces, addr, func(p piece, addr uint64) int {
		return cmp.Compare(p.addr, addr)
	})
	switch {
	case found:
		return pieces[i].owner
	case i > 0:
		return pieces[i-1].owner
	}
	return -1
}

// heap is a binary heap of claims, with the highest owner on top.
type heap []claim

func (h *heap) push(c claim) {
	*h = append(*h, c)
	l := *h
	for i := len(l) - 1; i > 0; {
		up := (i - 1) / 2
		if l[up].owner >= l[i].owner {
			break
		}
		l[up], l[i] = l[i], l[up]
		i = up
	}
}

func (h *heap) pop() claim {
	l := *h
	top, last := l[0], len(l)-1
	l[0] = l[last]
	l = l[:last]
	*h = l
	for i := 0; ; {
		next := 2*i + 1
		if next >= last {
			return top
		}
		if next+1 < last && l[next+1].owner > l[next].owner {
			next++
		}
		if l[i].owner >= l[next].owner {
			return top
		}
		l[i], l[next] = l[next], l[i]
		i = next
	}
}
