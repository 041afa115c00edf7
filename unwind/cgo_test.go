//go:build linux && amd64

package unwind

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestCgo walks from C through Go, through C again and through Go to the end,
// each on its own stack, with and without Go's .debug_frame.
func TestCgo(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs: not in short mode")
	}
	for _, p := range []struct{ name, ldflags string }{{"debug_frame", ""}, {"stripped", "-w"}} {
		t.Run(p.name, func(t *testing.T) {
			dir := t.TempDir()
			for from, to := range map[string]string{"cgo.go.txt": "main.go", "cgo.mod.txt": "go.mod"} {
				b, err := os.ReadFile(filepath.Join("testdata", from))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, to), b, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			exe := filepath.Join(dir, "prog")
			cmd := exec.Command("go", "build", "-ldflags="+p.ldflags, "-o", exe, ".")
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=1", "CGO_CFLAGS=-O2 -fomit-frame-pointer",
				"GOFLAGS=-mod=mod")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Skipf("cgo cannot build: %v\n%s", err, out)
			}
			s := &stepper{t: t, exe: exe}
			s.start()
			defer s.stop()
			h := s.awaitAny("deepest")
			for _, full := range []bool{false, true} {
				frames, why := s.walk(h, full)
				var names []string
				for _, f := range frames {
					names = append(names, s.name(f.IP))
				}
				rest := names
				for _, want := range []string{"deepest", "cInner", "runtime.asmcgocall", "main.goInner", "crosscall2",
					"goCallback", "cOuter",
					"runtime.asmcgocall", "main.goOuter", "main.main.func1", "runtime.goexit"} {
					i := slices.IndexFunc(rest, func(n string) bool { return strings.HasPrefix(n, want) })
					if i < 0 {
						t.Fatalf("full=%v: no %s in\n%s\n%v", full, want, strings.Join(names, "\n"), why)
					}
					rest = rest[i+1:]
				}
				if why != EndOfStack || len(rest) > 0 {
					t.Errorf("full=%v: %v, and then %v", full, why, rest)
				}
			}
		})
	}
}

// awaitAny lets all threads run until one is at a function.
func (s *stepper) awaitAny(name string) *shadow {
	at := s.sym(name)
	if at == 0 {
		s.t.Fatalf("no %s", name)
	}
	syscall.PtracePokeData(s.pid, uintptr(at), []byte{0xcc})
	if err := syscall.PtraceCont(s.pid, 0); err != nil {
		s.t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		var ws syscall.WaitStatus
		tid, err := syscall.Wait4(-1, &ws, syscall.WALL, nil)
		if err != nil {
			s.t.Fatal(err)
		}
		if !ws.Stopped() {
			continue
		}
		sig := 0
		switch st := ws.StopSignal(); {
		case st == syscall.SIGTRAP && ws.TrapCause() <= 0:
			h := &shadow{segs: []segment{{}}}
			if err := s.fetch(tid, h); err != nil {
				s.t.Fatal(err)
			}
			if h.regs.Rip == at+1 {
				h.regs.Rip--
				s.space.read()
				return h
			}
		case st != syscall.SIGTRAP && st != syscall.SIGSTOP:
			sig = int(st)
		}
		syscall.PtraceCont(tid, sig)
	}
	s.t.Fatalf("%s was not reached", name)
	return nil
}
