// Package vars answers "which value is where?": at the entry of a function of
// the kernel by BTF, at any address of a program by DWARF. Where something is,
// is said in the kernel's words for it, the fetchargs of
// Documentation/trace/kprobetrace.rst; package probe puts them together.
package vars

import (
	"fmt"
	"math"
	"strings"
)

// Kind is what values of a type are.
type Kind uint8

// Kinds of types. Names for types and their qualifiers are no kinds of their own.
const (
	Void Kind = iota
	Int
	Enum // prints like Unsigned, in hexadecimal
	Float
	Pointer
	Array
	Struct // or union
	Func
	Unknown // declared only, or of another language's kind
)

// Type is a type as C has it.
type Type struct {
	Name   string // "struct sk_buff", "" of pointers and arrays that no typedef names
	Kind   Kind
	Size   int64 // of a value in bytes; 0 where that is not known
	Signed bool  // of an Int
	Len    int64 // of an Array: elements

	elem   func() *Type
	fields func() []Field
}

// String is the type as perf probe --vars writes it: "struct sk_buff*", "char[]",
// where an array of arrays is one.
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

// Elem is what a pointer points to or an array is of.
func (t *Type) Elem() *Type {
	if t.elem == nil {
		return void
	}
	return t.elem()
}

// Field is a member of a struct or union; an anonymous one has no name.
type Field struct {
	Name string
	Type *Type
	Bit  int64 // where it begins: bits from the struct's first, the lowest of a byte first
	Bits int64 // how many a bit-field has; 0: it is none
}

// maxNesting bounds anonymous structs within each other.
const maxNesting = 32

// Field finds a member by name, in anonymous members too.
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

// FieldNames are the names that Field knows, in their order; those that stand
// for no bytes are left out.
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

// Var is a variable, or what else has a name and a type.
type Var struct {
	Name   string
	Type   *Type
	Param  bool
	Global bool
	Where  Where
	Err    error // why it is nowhere
}

// Where is a place of a value: a register, an address, or a constant.
type Where struct {
	// Base is a fetcharg: "%di", "$arg1", "\3", "+8(%sp)"; "" is an address of
	// the program, a vaddr.
	Base string
	// Mem: the value is in memory, Off bytes behind the address that Base is;
	// else Base is the value.
	Mem bool
	Off int64
	// Pieces, if there are any, are where the parts of the value are, in their order.
	Pieces []Piece
}

// Piece is a part of a value that lies in several places.
type Piece struct {
	Where
	Size int64
	Err  error // why it is nowhere
}

// Scope is what has a name at one place of the code.
type Scope struct {
	Function string
	Vars     []Var // inner ones before outer ones, globals last
	Return   *Type // of the function; of several results of a Go function, the first one's

	// Of a program: the file offset where all this holds, and what to add to a
	// vaddr for @+OFFSET, which counts from where the file's first byte would
	// be if it were mapped together with this code.
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

// Names are the names of the variables.
func (s *Scope) Names() (l []string) {
	for _, v := range s.Vars {
		l = append(l, v.Name)
	}
	return l
}

// NoDebugError says that nothing tells where values are.
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
