package session

import (
	"cmp"
	"slices"
	"strings"
)

// libraryFunctions are functions of languages in which programs wait, and which do not say what for. They begin with
// one of these names.
var libraryFunctions = []string{"runtime.", "internal/runtime/", "syscall.", "internal/syscall/", "internal/poll.",
	"golang.org/x/sys/unix.", "os.(*", "std::", "[unknown]"}

// libraryClasses begin the names of Java's functions that come with the language.
var libraryClasses = []string{"java.", "javax.", "jdk.", "sun.", "kotlin.", "scala."}

// libraryFiles are parts of the names of files that come with an interpreter, and others are parts of those next to
// them that do not.
var libraryFiles, otherFiles = []string{"/lib/python", "<frozen ", "node:", "/lib/ruby/", "/share/perl", "/perl-base/"},
	[]string{"-packages/", "/gems/", "/local/lib/site_perl"}

// place is where a thread was, as the names of functions, "" if there is no such function.
type place struct {
	innermost string
	// own is the innermost function that is neither the C library's nor a language's.
	own string
	// program is the innermost function that does not come with the language, of a program in Go, or in a language with
	// an interpreter or with code made at run time. called is the innermost one of these that does, or else own: what
	// the program called.
	program, called string
}

func placeOf(user Part) (p place) {
	ofGo := isGo(user)
	for _, f := range user.All() {
		name := f.Symbol()
		p.innermost = cmp.Or(p.innermost, name)
		if kind := f.Kind(); kind == KindRuntime || kind == KindJIT || ofGo {
			comes := comesWithLanguage
			if ofGo {
				comes = comesWithGo
			}
			program, library := programFunction(f, name, comes)
			if !ofGo || !strings.HasPrefix(library, "runtime.") { // which does what the program's own words say
				p.called = cmp.Or(library, p.called)
			}
			if p.program = program; program != "" {
				break
			}
			if !ofGo {
				continue
			}
		}
		if p.own == "" && !isLibrary(f, name) {
			p.own = name
		}
	}
	p.called = cmp.Or(p.called, p.own)
	return p
}

// isGo reports whether a stack is a goroutine's.
func isGo(user Part) bool {
	n := user.Len()
	return n > 0 && strings.HasPrefix(user.At(n-1).Symbol(), "runtime.goexit")
}

// goLibrary are the first parts of the names of Go's own packages.
var goLibrary = setOf("archive", "bufio", "bytes", "cmp", "compress", "container", "context", "crypto", "database",
	"encoding", "errors", "expvar", "fmt", "go", "hash", "html", "image", "internal", "io", "iter", "log", "maps",
	"math", "mime", "net", "os", "path", "plugin", "reflect", "regexp", "runtime", "slices", "sort", "strconv",
	"strings", "sync", "syscall", "testing", "text", "time", "unicode", "unique", "vendor", "weak")

// comesWithGo reports whether a function is of Go's own packages.
func comesWithGo(fn *Function) bool {
	end := strings.IndexAny(fn.Name, "./")
	return end < 0 || goLibrary[fn.Name[:end]]
}

// comesWithLanguage reports whether a function comes with the language whose interpreter runs it.
func comesWithLanguage(fn *Function) bool {
	file := func(part string) bool { return strings.Contains(fn.File, part) }
	return hasAnyPrefix(fn.Name, libraryClasses) ||
		slices.ContainsFunc(libraryFiles, file) && !slices.ContainsFunc(otherFiles, file)
}

// programFunction returns the innermost function of a frame that does not come with the language, and the outermost one
// inside it that does.
func programFunction(f *Frame, name string, comes func(*Function) bool) (program, library string) {
	list := f.Functions(true)
	if len(list) == 0 {
		list = []Function{{Name: name}}
	}
	for _, fn := range list {
		if fn.Name == unknown {
			continue
		}
		if !comes(&fn) {
			return fn.Name, library
		}
		library = fn.Name
	}
	return "", library
}

func isLibrary(f *Frame, name string) bool {
	return name == "" || strings.Contains(f.DSO(), "/libc.so") || f.DSO() == "[vdso]" ||
		hasAnyPrefix(name, libraryFunctions)
}

// WaitsIn returns the innermost function of a stack, such as a wait's, that is neither the kernel's nor the C library's
// nor a language's; if there is none, the innermost one. For programs with an interpreter it says what the program
// called, and in which function.
func (s *Sample) WaitsIn() string {
	p := placeOf(s.User)
	switch {
	case p.innermost == "" && s.Leaf != nil:
		return s.Leaf.Symbol()
	case p.program != "" && p.called != "":
		return p.called + " in " + p.program
	}
	return cmp.Or(p.program, p.own, p.called, p.innermost)
}

// RunsIn is WaitsIn for a sample of the CPU, without what a program with an interpreter called: most of that is the
// interpreter's. Where the kernel works for a process, it says so.
func (s *Sample) RunsIn() string {
	if s.Leaf.Kernel && s.User.Len() == 0 {
		return s.Leaf.Symbol()
	}
	name := s.Leaf.Symbol()
	if p := placeOf(s.User); p.program != "" && (s.Leaf.Kernel || !isGo(s.User)) {
		name = p.program
	} else if s.Leaf.Kernel {
		name = cmp.Or(p.own, p.innermost)
	}
	if s.Leaf.Kernel {
		name += " (kernel)"
	}
	return name
}

// RanIn returns the innermost such function of a waker, "" if there is none: its stack ends early where an unwind table
// was missing.
func (w *Waker) RanIn() string {
	p := placeOf(w.Chain.User)
	return cmp.Or(p.program, p.own)
}
