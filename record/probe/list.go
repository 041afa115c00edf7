package probe

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"strings"

	"gperf/symbolize/dso"
)

// Functions returns the names of the functions that a file of code defines, as
// its symbol tables have them, in no order.
func Functions(path string) ([]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, plain(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	dynamic, dynErr := f.DynamicSymbols()
	if err != nil && dynErr != nil {
		return nil, dso.ErrNoSymbols
	}
	var names []string
	for _, s := range append(symbols, dynamic...) {
		if typ := elf.ST_TYPE(s.Info); (typ == elf.STT_FUNC || typ == elf.STT_GNU_IFUNC) && s.Section != elf.SHN_UNDEF && s.Name != "" {
			names = append(names, s.Name)
		}
	}
	return names, nil
}

// Markers returns the USDT probes of a file of code as PROVIDER:NAME, from the
// notes that sys/sdt.h leaves in .note.stapsdt.
func Markers(path string) ([]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, plain(err)
	}
	defer f.Close()
	section := f.Section(".note.stapsdt")
	if section == nil {
		return nil, nil
	}
	notes, err := section.Data()
	if err != nil {
		return nil, err
	}
	word := 8
	if f.Class == elf.ELFCLASS32 {
		word = 4
	}
	return markers(notes, f.ByteOrder, word), nil
}

// markers reads stapsdt notes: three addresses of so many bytes (of the place, of
// the section that prelink moves, of the semaphore), and three strings: provider,
// name, arguments.
func markers(notes []byte, order binary.ByteOrder, word int) (names []string) {
	for len(notes) >= 12 {
		nameLen, descLen := uint64(order.Uint32(notes)), uint64(order.Uint32(notes[4:]))
		desc := 12 + (nameLen+3)&^3
		next := desc + (descLen+3)&^3
		if desc+descLen > uint64(len(notes)) {
			break
		}
		strs := bytes.SplitN(notes[min(desc+uint64(3*word), desc+descLen):desc+descLen], []byte{0}, 3)
		if string(bytes.TrimRight(notes[12:12+nameLen], "\x00")) == "stapsdt" && len(strs) == 3 {
			names = append(names, string(strs[0])+":"+string(strs[1]))
		}
		notes = notes[min(next, uint64(len(notes))):]
	}
	return names
}

// plain says of what is no ELF file just that, without an offset.
func plain(err error) error {
	var bad *elf.FormatError
	if errors.As(err, &bad) && strings.Contains(bad.Error(), "bad magic") {
		return dso.ErrNotELF
	}
	return err
}
