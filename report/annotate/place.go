package annotate

import (
	"fmt"
	"strconv"
	"strings"
)

// Place selects the code to annotate: a function, an offset in it, or an address. The zero
// value means all functions.
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
			return p, fmt.Errorf("%q is not an address", s)
		}
	}
	// Names of C++ operators contain a + as well.
	i := strings.LastIndex(s, "+0x")
	if i <= 0 {
		return p, nil
	}
	digits, _, _ := strings.Cut(s[i+3:], "/")
	off, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return p, fmt.Errorf("%q: %q is not an offset", s, s[i+1:])
	}
	p.name, p.off, p.hasOff, p.hasAddr = s[:i], off, true, false
	return p, nil
}

func (p *Place) String() string { return p.text }

func (p *Place) isZero() bool { return p.text == "" }

// IsAddress reports whether it is one address rather than a function, as far as the text says.
func (p *Place) IsAddress() bool { return p.hasOff || strings.HasPrefix(p.text, "0x") }

// mayBeAddress reports whether it is one address, or a text that could be one: dead is also a name.
func (p *Place) mayBeAddress() bool { return p.hasOff || p.hasAddr }

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

// in returns the offset of the place in a matching function; ok is false if the
// place is the whole function. A user address must occur in a sample, since
// only samples say which process it belongs to.
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

// bare returns a C++ function's name without parameters.
func bare(name string) string {
	if i := strings.IndexByte(name, '('); i > 0 {
		return name[:i]
	}
	return name
}

// UnknownError says that no sample is in the place.
type UnknownError struct {
	Name  string
	Names []string // functions with samples
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("no samples in %s", e.Name)
}

// NoSamplesError says that only callees of the function were sampled.
type NoSamplesError struct {
	Name  string
	Calls uint64 // number of samples with it in the callchain
}

func (e *NoSamplesError) Error() string {
	if e.Name == "" {
		return "no samples in functions with a name"
	}
	return fmt.Sprintf("no samples in %s itself", e.Name)
}

// OffsetError says that the place lies after the end of the function.
type OffsetError struct {
	Name string
	Size uint64 // of the function, in bytes
}

func (e *OffsetError) Error() string {
	return fmt.Sprintf("%s lies after the end of the function, which has %#x bytes", e.Name, e.Size)
}
