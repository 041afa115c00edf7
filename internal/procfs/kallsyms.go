package procfs

import (
	"bufio"
	"bytes"
	"io"
	"iter"
	"slices"
	"strings"
)

// Kallsyms is the file of the kernel's symbols.
const Kallsyms = "/proc/kallsyms"

// Symbol is a line of /proc/kallsyms: of the kernel, a module or a BPF program.
type Symbol struct {
	Addr  uint64 // ip; 0 if the kernel hides it from this user
	Type  byte   // as nm(1) shows it: T, t, D, …
	Label string // NAME or NAME\t[MODULE]
}

// Name returns the symbol's name.
func (s Symbol) Name() string {
	name, _, _ := strings.Cut(s.Label, "\t")
	return name
}

// Module returns the name of the symbol's module, "" for the kernel itself, "bpf" for a BPF program.
func (s Symbol) Module() string {
	_, module, _ := strings.Cut(s.Label, "\t")
	return strings.Trim(module, "[]")
}

// IsFunction reports whether the symbol is a function.
func (s Symbol) IsFunction() bool { return strings.IndexByte("tTwW", s.Type) >= 0 }

// Symbols returns the symbols of a kallsyms file in file order, and skips other lines. An error ends the sequence.
// Labels share the memory of a part of the file: a kernel lists 200,000 symbols.
func Symbols(r io.Reader) iter.Seq2[Symbol, error] {
	return parseLines(r, func(chunk []byte) iter.Seq[string] { return strings.Lines(string(chunk)) })
}

// SymbolsWithSuffix is Symbols for the few whose labels end with one of these suffixes; it allocates no
// memory for the others.
func SymbolsWithSuffix(r io.Reader, suffixes ...string) iter.Seq2[Symbol, error] {
	return parseLines(r, func(chunk []byte) iter.Seq[string] {
		return func(yield func(string) bool) {
			for line := range bytes.Lines(chunk) {
				if hasSuffix(line, suffixes) && !yield(string(line)) {
					return
				}
			}
		}
	})
}

// parseLines parses those lines of a kallsyms file that lines returns of each chunk.
func parseLines(r io.Reader, lines func(chunk []byte) iter.Seq[string]) iter.Seq2[Symbol, error] {
	return func(yield func(Symbol, error) bool) {
		for chunk, err := range chunks(r) {
			if err != nil {
				yield(Symbol{}, err)
				return
			}
			for line := range lines(chunk) {
				if s, ok := parseSymbol(line); ok && !yield(s, nil) {
					return
				}
			}
		}
	}
}

// hasSuffix reports whether a line ends with one of the suffixes.
func hasSuffix(line []byte, suffixes []string) bool {
	line = bytes.TrimSuffix(line, []byte("\n"))
	return slices.ContainsFunc(suffixes, func(s string) bool {
		n := len(line) - len(s)
		return n >= 0 && string(line[n:]) == s
	})
}

// chunks returns the complete lines of a file, many at once, valid until the next ones.
func chunks(r io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		chunk := make([]byte, chunkSize)
		for rest, last := 0, false; !last; { // rest: bytes of an unfinished line, at the start of chunk
			n, err := io.ReadFull(r, chunk[rest:])
			last = err == io.EOF || err == io.ErrUnexpectedEOF
			if err != nil && !last {
				yield(nil, err)
				return
			}
			text := chunk[:rest+n]
			end := len(text)
			if !last {
				end = bytes.LastIndexByte(text, '\n') + 1
			}
			if !yield(text[:end], nil) {
				return
			}
			if rest = copy(chunk, text[end:]); rest == len(chunk) {
				yield(nil, bufio.ErrTooLong)
				return
			}
		}
	}
}

// chunkSize is longer than any line, in bytes.
const chunkSize = 1 << 16

// parseSymbol parses a line "address type label". It reads the address itself, because package strconv takes more
// time, and a kernel lists 200,000 symbols.
func parseSymbol(line string) (s Symbol, ok bool) {
	n := 0 // digits
	for ; n < len(line); n++ {
		digit, ok := hexDigit(line[n])
		if !ok {
			break
		}
		s.Addr = s.Addr<<4 | digit
	}
	line = strings.TrimSuffix(line, "\n")
	if n == 0 || n > 16 || len(line) < n+4 || line[n] != ' ' || line[n+2] != ' ' {
		return Symbol{}, false
	}
	s.Type, s.Label = line[n+1], line[n+3:]
	return s, true
}

func hexDigit(c byte) (uint64, bool) {
	switch {
	case '0' <= c && c <= '9':
		return uint64(c - '0'), true
	case 'a' <= c && c <= 'f':
		return uint64(c-'a') + 10, true
	case 'A' <= c && c <= 'F':
		return uint64(c-'A') + 10, true
	}
	return 0, false
}
