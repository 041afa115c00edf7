package annotate

import (
	"fmt"
	"strconv"
	"strings"
)

// Place is what is annotated: a function, an offset in it, or an address. The
// zero value is nothing in particular.
type Place struct {
	text    string
	name    string
	off     uint64
	hasOff  bool
	addr    uint64
	hasAddr bool // the text may be an address
}

// ParsePlace reads a place as gperf script and the kernel write it: SYMBOL,
// SYMBOL+0x4bc, SYMBOL+0x4bc/0x900, 0xffffffff82043b0c, ffffffff82043b0c.
func ParsePlace(s string) (Place, error) {
	p := Place{text: s, name: s}
	if hex, ok := strings.CutPrefix(s, "0x"); ok || len(s) >= 4 {
		addr, err := strconv.ParseUint(hex, 16, 64)
		p.addr, p.hasAddr = addr, err == nil
		if ok && err != nil {
			return p, fmt.Errorf("%q is no address", s)
		}
	}
	// Names of C++ operators have a + as well.
	i := strings.LastIndex(s, "+0x")
	if i <= 0 {
		return p, nil
	}
	digits, _, _ := strings.Cut(s[i+3:], "/")
	off, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return p, fmt.Errorf("%q: %q is no offset", s, s[i+1:])
	}
	p.name, p.off, p.hasOff, p.hasAddr = s[:i], off, true, false
	return p, nil
}

func (p *Place) String() string { return p.text }

func (p *Place) isZero() bool { return p.text == "" }

// isAddress reports whether it is one address rather than a function.
func (p *Place) isAddress() bool { return p.hasOff || p.hasAddr }

// matches reports whether the place is in a function.
func (p *Place) matches(fn *function) bool {
	if s := fn.symbol(); s != nil && (s.Name == p.name || s.Raw == p.name || bare(s.Name) == p.name) {
		return true
	}
	if !p.hasAddr {
		return false
	}
	_, ok := p.in(fn)
	return ok
}

// in returns the offset of the place in a function that matches; false where it is
// the whole function. A process's address is one that samples tell of: only then
// it is known whose it was.
func (p *Place) in(fn *function) (off uint64, ok bool) {
	if p.hasOff {
		return p.off, true
	}
	if !p.hasAddr {
		return 0, false
	}
	if off, ok := fn.ips[p.addr]; ok {
		return off, true
	}
	s := fn.symbol()
	return p.addr - fn.start, fn.kernel && s != nil && p.addr-fn.start < s.End-s.Start
}

// bare is a C++ function's name without its parameters.
func bare(name string) string {
	if i := strings.IndexByte(name, '('); i > 0 {
		return name[:i]
	}
	return name
}

// UnknownError: the samples do not tell of the place.
type UnknownError struct {
	Name  string
	Names []string // of which they do
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("no sample tells of %s", e.Name)
}

// NoSamplesError: in the function itself no sample was taken.
type NoSamplesError struct {
	Name  string
	Calls uint64 // how many samples have it in their callchains
}

func (e *NoSamplesError) Error() string {
	if e.Name == "" {
		return "no sample was taken in a function that has a name"
	}
	return fmt.Sprintf("no sample was taken in %s itself", e.Name)
}

// OffsetError: the place lies behind the end of its function.
type OffsetError struct {
	Name string
	Size uint64 // of the function, in bytes
}

func (e *OffsetError) Error() string {
	return fmt.Sprintf("%s lies behind the end of the function, which has %#x bytes", e.Name, e.Size)
}
