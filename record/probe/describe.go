package probe

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Namer describes the places of probes by function names.
type Namer struct {
	finder Finder
	files  map[string]*file // by path; nil: unreadable
}

// Place returns the place of an installed probe in the format of perf probe --list:
// "ip_rcv+4", "nf_conntrack_in in nf_conntrack", "main%return in /bin/x".
func (n *Namer) Place(p *Installed) string {
	file, place := "", p.Place
	if i := strings.LastIndexByte(place, ':'); i >= 0 {
		file, place = place[:i], place[i+1:]
	}
	if p.Kind.User() {
		place = n.inFile(file, place)
	} else {
		place, file = n.inKernel(place, file)
	}
	if p.Kind.Return() {
		place += "%return"
	}
	if file != "" {
		place += " in " + file
	}
	return place
}

// PlaceOf returns the place of a probe that was just found.
func (n *Namer) PlaceOf(p *Probe) string {
	if p.Kind.User() {
		return n.Place(&Installed{Kind: p.Kind, Place: fmt.Sprintf("%s:%#x", p.Path, p.Off)})
	}
	place := (&Probe{Symbol: p.Symbol, Off: p.Off}).kernelPlace()
	if p.Module != "" {
		place = p.Module + ":" + place
	}
	return n.Place(&Installed{Kind: p.Kind, Place: place})
}

// inKernel names a place relative to _text, or an address.
func (n *Namer) inKernel(place, module string) (string, string) {
	base, offset, _ := strings.Cut(place, "+")
	addr, err := strconv.ParseUint(base, 0, 64)
	if base != "_text" && base != "_stext" && err != nil {
		return place, module
	}
	k, kerr := n.finder.kernel()
	if kerr != nil || k.text == 0 {
		return place, module
	}
	if err != nil {
		off, err := strconv.ParseUint(offset, 0, 64)
		if err != nil {
			return place, module
		}
		addr = k.bounds[base] + off
	}
	f, ok := k.at(addr)
	if !ok {
		return place, module
	}
	return withOffset(f.name, addr-f.addr), f.module
}

// at returns the function that contains an address, or the nearest one before it.
func (k *kernelCode) at(addr uint64) (best ksym, ok bool) {
	k.sort()
	i := k.behind(addr) - 1
	if i < 0 {
		return best, false
	}
	for i > 0 && k.sorted[i-1].addr == k.sorted[i].addr {
		i-- // of several names at one address, kallsyms' first one
	}
	return k.sorted[i], true
}

// behind returns the index of the first of the sorted functions that begins after addr.
func (k *kernelCode) behind(addr uint64) int {
	return sort.Search(len(k.sorted), func(i int) bool { return k.sorted[i].addr > addr })
}

func (k *kernelCode) sort() {
	if k.sorted == nil {
		k.sorted = slices.Clone(k.functions)
		slices.SortStableFunc(k.sorted, func(a, b ksym) int { return cmp.Compare(a.addr, b.addr) })
	}
}

// size returns the number of bytes up to the next function, 0 if there is none or addresses
// are hidden.
func (k *kernelCode) size(f ksym) uint64 {
	k.sort()
	if i := k.behind(f.addr); i < len(k.sorted) {
		return k.sorted[i].addr - f.addr
	}
	return 0
}

func withOffset(name string, off uint64) string {
	if off == 0 {
		return name
	}
	return fmt.Sprintf("%s+%d", name, off)
}

// inFile names an offset in a file of code.
func (n *Namer) inFile(file, place string) string {
	text, rest, _ := strings.Cut(place, "(") // the semaphore follows in parentheses
	off, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		return place
	}
	if rest != "" {
		rest = "(" + rest
	}
	if f := n.file(file); f != nil {
		if fn := f.at(off); fn != nil {
			return withOffset(fn.Symbol, off-fn.Off) + rest
		}
	}
	return fmt.Sprintf("%#x", off) + rest
}

// file is a file with its functions.
func (n *Namer) file(path string) *file {
	f, ok := n.files[path]
	if ok {
		return f
	}
	if n.files == nil {
		n.files = map[string]*file{}
	}
	f, err := openFile(path)
	if err == nil {
		err = f.readFunctions()
		f.Close()
	}
	if err != nil {
		f = nil
	}
	n.files[path] = f
	return f
}
