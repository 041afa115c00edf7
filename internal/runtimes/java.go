package runtimes

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"regexp"
	"slices"
	"time"

	"gperf/internal/dso"
	"gperf/internal/runtimes/hotspot"
)

// java is HotSpot in a libjvm.so for x86-64. The descriptions of methods are in the memory of each process.
type java struct {
	version string
	symbols map[string]uint64 // vaddrs
	walk    javaWalk
}

// javaWalk locates the address of the bytecode in an interpreted frame, in bytes below the frame pointer, at most
// 64.
//
//bpf:struct java
type javaWalk struct{ Bytecode uint32 }

// findJava returns HotSpot in a file, or nil if the file contains none, or one for another machine, whose stacks
// are walked by frame pointers.
func findJava(im *dso.Image) (Runtime, error) {
	if im.Machine != elf.EM_X86_64 {
		return nil, nil
	}
	j := &java{symbols: map[string]uint64{}, walk: javaWalk{7 * 8}} // JDK 8
	for name, s := range definedSymbols(im, ".dynsym") {
		switch {
		case hotspot.IsSymbol(name):
			j.symbols[name] = s.Value
		case name == "JVM_DefineModule": // JDK 9 and later
			j.walk.Bytecode = 8 * 8
		}
	}
	if len(j.symbols) == 0 {
		return nil, nil
	}
	j.version = javaVersion(im)
	return j, nil
}

// String implements Runtime.
func (j *java) String() string { return "Java " + j.version }

// javaVersion returns the version in a libjvm.so's constants: JRE (17.0.15+6-Debian-1).
func javaVersion(im *dso.Image) string {
	if m := javaText.FindSubmatch(readOnly(im)); m != nil {
		return string(m[1])
	}
	return "?"
}

var javaText = regexp.MustCompile(`JRE \(([0-9][0-9._]*)`)

// DSO implements Runtime.
func (j *java) DSO() string { return dso.JavaName }

// Walk implements Runtime.
func (j *java) Walk(uint64) Walk { return newWalk(kindJava, &j.walk) }

// In implements Runtime.
func (j *java) In(bias uint64) Process {
	return &nativeFrames{binder: &javaProcess{vm: j, bias: bias, known: map[uint64]uint32{}}}
}

// javaProcess is HotSpot in a process.
type javaProcess struct {
	vm      *java
	bias    uint64
	methods *hotspot.Methods
	read    time.Time        // when methods was set
	broken  error            // why methods cannot be read
	places  []*hotspot.Place // found by Bind, in the order of addresses
	// known are the checks of methods, and of the names of other code, by address. They are kept because the
	// process may exit before the last samples are read.
	known      map[uint64]uint32
	generation uint32 // that places and known are of
}

// startTime is how long a virtual machine may need to create all code heaps.
const startTime = 100 * time.Millisecond

// attach reads how methods are described, once the virtual machine is started.
func (j *javaProcess) attach(mem io.ReaderAt) error {
	if j.methods != nil || j.broken != nil {
		return j.broken
	}
	methods, err := hotspot.NewMethods(mem, func(name string) (uint64, bool) {
		vaddr, ok := j.vm.symbols[name]
		return vaddr + j.bias, ok
	})
	switch {
	case err == nil:
		j.methods, j.read = methods, time.Now()
	case !errors.Is(err, hotspot.ErrStarting):
		j.broken = fmt.Errorf("methods of Java: %w", err)
	}
	return err
}

// Bind implements binder. Methods replace compiled code and the interpreter's code. A function with the code's name,
// such as StubRoutines, replaces other code.
func (j *javaProcess) Bind(mem io.ReaderAt, f nativeFrame) (Part, error) {
	if err := j.attach(mem); err != nil {
		return Part{}, err
	}
	if f.has {
		return Part{Functions: []Interpreted{f.passed}, Replaces: true}, nil
	}
	if f.generation != j.generation {
		j.generation = f.generation
		j.forget()
	}
	at, err := j.place(mem, f.ip)
	if err != nil {
		return Part{}, err
	}
	b := Part{Replaces: true}
	if at.Name != 0 {
		check, err := j.check(mem, at.Name, j.nameCheck)
		b.Functions = []Interpreted{{Code: at.Name, Check: check}}
		return b, err
	}
	for _, c := range at.Calls(f.ip) {
		check, err := j.check(mem, c.Method, j.methodCheck)
		if err != nil {
			return Part{}, err
		}
		b.Functions = append(b.Functions, Interpreted{Code: c.Method, Check: check,
			Off: javaOff(j.methods.Header() + uint32(max(c.BCI, 0)))})
	}
	return b, nil
}

// check returns the check of the object at an address, which read reads once.
func (j *javaProcess) check(mem io.ReaderAt, addr uint64,
	read func(io.ReaderAt, uint64) (uint32, error)) (uint32, error) {
	if c, ok := j.known[addr]; ok {
		return c, nil
	}
	c, err := read(mem, addr)
	if err == nil {
		j.known[addr] = c
	}
	return c, err
}

// methodCheck returns the check of a method, unless the process unloaded classes since the sample.
func (j *javaProcess) methodCheck(mem io.ReaderAt, method uint64) (uint32, error) {
	check, err := javaCheck(mem, method, j.generation)
	if err != nil {
		return 0, err
	}
	now, err := j.methods.Generation(mem)
	if err == nil && now != j.generation {
		err = ErrChanged
	}
	return check, err
}

// javaCheck returns the hash that BPF makes of a method: java_frame in bpf/java.h.
func javaCheck(mem io.ReaderAt, method uint64, generation uint32) (uint32, error) {
	const constMethod = 8 // in a Method, after the pointer to the table of functions
	c, err := readWord(mem, method+constMethod)
	if err != nil {
		return 0, err
	}
	b, err := readAt(mem, c, 40)
	if err != nil {
		return 0, err
	}
	// The words after c are the constant pool, and the sizes, flags and names.
	return checkOf(0, c, le.Uint64(b[8:]), le.Uint64(b[24:]), le.Uint64(b[32:]), uint64(generation)), nil
}

// nameCheck returns the check of the name of code that is no method. It is even, because the check of a method is odd.
func (j *javaProcess) nameCheck(mem io.ReaderAt, addr uint64) (uint32, error) {
	name, err := j.methods.Name(mem, addr)
	return hashOf(name), err
}

// place returns the code that contains an address. The code is read once, with the descriptions of all instructions.
func (j *javaProcess) place(mem io.ReaderAt, ip uint64) (*hotspot.Place, error) {
	i, _ := slices.BinarySearchFunc(j.places, ip, func(p *hotspot.Place, ip uint64) int {
		return cmp.Compare(p.Code+p.Size-1, ip)
	})
	if i < len(j.places) && ip >= j.places[i].Code {
		return j.places[i], nil
	}
	at, err := j.methods.At(mem, ip)
	if errors.Is(err, hotspot.ErrNoHeap) && time.Since(j.read) > startTime {
		j.methods = nil
		if err = j.attach(mem); err == nil {
			at, err = j.methods.At(mem, ip)
		}
	}
	if err == nil && len(j.places) < maxPlaces {
		j.places = slices.Insert(j.places, i, at)
	}
	return at, err
}

// maxPlaces limits the code that is remembered of a process.
const maxPlaces = 1 << 14

// Stale implements binder: the memory of a method may now hold another compiled method. Stale may take 0.2 % of
// the time.
func (j *javaProcess) Stale(mem io.ReaderAt) (stale bool, pause time.Duration) {
	const often, part = 20 * time.Millisecond, 500
	start, before := time.Now(), len(j.places)
	j.places = slices.DeleteFunc(j.places, func(p *hotspot.Place) bool {
		if p.Name != 0 {
			return false
		}
		id, err := j.methods.ID(mem, p.Compiled)
		return err == nil && id != p.ID
	})
	return len(j.places) < before, max(often, part*time.Since(start))
}

// forget forgets the places and checks that may be of another generation.
func (j *javaProcess) forget() {
	j.places = slices.DeleteFunc(j.places, func(p *hotspot.Place) bool { return p.Name == 0 })
	clear(j.known)
}

// javaOff returns a frame's offset for the offset of a bytecode from the start of the ConstMethod that contains the
// bytecode: frames' offsets are even.
func javaOff(off uint32) uint32 { return 2 * off }

func hashOf(name string) uint32 {
	h := fnv.New32a()
	io.WriteString(h, name)
	return h.Sum32() &^ 1
}

// Function implements Process.
func (j *javaProcess) Function(mem io.ReaderAt, f Interpreted) (*Function, error) {
	if err := j.attach(mem); err != nil {
		return nil, err
	}
	if f.Check&1 == 0 {
		name, err := j.methods.Name(mem, f.Code)
		return &Function{Name: shown(name), Size: 2}, f.verify(hashOf(name), err)
	}
	m, err := j.methods.Method(mem, f.Code)
	if err != nil {
		return nil, err
	}
	generation, err := j.methods.Generation(mem)
	if err != nil {
		return nil, err
	}
	if err := f.verify(javaCheck(mem, f.Code, generation)); err != nil {
		return nil, err
	}
	fn := &Function{Name: shown(m.Name), File: shown(m.File), Size: javaOff(m.Header + max(m.Size, 1))}
	l := lines{size: fn.Size}
	for _, line := range m.Lines {
		if off := javaOff(m.Header + uint32(line.BCI)); off >= l.off {
			l.off, l.line = off, int64(line.Line)
			l.add(false)
		}
	}
	fn.Lines = l.list
	return fn, nil
}
