package program

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gperf/internal/suggest"
	"gperf/record/probe/args"
)

// USDT is a USDT probe: a probe that the author of a program put into it with <sys/sdt.h>. Linkers keep it as a
// stapsdt note.
type USDT struct {
	Provider, Name string
	Args           string // locations of the arguments, in assembler syntax: "-4@%edi 8@$5"

	vaddr     uint64
	semaphore uint64 // vaddr of the counter of users; 0: none
}

func (u *USDT) String() string { return u.Provider + ":" + u.Name }

// USDT returns the USDT probes of a file of code.
func (l *Locator) USDT(name string) ([]USDT, error) {
	file, err := l.open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return file.readUSDT()
}

// findUSDT returns the places of the file's USDT probes that match a query.
func (s *search) findUSDT() ([]Site, error) {
	all, err := s.file.readUSDT()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, &FileError{s.file.path, errors.New("it has no USDT probes (`readelf -n` shows them as stapsdt)")}
	}
	provider, err := s.glob(cmp.Or(s.Provider, "*"))
	if err != nil {
		return nil, err
	}
	name, err := s.glob(s.Name)
	if err != nil {
		return nil, err
	}
	var l []Site
	providers := map[string]bool{}
	for _, u := range all {
		if !provider.MatchString(u.Provider) || !name.MatchString(u.Name) {
			continue
		}
		site, err := s.file.siteOf(u)
		if err != nil {
			return nil, err
		}
		providers[u.Provider] = true
		l = append(l, site)
	}
	if len(l) == 0 {
		return nil, s.noUSDT(all)
	}
	if s.Provider == "" && len(providers) > 1 && !strings.ContainsAny(s.Name, "*?[") {
		return nil, s.bad(fmt.Sprintf("several providers have this probe: name one (usdt:%s:PROVIDER:%s), or * for all",
			s.File, s.Name))
	}
	return l, nil
}

// noUSDT returns the error for a query that matches none of the file's USDT probes.
func (s *search) noUSDT(all []USDT) error {
	e := &FunctionError{File: s.file.path, Name: strings.TrimPrefix(s.Provider+":"+s.Name, ":"), USDT: true}
	var names []string
	for _, m := range all {
		name := m.String()
		if s.Provider == "" {
			name = m.Name
		}
		names = append(names, name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if e.Near = suggest.Names(e.Name, names); len(e.Near) == 0 {
		e.Why = "it has " + few(names)
	}
	return e
}

func (q *Query) glob(glob string) (*regexp.Regexp, error) {
	re, err := globExpr(glob)
	if err != nil {
		return nil, q.bad(err.Error())
	}
	return re, nil
}

// siteOf returns the place of a USDT probe.
func (f *File) siteOf(u USDT) (Site, error) {
	off, ok := f.code(u.vaddr)
	if !ok {
		return Site{}, &FileError{f.path, fmt.Errorf("the USDT probe %s is at %#x, outside the code", &u, u.vaddr)}
	}
	site := Site{Off: off, USDT: &u, Args: args.ParseNote(u.Args, f.Machine)}
	if u.semaphore != 0 {
		if site.Semaphore, ok = f.OffOfVaddr(u.semaphore); !ok {
			return Site{}, &FileError{f.path, fmt.Errorf("the semaphore of the USDT probe %s is at %#x, which is not "+
				"in the file", &u, u.semaphore)}
		}
	}
	return site, nil
}

// readUSDT reads the notes of <sys/sdt.h>.
func (f *File) readUSDT() ([]USDT, error) {
	s := f.Section(".note.stapsdt")
	if s == nil {
		return nil, nil
	}
	b, err := f.Data(s)
	if err != nil {
		return nil, &FileError{f.path, err}
	}
	// Tools such as prelink move sections without changing the notes: the difference of the
	// section's address is the offset to add.
	word, moved := 4, uint64(0)
	if f.Is64 {
		word = 8
	}
	base := f.Section(".stapsdt.base")
	var l []USDT
	for desc := range stapNotes(b) {
		m, noted, ok := decodeNote(desc, word)
		if !ok {
			continue
		}
		if base != nil {
			moved = base.Addr - noted
		}
		m.vaddr += moved
		if m.semaphore != 0 {
			m.semaphore += moved
		}
		l = append(l, m)
	}
	return l, nil
}

// stapNotes yields the descriptors of SystemTap's notes.
func stapNotes(b []byte) func(yield func([]byte) bool) {
	const (
		header  = 12
		stapSDT = 3
	)
	pad := func(n uint64) uint64 { return (n + 3) &^ 3 }
	return func(yield func([]byte) bool) {
		for len(b) >= header {
			namesz, descsz := uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:]))
			typ := binary.LittleEndian.Uint32(b[8:])
			desc := header + pad(namesz)
			if desc > uint64(len(b)) || descsz > uint64(len(b))-desc {
				return
			}
			if typ == stapSDT && string(b[header:header+namesz]) == "stapsdt\x00" && !yield(b[desc:desc+descsz]) {
				return
			}
			b = b[min(desc+pad(descsz), uint64(len(b))):]
		}
	}
}

// decodeNote decodes a descriptor: three addresses of word bytes and three strings.
func decodeNote(desc []byte, word int) (u USDT, base uint64, ok bool) {
	if len(desc) < 3*word {
		return u, 0, false
	}
	var addr [3]uint64
	for i := range addr {
		if word == 8 {
			addr[i] = binary.LittleEndian.Uint64(desc[8*i:])
		} else {
			addr[i] = uint64(binary.LittleEndian.Uint32(desc[4*i:]))
		}
	}
	text := strings.Split(string(desc[3*word:]), "\x00")
	if len(text) < 3 || text[0] == "" || text[1] == "" {
		return u, 0, false
	}
	return USDT{Provider: text[0], Name: text[1], Args: text[2], vaddr: addr[0], semaphore: addr[2]}, addr[1], true
}
