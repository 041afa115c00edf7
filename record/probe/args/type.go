// Package args resolves probe arguments, in the syntax of perf-probe(1), to the kernel's fetchargs
// (Documentation/trace/kprobetrace.rst): parameters of kernel functions by BTF, variables of programs by DWARF,
// arguments of USDT probes by their notes.
package args

import (
	"fmt"
	"math"
	"strings"
)

// Kind is the kind of a type.
type Kind uint8

// Kinds of types. Typedefs and qualifiers are not separate kinds.
const (
	Void Kind = iota
	Int
	Enum // prints like Unsigned, in hexadecimal
	Float
	Pointer
	Array
	Struct // or union
	Func
	Unknown // declared only, or specific to another language
)

// Type is a type in C's terms.
type Type struct {
	Name   string // "struct sk_buff", "" for pointers and arrays without a typedef
	Kind   Kind
	Size   int64 // of a value in bytes; 0: unknown
	Signed bool  // for an Int
	Len    int64 // number of elements of an Array

	elem   func() *Type
	fields func() []Field
}

// String returns the type in the format of perf probe --vars: "struct sk_buff*", "char[]",
// where nested arrays are one.
func (t *Type) String() string {
	marks := ""
	for range maxNesting {
		if t.Name != "" || t.elem == nil {
			break
		}
		mark := "*"
		if t.Kind == Array {
			if mark = "[]"; strings.HasPrefix(marks, mark) {
				mark = ""
			}
		}
		marks = mark + marks
		t = t.elem()
	}
	return t.Name + marks
}

// Elem returns the target type of a pointer, or the element type of an array.
func (t *Type) Elem() *Type {
	if t.elem == nil {
		return void
	}
	return t.elem()
}

// Field is a member of a struct or union; the name of an anonymous one is empty.
type Field struct {
	Name string
	Type *Type
	Bit  int64 // offset in bits from the struct's first bit, the lowest of a byte first
	Bits int64 // size of a bit-field; 0: not a bit-field
}

// maxNesting limits the nesting of anonymous structs.
const maxNesting = 32

// Field finds a member by name, also in anonymous members.
func (t *Type) Field(name string) (Field, bool) { return t.field(name, maxNesting) }

func (t *Type) field(name string, depth int) (Field, bool) {
	if t.fields == nil || depth == 0 {
		return Field{}, false
	}
	for _, f := range t.fields() {
		if f.Name == name {
			return f, true
		}
		if f.Name != "" {
			continue
		}
		if in, ok := f.Type.field(name, depth-1); ok {
			in.Bit += f.Bit
			return in, true
		}
	}
	return Field{}, false
}

// FieldNames returns the names that Field finds, in order, except members without bytes.
func (t *Type) FieldNames() []string { return t.fieldNames(maxNesting) }

func (t *Type) fieldNames(depth int) (l []string) {
	if t.fields == nil || depth == 0 {
		return nil
	}
	for _, f := range t.fields() {
		switch {
		case f.Name == "":
			l = append(l, f.Type.fieldNames(depth-1)...)
		case f.Type.Size > 0:
			l = append(l, f.Name)
		}
	}
	return l
}

var void = &Type{Name: "void", Kind: Void}

func unknown(name string) *Type { return &Type{Name: name, Kind: Unknown} }

func pointer(size int64, elem func() *Type) *Type {
	return &Type{Kind: Pointer, Size: size, elem: elem}
}

func array(n int64, elem *Type) *Type {
	t := &Type{Kind: Array, Len: n, elem: func() *Type { return elem }}
	if n > 0 && elem.Size > 0 && n <= math.MaxInt64/elem.Size {
		t.Size = n * elem.Size
	}
	return t
}

var function = &Type{Name: "(function_type)", Kind: Func}

// Var is a variable, or another value with a name and a type.
type Var struct {
	Name   string
	Type   *Type
	Param  bool
	Global bool
	Where  Where
	Err    error // why it has no location
}

// Where is the location of a value: a register, an address, or a constant.
type Where struct {
	// Base is a fetcharg: "%di", "$arg1", "\3", "+8(%sp)"; "" is an address of the program, a
	// vaddr.
	Base string
	// Mem means that the value is in memory, Off bytes after the address in Base; otherwise
	// Base is the value.
	Mem bool
	Off int64
	// Pieces, if any, are the locations of the value's parts, in order.
	Pieces []Piece
}

// Piece is a part of a value that is stored in several places.
type Piece struct {
	Where
	Size int64
	Err  error // why it has no location
}

// Scope holds the names that are valid at one place of the code.
type Scope struct {
	Function string
	Vars     []Var // inner ones before outer ones, globals last
	Return   *Type // the function's return type; for a Go function, type of the first result

	// For a program: the file offset at which the scope is valid, and the difference from a vaddr to the offset of
	// @+OFFSET, which counts from where the file's first byte would be if it were mapped together with this code.
	Off  uint64
	Bias int64
}

// Lookup returns the variable of that name, nil if there is none.
func (s *Scope) Lookup(name string) *Var {
	for i := range s.Vars {
		if s.Vars[i].Name == name {
			return &s.Vars[i]
		}
	}
	return nil
}

// Socket returns the parameter that is a struct sock * for the names sk and sock, by which the kernel's developers
// call it, whatever the parameter's name is (rx_sk of skb:kfree_skb); nil for other names, and if there is no or
// more than one.
func (s *Scope) Socket(name string) (found *Var) {
	if name != "sk" && name != "sock" {
		return nil
	}
	for i := range s.Vars {
		if v := &s.Vars[i]; v.Param && v.Type != nil && v.Type.String() == "struct sock*" {
			if found != nil {
				return nil
			}
			found = v
		}
	}
	return found
}

// Names returns the names of the variables.
func (s *Scope) Names() (l []string) {
	for _, v := range s.Vars {
		l = append(l, v.Name)
	}
	return l
}

// NoDebugError means that debug information for locations is missing.
type NoDebugError struct {
	File string // or "the kernel"
	Lack string // "DWARF", "BTF", "BTF of FUNCTION"
	Err  error
}

func (e *NoDebugError) Error() string {
	s := fmt.Sprintf("%s has no %s", e.File, e.Lack)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}
func (e *NoDebugError) Unwrap() error { return e.Err }
