package probe

import (
	"fmt"
	"strconv"
	"strings"

	"gperf/record/probe/kernel"
	"gperf/record/probe/program"
)

// Namer describes the places of probes by function names.
type Namer struct {
	kernel kernel.Symbols
	files  map[string]*program.File // by path; nil: unreadable
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
	if err != nil {
		off, err := strconv.ParseUint(offset, 0, 64)
		if err != nil {
			return place, module
		}
		addr = n.kernel.Bound(base) + off
	}
	f, ok := n.kernel.At(addr)
	if !ok {
		return place, module
	}
	return withOffset(f.Name, addr-f.Addr), f.Module
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
		if fn := f.At(off); fn != nil {
			return withOffset(fn.Symbol, off-fn.Off) + rest
		}
	}
	return fmt.Sprintf("%#x", off) + rest
}

// file returns a file, including the functions of the file.
func (n *Namer) file(path string) *program.File {
	f, ok := n.files[path]
	if ok {
		return f
	}
	if n.files == nil {
		n.files = map[string]*program.File{}
	}
	f, err := program.Open(path)
	if err == nil {
		err = f.ReadFunctions()
		f.Close()
	}
	if err != nil {
		f = nil
	}
	n.files[path] = f
	return f
}
