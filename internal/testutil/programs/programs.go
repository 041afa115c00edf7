// Package programs builds the programs that tests run. A test package declares them in variables. Path builds
// a program when a test first needs it; Run can build all before the tests, for guests with a kernel to test
// but without a compiler.
package programs

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"go/build"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Program is a program that tests run.
type Program struct {
	compiler, args []string // the path of the program goes between them
	linker         string   // a program that the compiler runs, or ""
	env            string
	made           func() (path string, err error)
}

// declared lists the programs of the package under test.
var declared []*Program

// dir is the directory of the programs: $GPERF_TEST_PROGRAMS if set, or a temporary one.
var dir string

// Go returns a program that go build makes of pkg, which is an import path or a file. It is static, and
// for $GOARCH.
func Go(pkg string, flags ...string) *Program {
	return declare(Program{compiler: goBuild, args: append(flags, pkg), env: "CGO_ENABLED=0"})
}

var goBuild = []string{"go", "build", "-buildvcs=false"}

// Cgo returns a program that go build makes of pkg with $CC (gcc), which links it.
func Cgo(pkg string, flags ...string) *Program {
	return declare(Program{compiler: goBuild, args: append(flags, pkg), linker: cc(), env: "CGO_ENABLED=1"})
}

func cc() string { return cmp.Or(os.Getenv("CC"), "gcc") }

// C returns a program that $CC (gcc) makes of src, a file of C, or $CXX (g++) of C++.
func C(src string, flags ...string) *Program {
	compiler := cc()
	if filepath.Ext(src) != ".c" {
		compiler = cmp.Or(os.Getenv("CXX"), "g++")
	}
	return declare(Program{compiler: []string{compiler}, args: append(flags, src)})
}

// Rust returns a program that rustc makes of src, for this machine.
func Rust(src string, flags ...string) *Program {
	return declare(Program{compiler: []string{"rustc"}, args: append(flags, src)})
}

func declare(p Program) *Program {
	p.made = sync.OnceValues(p.make)
	declared = append(declared, &p)
	return &p
}

// String returns the arguments of the compiler.
func (p *Program) String() string { return strings.Join(p.args, " ") }

func (p *Program) name() string {
	base := filepath.Base(p.args[len(p.args)-1])
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// make builds the program unless it exists. Programs of the same source are named alike, because tests look for the
// name, so each is built in a separate directory.
func (p *Program) make() (string, error) {
	path := filepath.Join(dir, fmt.Sprintf("%.8x", sha256.Sum256([]byte(p.String()))), p.name())
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	if p.linker != "" {
		if _, err := exec.LookPath(p.linker); err != nil {
			return "", err
		}
	}
	part := fmt.Sprintf("%s.%d", path, os.Getpid()) // other processes may build the same program
	cmd := exec.Command(p.compiler[0], slices.Concat(p.compiler[1:], []string{"-o", part}, p.args)...)
	cmd.Env = append(os.Environ(), p.env)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return path, os.Rename(part, path)
}

// Path returns the program's path. It skips the test if there is no compiler for it.
func (p *Program) Path(t testing.TB) string {
	t.Helper()
	path, err := p.made()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skipf("%s is neither prebuilt in $GPERF_TEST_PROGRAMS, nor is there %s to build it", p.name(), p.compiler[0])
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// ownHome gives the tests a home directory with all that is in the user's, except the build-ID cache: recordings keep
// copies of programs there, which other tests would find.
func ownHome() (own string, err error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", nil // gperf uses no cache then
	}
	entries, err := os.ReadDir(home)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if own, err = os.MkdirTemp("", "gperf-home-"); err != nil {
		return "", err
	}
	for _, e := range entries {
		if e.Name() != ".debug" {
			err = errors.Join(err, os.Symlink(filepath.Join(home, e.Name()), filepath.Join(own, e.Name())))
		}
	}
	// Go's modules keep the path: a package in another directory is compiled again.
	return own, errors.Join(err, os.Setenv("GOPATH", build.Default.GOPATH), os.Setenv("HOME", own))
}

// Run runs a package's tests, for its TestMain, and returns the exit code. If $GPERF_TEST_PROGRAMS names a
// directory, it first builds all declared programs there, unless they exist or there is no compiler.
func Run(m *testing.M) int {
	home, err := ownHome()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(home)
	if dir = os.Getenv("GPERF_TEST_PROGRAMS"); dir != "" {
		for _, p := range declared {
			if _, err := p.made(); err != nil && !errors.Is(err, exec.ErrNotFound) {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
		return m.Run()
	}
	if dir, err = os.MkdirTemp("", "gperf-programs-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	return m.Run()
}
