package args

import (
	"debug/dwarf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-delve/delve/pkg/dwarf/godwarf"
	"github.com/go-delve/delve/pkg/dwarf/loclist"
	"github.com/go-delve/delve/pkg/dwarf/op"

	leb "gperf/internal/dwarf"
	"gperf/internal/testutil/programs"
)

// delve, Go's debugger, reads locations and types independently of this package. Probes cannot use it: delve's
// evaluator computes numbers from the values of registers, and a probe needs a description; delve's type reader
// does not know the types in lacks; delve's readers of lists and of abstract origins panic or do not end on
// damaged files.
var delvePrograms = []struct {
	program *programs.Program
	lacks   []string
}{
	{programs.C("../testdata/args.c", "-g", "-O2", "-gdwarf-5"), []string{lacksArray, lacksBitField}},
	{programs.C("../testdata/args.c", "-g", "-O2", "-gdwarf-4"), []string{lacksArray}},
	{programs.C("../testdata/values.cc", "-std=c++17", "-g", "-O2"), []string{lacksArray, lacksReference}},
	{programs.Go("../testdata/args.go"), nil},
}

// Types that delve does not know.
const (
	lacksArray     = "array of C without a size"
	lacksBitField  = "bit-field of DWARF 5"
	lacksReference = "(unsupported type ReferenceType)"
)

func TestMain(m *testing.M) { os.Exit(programs.Run(m)) }

// TestDelve compares the locations of all variables, and all types, of programs.
func TestDelve(t *testing.T) {
	for _, p := range delvePrograms {
		t.Run(p.program.String(), func(t *testing.T) {
			program, err := openProgram(p.program.Path(t))
			if err != nil {
				t.Fatal(err)
			}
			d := &delve{T: t, Program: program, cache: map[dwarf.Offset]godwarf.Type{}, lacking: map[string]int{}}
			r := program.data.Reader()
			for {
				e, err := r.Next()
				if err != nil {
					t.Fatal(err)
				}
				if e == nil {
					break
				}
				d.entry(e, r)
			}
			if d.locations < 50 || d.types < 3 {
				t.Errorf("only %d locations and %d types were compared", d.locations, d.types)
			}
			for _, what := range p.lacks {
				if d.lacking[what] == 0 {
					t.Errorf("delve can read %s now: compare it", what)
				}
			}
			t.Logf("%d locations, %d types; not compared: %v", d.locations, d.types, d.lacking)
		})
	}
}

// delve compares a program's entries.
type delve struct {
	*testing.T
	*Program
	w                within // of the current unit
	cache            map[dwarf.Offset]godwarf.Type
	locations, types int
	lacking          map[string]int // numbers of entries that delve cannot read, by reason
}

func (d *delve) entry(e *dwarf.Entry, r *dwarf.Reader) {
	switch e.Tag {
	case dwarf.TagCompileUnit:
		d.w = d.within(e, r.AddressSize())
	case dwarf.TagVariable, dwarf.TagFormalParameter:
		d.location(e)
	case dwarf.TagStructType, dwarf.TagClassType, dwarf.TagUnionType:
		d.structure(e)
	}
}

// location compares a variable's location, or all locations of the variable's list.
func (d *delve) location(e *dwarf.Entry) {
	f := e.AttrField(dwarf.AttrLocation)
	switch {
	case f == nil:
		return
	case f.Class == dwarf.ClassExprLoc:
		d.expression(e, f.Val.([]byte))
	case f.Class == dwarf.ClassLocListPtr:
		d.list(e, offset(f.Val))
	}
	if off, ok := d.ref(e, dwarf.AttrType); ok {
		if t, err := godwarf.ReadType(d.data, 0, off, d.cache); err != nil {
			d.lacking[err.Error()]++
		} else if _, no := godwarf.ResolveTypedef(t).(*godwarf.UnsupportedType); no {
			d.lacking[t.String()]++
		}
	}
}

// list compares the expressions of a list at the ends of the list's ranges.
func (d *delve) list(e *dwarf.Entry, off uint64) {
	var reader loclist.Reader = loclist.NewDwarf2Reader(d.loc, 8)
	section := d.loc
	if d.w.version >= 5 {
		reader, section = loclist.NewDwarf5Reader(d.loclists), d.loclists
	}
	addrs := godwarf.ParseAddr(d.addr).GetSubsection(d.w.addrBase)
	list := leb.List{
		Cursor: leb.Cursor{B: section}, Version: d.w.version, Locations: true, AddrSize: 8, Base: d.w.low, Addrs: d.addrs(d.w),
	}
	list.Seek(off)
	for {
		r, ok := list.Next()
		if !ok {
			return
		}
		for _, pc := range []uint64{r.Low, r.High - 1, r.High} {
			got, err := d.sections.list(d.w, off, pc)
			want, wantErr := reader.Find(int(off), 0, d.w.low, pc, addrs)
			switch {
			case wantErr != nil:
				d.lacking[wantErr.Error()]++
			case want == nil && !errors.Is(err, errNotHere), want != nil && string(want.Instr) != string(got):
				d.Errorf("%#x: the location at %#x is %x, %v, delve has %v", e.Offset, pc, got, err, want)
			}
			if err == nil {
				d.expression(e, got)
			}
		}
	}
}

// Values used in place of a process's registers and memory.
const (
	cfaValue       = 0x7fff0000
	frameBaseValue = 0x7fff1000
)

func registerValue(n uint64) uint64 { return 0x10000 * (n + 1) }

func memoryValue(addr uint64) uint64 { return addr*3 + 1 }

// expression compares the result of an expression in numbers, if probes can read the location.
func (d *delve) expression(e *dwarf.Entry, expr []byte) {
	f := frame{
		machine: d.machine, addrSize: 8, addrs: d.addrs(d.w),
		cfa:  func() (term, error) { return term{base: `\` + strconv.Itoa(cfaValue)}, nil },
		base: func() (term, error) { return term{base: `\` + strconv.Itoa(frameBaseValue)}, nil },
	}
	where, err := f.locate(expr)
	if err != nil {
		return
	}
	regs := op.DwarfRegisters{CFA: cfaValue, FrameBase: frameBaseValue}
	for i := range uint64(len(d.machine.dwarf)) {
		regs.AddReg(i, op.DwarfRegisterFromUint64(registerValue(i)))
	}
	read := func(b []byte, addr uint64) (int, error) {
		return copy(b, binary.LittleEndian.AppendUint64(nil, memoryValue(addr))), nil
	}
	addr, pieces, err := op.ExecuteStackProgram(regs, expr, 8, read)
	if err != nil {
		d.lacking[err.Error()]++
		return
	}
	d.locations++
	if got, want := d.whereText(where), pieceText(addr, pieces, uint64(len(d.machine.dwarf))); got != want {
		d.Errorf("%#x: %x is %s, delve has %s", e.Offset, expr, got, want)
	}
}

// whereText describes a location in numbers.
func (d *delve) whereText(w Where) string {
	switch {
	case w.Pieces != nil:
		s := ""
		for _, p := range w.Pieces {
			if p.Err != nil {
				s += fmt.Sprintf("[%d none]", p.Size)
				continue
			}
			s += fmt.Sprintf("[%d %s]", p.Size, d.whereText(p.Where))
		}
		return s
	case w.Mem:
		return fmt.Sprintf("at %#x", d.fetched(w.Base)+uint64(w.Off))
	}
	return fmt.Sprintf("%#x", d.fetched(w.Base))
}

var memoryFetch = regexp.MustCompile(`^([+-][0-9]+)\((.*)\)$`)

// fetched returns the value of a fetcharg.
func (d *delve) fetched(fetch string) uint64 {
	if m := memoryFetch.FindStringSubmatch(fetch); m != nil {
		off, _ := strconv.ParseInt(m[1], 10, 64)
		return memoryValue(d.fetched(m[2]) + uint64(off))
	}
	if digits, ok := strings.CutPrefix(fetch, `\`); ok {
		n, _ := strconv.ParseInt(digits, 10, 64)
		return uint64(n)
	}
	if i := slices.Index(d.machine.dwarf, strings.TrimPrefix(fetch, "%")); i >= 0 {
		return registerValue(uint64(i))
	}
	return 0 // "": an address of the program
}

// pieceText is whereText for delve's result. Probes can read the first registers only.
func pieceText(addr int64, pieces []op.Piece, registers uint64) string {
	if pieces == nil {
		return fmt.Sprintf("at %#x", uint64(addr))
	}
	s := ""
	for _, p := range pieces {
		text := fmt.Sprintf("%#x", p.Val)
		switch {
		case p.Kind == op.AddrPiece:
			text = fmt.Sprintf("at %#x", p.Val)
		case p.Kind == op.RegPiece:
			if text = "none"; p.Val < registers {
				text = fmt.Sprintf("%#x", registerValue(p.Val))
			}
		case p.Bytes != nil:
			c := leb.Cursor{B: p.Bytes}
			text = fmt.Sprintf("%#x", uint64(c.Int(len(p.Bytes))))
			p.Size = 0
		case p.Size > 0 && p.Val == 0:
			text = "none"
		}
		if len(pieces) == 1 && p.Size == 0 {
			return text
		}
		s += fmt.Sprintf("[%d %s]", p.Size, text)
	}
	return s
}

// structure compares the size and the members of a struct or union.
func (d *delve) structure(e *dwarf.Entry) {
	theirs, err := godwarf.ReadType(d.data, 0, e.Offset, d.cache)
	if err != nil {
		d.lacking[err.Error()]++
		return
	}
	t, ok := theirs.(*godwarf.StructType)
	ours := d.typeAt(e.Offset)
	if !ok || t.Incomplete || ours.fields == nil {
		return
	}
	d.types++
	if ours.Size != t.Size() {
		d.Errorf("%s has %d bytes, delve has %d", ours, ours.Size, t.Size())
	}
	for _, want := range t.Field {
		i := slices.IndexFunc(ours.fields(), func(f Field) bool {
			return f.Name == want.Name && want.Name != "" && want.Name != "_"
		})
		if i >= 0 {
			d.member(ours, ours.fields()[i], want)
		}
	}
}

// member compares a member.
func (d *delve) member(of *Type, got Field, want *godwarf.StructField) {
	_, array := godwarf.ResolveTypedef(want.Type).(*godwarf.ArrayType)
	switch {
	case got.Bits > 0 && d.w.version >= 5:
		if want.ByteOffset == 0 && want.BitOffset == 0 && got.Bit > 0 {
			d.lacking[lacksBitField]++
		}
		return
	case got.Bits > 0:
		return
	case got.Bit != 8*want.ByteOffset:
		d.Errorf("%s.%s is at bit %d, delve has byte %d", of, want.Name, got.Bit, want.ByteOffset)
	}
	switch {
	case array && want.Type.Size() < 0:
		d.lacking[lacksArray]++
	case got.Type.Kind != Func && got.Type.Size != max(0, want.Type.Size()):
		d.Errorf("%s.%s has %d bytes, delve has %d", of, want.Name, got.Type.Size, want.Type.Size())
	}
}
