package session

import (
	"testing"

	"gperf/internal/dso"
	"gperf/symbolize"
	"gperf/symbolize/srcline"
)

// TestPlaceOf: stacks, the innermost function first, with the file of those of a language's runtime.
func TestPlaceOf(t *testing.T) {
	const runtime = dso.PythonName
	type fn struct{ dso, name, file string }
	python := "/usr/lib/python3.11/"
	for _, c := range []struct {
		name        string
		stack       []fn
		waits, runs string
	}{
		{"C", []fn{{"/lib/libc.so.6", "__GI___poll", ""}, {"/bin/prog", "serve", ""}, {"/bin/prog", "main", ""}},
			"serve", "__GI___poll"},
		{"Go", []fn{{"/bin/prog", "syscall.Syscall", ""}, {"/bin/prog", "os.(*File).Sync", ""},
			{"/bin/prog", "main.flush", ""}}, "main.flush", "syscall.Syscall"},
		{"the C library alone", []fn{{"/lib/libc.so.6", "__clone3", ""}}, "__clone3", "__clone3"},
		{"Python", []fn{{"/lib/libc.so.6", "fsync", ""}, {"/bin/python3", "os_fsync", ""},
			{"/bin/python3", "_PyEval_EvalFrameDefault", ""}, {runtime, "flush", "/srv/app.py"}},
			"os_fsync in flush", "flush"},
		{"Python's library", []fn{{"/bin/python3", "sock_recv", ""}, {runtime, "SocketIO.readinto", python + "socket.py"},
			{runtime, "handle", "/srv/app.py"}}, "SocketIO.readinto in handle", "handle"},
		{"Python's packages", []fn{{"/bin/python3", "sock_recv", ""},
			{runtime, "query", "/usr/lib/python3.11/site-packages/db.py"}, {runtime, "handle", "/srv/app.py"}},
			"sock_recv in query", "query"},
		{"Python's library alone", []fn{{"/bin/python3", "time_sleep", ""}, {runtime, "run", python + "threading.py"}},
			"time_sleep", "time_sleep"},
		{"Java", []fn{{"/lib/libjvm.so", "Unsafe_Park", ""}, {runtime, "jdk.internal.misc.Unsafe.park", ""},
			{runtime, "java.util.concurrent.locks.ReentrantLock.lock", ""}, {runtime, "[unknown]", ""},
			{runtime, "Srv.handle", "Srv.java"}},
			"java.util.concurrent.locks.ReentrantLock.lock in Srv.handle", "Srv.handle"},
		{"Node", []fn{{"/usr/bin/node", "uv_fs_fsync", ""}, {runtime, "fsyncSync", "node:fs"},
			{runtime, "handle", "/srv/app.js"}}, "fsyncSync in handle", "handle"},
		{"code without a library", []fn{{runtime, "spin", "/srv/app.js"}}, "spin", "spin"},
	} {
		var user []*Frame
		for i, is := range c.stack {
			f := NamedFrame(i, uint64(i), false, &Map{DSO: &DSO{Name: is.dso}}, &symbolize.Symbol{Name: is.name})
			calls := []srcline.InlineFrame{{Function: is.name, File: is.file}}
			f.calls.Store(&calls)
			user = append(user, f)
		}
		s := &Sample{Leaf: user[0], Chain: NewChain(nil, user)}
		if got := s.WaitsIn(); got != c.waits {
			t.Errorf("%s: waits in %q, want %q", c.name, got, c.waits)
		}
		if got := s.RunsIn(); got != c.runs {
			t.Errorf("%s: runs in %q, want %q", c.name, got, c.runs)
		}
	}
}
