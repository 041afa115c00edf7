package runtimes

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"gperf/internal/dso"
)

// perl is Perl's interpreter in a program or library, built with threads.
type perl struct {
	version byte // 36 is 5.36
	context threadVariable
	run     ranges // of the native functions that run Perl functions
}

// perlWalk is where a thread's interpreter is.
//
//bpf:struct perl
type perlWalk struct{ Context threadVariable }

// Versions that the offsets below and in bpf/perl.h are valid for.
const (
	perlFirst = 36
	perlLast  = 40
)

// Offsets in objects, in bytes.
const (
	perlBody       = 0 // in all values: pointer to the rest
	perlFlags      = 12
	perlStash      = 32 // in the body of a function: the package, if perlNamed is set
	perlNameAt     = 56 // the function's name, or the glob with the name
	perlFile       = 64
	perlSequence   = 88 // the number of the statement around it
	perlCodeFlags  = 92
	perlCodeSize   = 96
	perlGlobName   = 32 // in the body of a glob
	perlGlobStash  = 40
	perlStashNames = 32 // in the body of a package: the name, or a list of names
	perlNameCount  = 60 // 0 if it is a name
	perlLength     = 4  // in a name
	perlNameText   = 8
)

//bpf:enum perlIs PERL_
//bpf:define perlLines PERL_LINES
//bpf:define perlTextSize PERL_TEXT_BYTES
const (
	perlNamed    = 0x8000    // perlCodeFlags: the function's body contains the name
	perlHasName  = 0x2000000 // perlFlags: the package is named
	perlUTF8     = 1         // flag after the text of a name: it is UTF-8, otherwise Latin-1
	perlLines    = 256       // of a function, which count as one function for BPF
	perlTextSize = 16        // bytes of the name of a file: names of evals differ in a number
	perlIsMain   = 1
	perlIsText   = 2
)

// findPerl returns the interpreter in a file, or nil if the file contains none.
func findPerl(im *dso.Image) (Runtime, error) {
	p := &perl{}
	var version uint64
	for name, s := range definedSymbols(im, ".dynsym") { // extensions need them
		switch name {
		case "PL_version":
			version = s.Value
		case "Perl_runops_standard", "Perl_runops_debug":
			p.run.add(s)
		}
	}
	if version == 0 || len(p.run) == 0 {
		return nil, nil
	}
	b, err := bytesAt(im, version, 1)
	if err == nil {
		p.version = b[0]
	}
	if p.version < perlFirst || p.version > perlLast {
		err = fmt.Errorf("%w 5.%d", errVersion, p.version)
	} else if p.context, err = findThreadVariable(im, "PL_current_context"); err != nil {
		err = errors.New("a build without threads")
	}
	return p, err
}

// String implements Runtime.
func (p *perl) String() string { return fmt.Sprintf("Perl 5.%d", p.version) }

// DSO implements Runtime.
func (p *perl) DSO() string { return dso.PerlName }

// Walk implements Runtime.
func (p *perl) Walk(bias uint64) Walk { return newWalk(kindPerl, &perlWalk{p.context.at(bias)}) }

// In implements Runtime.
func (p *perl) In(bias uint64) Process { return frameList{code: p, bias: bias, runs: p.run} }

// Function implements Runtime: a function is perlLines lines of one, whose number is frame.Native. Perl keeps no
// table of lines; the offset of an instruction is the offset of the line.
func (p *perl) Function(mem io.ReaderAt, frame Interpreted) (f *Function, err error) {
	at := frame.Code &^ 7
	switch frame.Code & 7 {
	case 0:
		f, err = perlFunction(mem, at, frame)
	case perlIsMain:
		f, err = perlText(mem, at, frame, "(main)")
	case perlIsText:
		f, err = perlText(mem, at, frame, "(eval)")
	default:
		err = errors.New("not a function")
	}
	if err != nil {
		return nil, err
	}
	f.Size = 2 * perlLines
	for i := range uint32(perlLines) {
		f.Lines = append(f.Lines, Line{2 * i, int32(uint32(frame.Native)*perlLines + i)})
	}
	return f, nil
}

// perlText reads the code with this name of a file or of a string.
func perlText(mem io.ReaderAt, file uint64, frame Interpreted, name string) (*Function, error) {
	r := &reader{mem: mem}
	b := r.bytes(file, perlTextSize)
	check := checkOf(frame.Code, le.Uint64(b), le.Uint64(b[8:]), uint64(frame.Native)) // perl_code in bpf/perl.h
	if err := frame.verify(check, r.err); err != nil {
		return nil, err
	}
	return &Function{Name: name, File: perlString(r, file)}, r.err
}

// perlFunction reads a function.
func perlFunction(mem io.ReaderAt, at uint64, frame Interpreted) (*Function, error) {
	r := &reader{mem: mem}
	body := r.word(at + perlBody)
	b := r.bytes(body, perlCodeSize)
	name, file, stash := le.Uint64(b[perlNameAt:]), le.Uint64(b[perlFile:]), le.Uint64(b[perlStash:])
	check := checkOf(body, name, file, uint64(le.Uint32(b[perlSequence:])), uint64(frame.Native))
	if err := frame.verify(check, r.err); err != nil {
		return nil, err
	}
	if le.Uint32(b[perlCodeFlags:])&perlNamed == 0 { // the name is in a glob
		glob := r.bytes(r.word(name+perlBody), perlGlobStash+8)
		name, stash = le.Uint64(glob[perlGlobName:]), le.Uint64(glob[perlGlobStash:])
	}
	f := &Function{Name: perlName(r, name)}
	if of := perlPackage(mem, stash); of != "" {
		f.Name = shown(of + "::" + f.Name)
	}
	f.File = perlString(r, file)
	return f, r.err
}

// perlPackage reads the name of a package, "" if it is unnamed.
func perlPackage(mem io.ReaderAt, stash uint64) string {
	r := &reader{mem: mem}
	head := r.bytes(stash, 16)
	if le.Uint32(head[perlFlags:])&perlHasName == 0 {
		return ""
	}
	b := r.bytes(le.Uint64(head[perlBody:]), perlNameCount+4)
	name := le.Uint64(b[perlStashNames:])
	if le.Uint32(b[perlNameCount:]) != 0 {
		name = r.word(name)
	}
	return perlName(r, name)
}

// perlName reads a name, "" if it is unreadable.
func perlName(r *reader, addr uint64) string {
	length := le.Uint32(r.bytes(addr+perlLength, 4))
	if length > 1<<20 {
		r.fail(errString)
		return ""
	}
	b := r.bytes(addr+perlNameText, int(length)+2)
	text := b[:min(length, maxName)]
	switch {
	case r.err != nil:
		return ""
	case b[length+1]&perlUTF8 == 0:
		return shown(decode(text, 1))
	}
	return shown(string(text))
}

// perlString reads a text that ends with a zero byte. The memory after the text need not be mapped.
func perlString(r *reader, addr uint64) string {
	const part = 64
	var text []byte
	for len(text) < maxName {
		b := r.bytes(addr, int(part-addr%part))
		if i := bytes.IndexByte(b, 0); i >= 0 {
			return shown(string(append(text, b[:i]...)))
		}
		text = append(text, b...)
		addr += uint64(len(b))
	}
	return shown(string(text))
}
