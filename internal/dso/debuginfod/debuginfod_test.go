package debuginfod

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gperf/internal/dso"
)

// own is an ELF file with a build ID: the bytes and the ID.
func own(t *testing.T) ([]byte, dso.BuildID) {
	t.Helper()
	for _, path := range []string{"/bin/sh", "/bin/ls", "/bin/cat"} {
		if id, err := dso.BuildIDOf(path); err == nil {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return b, id
		}
	}
	t.Skip("no program here has a build ID")
	return nil, dso.BuildID{}
}

// client is one with an empty cache.
func client(t *testing.T, urls string) *Client {
	t.Helper()
	t.Setenv("DEBUGINFOD_CACHE_PATH", filepath.Join(t.TempDir(), "cache"))
	return New(urls)
}

// again is a client with the same cache.
func again(c *Client, urls string) *Client {
	n := New(urls)
	n.Dir = c.Dir
	return n
}

func TestFind(t *testing.T) {
	contents, id := own(t)
	asked := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path != "/buildid/"+id.String()+"/debuginfo" {
			http.NotFound(w, r)
			return
		}
		w.Write(contents)
	}))
	defer srv.Close()
	c := client(t, srv.URL+"/ ima:enforcing")
	var seen Progress
	c.Progress = func(p Progress) { seen.Bytes = max(seen.Bytes, p.Bytes); seen.Files = p.Files }
	for range 2 {
		path, err := c.Find(id, dso.DebugFile)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || len(got) != len(contents) {
			t.Errorf("%d bytes, %v; want %d", len(got), err, len(contents))
		}
		if _, err := c.Find(id, dso.CodeFile); !errors.Is(err, errNotThere) {
			t.Errorf("what the server lacks: %v", err)
		}
	}
	if asked != 2 || seen != (Progress{Bytes: int64(len(contents))}) {
		t.Errorf("asked %d times, progress %+v", asked, seen)
	}
	// The cache knows both, without the server.
	srv.Close()
	c = again(c, srv.URL)
	if _, err := c.Find(id, dso.DebugFile); err != nil {
		t.Error(err)
	}
	if _, err := c.Find(id, dso.CodeFile); !errors.Is(err, errNotThere) || c.Dead() != nil {
		t.Errorf("what the server lacked: %v, dead %v", err, c.Dead())
	}
	// A file that servers lacked is requested again after some time.
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(c.Dir, id.String(), dso.CodeFile), old, old); err != nil {
		t.Fatal(err)
	}
	c = again(c, srv.URL)
	if _, err := c.Find(id, dso.CodeFile); errors.Is(err, errNotThere) || len(c.Dead()) != 1 {
		t.Errorf("after an hour: %v, dead %v", err, c.Dead())
	}
}

// A file from a server is used only if the build ID is the requested one.
func TestFindRefuses(t *testing.T) {
	contents, id := own(t)
	other := dso.NewBuildID([]byte("another"))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "/executable"):
			http.Error(w, "busy", http.StatusServiceUnavailable)
		case strings.Contains(r.URL.Path, "/source"):
			w.Write([]byte("text"))
		default:
			w.Write(contents)
		}
	}))
	defer srv.Close()
	c := client(t, srv.URL)
	for what, want := range map[string]error{dso.DebugFile: dso.ErrMismatch, "source": dso.ErrNotELF} {
		if path, err := c.Find(other, what); path != "" || !errors.Is(err, want) {
			t.Errorf("%s: %q, %v; want %v", what, path, err, want)
		}
	}
	if _, err := c.Find(other, dso.CodeFile); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("busy server: %v", err)
	}
	c.MaxSize = int64(len(contents)) - 1
	if path, err := c.Find(id, dso.DebugFile); path != "" || !errors.Is(err, errTooLarge) {
		t.Errorf("too large: %q, %v", path, err)
	}
	if left, _ := filepath.Glob(c.Dir + "/*/*"); left != nil {
		t.Errorf("files left: %q", left)
	}
	c = again(c, srv.URL)
	c.MaxSize = int64(len(contents))
	if _, err := c.Find(id, dso.DebugFile); err != nil {
		t.Errorf("just as large as may be: %v", err)
	}
	if c := New(" ima:enforcing "); c != nil {
		t.Errorf("no server: %v", c)
	}
}

// A server that does not answer is asked once, however many files are wanted;
// others are asked still.
func TestDeadServer(t *testing.T) {
	contents, _ := own(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	var connections atomic.Int32
	go func() {
		for {
			if _, err := silent.Accept(); err != nil {
				return
			}
			connections.Add(1)
		}
	}()
	var asked atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Write(contents)
	}))
	defer srv.Close()
	c := client(t, "http://"+silent.Addr().String()+" "+srv.URL)
	c.Timeout = 3 * time.Second // more than the other server takes beside other tests
	var all sync.WaitGroup
	for i := range 3 * parallel {
		all.Go(func() {
			if _, err := c.Find(dso.NewBuildID([]byte{byte(i)}), dso.DebugFile); !errors.Is(err, dso.ErrMismatch) {
				t.Errorf("%v, want what the other server said", err)
			}
		})
	}
	all.Wait()
	if n := connections.Load(); n > parallel {
		t.Errorf("the dead server was asked %d times, %d at a time", n, parallel)
	}
	if n := asked.Load(); n != 3*parallel {
		t.Errorf("the other server was asked %d times", n)
	}
	if dead := c.Dead(); len(dead) != 1 || !strings.Contains(dead[0].Error(), "no answer within 3s") {
		t.Errorf("dead: %v", dead)
	}
	for _, name := range []string{"00", "07"} {
		if st, err := os.Stat(filepath.Join(c.Dir, name, dso.DebugFile)); err == nil {
			t.Errorf("the cache has %s of %d bytes, though not all servers answered", name, st.Size())
		}
	}
}

// A server that begins and then stops is as dead as one that says nothing.
func TestServerStops(t *testing.T) {
	_, id := own(t)
	wait := make(chan bool)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "\x7fELF")
		w.(http.Flusher).Flush()
		<-wait
	}))
	defer srv.Close()
	defer close(wait)
	c := client(t, srv.URL)
	c.Timeout = 100 * time.Millisecond
	if _, err := c.Find(id, dso.DebugFile); err == nil || !strings.Contains(err.Error(), "no answer within 100ms") ||
		len(c.Dead()) != 1 {
		t.Errorf("%v, dead %v", err, c.Dead())
	}
}

func TestClean(t *testing.T) {
	c := client(t, "http://127.0.0.1:1")
	put := func(name, text string, age time.Duration) string {
		path := filepath.Join(c.Dir, name)
		os.MkdirAll(filepath.Dir(path), 0o700)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		when := time.Now().Add(-age)
		os.Chtimes(path, when, when)
		return path
	}
	const day = 24 * time.Hour
	mine, old, fresh := put("cache_miss_s", "600", 30*day), put("aabb/debuginfo", "x", 8*day),
		put("ccdd/debuginfo", "x", 6*day)
	c.clean() // the first time: only the date is noted
	there := func(path string) bool { _, err := os.Stat(path); return err == nil }
	if !there(old) {
		t.Error("cleaned at once")
	}
	put("cache_clean_interval_s", "86400", 2*day)
	c.clean()
	if there(old) || there(filepath.Dir(old)) || !there(fresh) || !there(mine) {
		t.Errorf("old %t, fresh %t, settings %t; want the old one gone", there(old), there(fresh), there(mine))
	}
}

// Debian's server serves a stripped program's debug information, and Debian's client and this one use each other's
// cache.
func TestAgainstElfutils(t *testing.T) {
	for tool, pkg := range map[string]string{"debuginfod": "debuginfod", "debuginfod-find": "debuginfod", "gcc": "gcc",
		"objcopy": "binutils"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed (package %s)", tool, pkg)
		}
	}
	dir := t.TempDir()
	served := filepath.Join(dir, "served")
	if err := os.Mkdir(served, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(line string) string {
		t.Helper()
		args := strings.Fields(line)
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return strings.TrimSpace(string(out))
	}
	if err := os.WriteFile(filepath.Join(dir, "a.c"), []byte("int main() { return 0; }"), 0o644); err != nil {
		t.Fatal(err)
	}
	run("gcc -g -Wl,--build-id -o a a.c")
	run("objcopy --only-keep-debug a served/a.debug")
	id, err := dso.BuildIDOf(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	url, stop := serve(t, served)
	c := client(t, url)
	path := wait(t, c, id)
	if im, err := dso.Open(path); err != nil || !im.HasDWARF() {
		t.Errorf("%s: %v, %v", path, im, err)
	}
	t.Setenv("DEBUGINFOD_URLS", url)
	if found := run("debuginfod-find debuginfo " + id.String()); found != path {
		t.Errorf("elfutils finds %s, gperf %s", found, path)
	}
	if _, err := c.Find(id, dso.CodeFile); !errors.Is(err, errNotThere) {
		t.Errorf("what the server lacks: %v", err)
	}
	stop()
	if found := run("debuginfod-find debuginfo " + id.String()); found != path {
		t.Errorf("elfutils finds %s in the cache, gperf %s", found, path)
	}
	again := again(c, url)
	if found, err := again.Find(id, dso.DebugFile); err != nil || found != path {
		t.Errorf("with the server stopped: %s, %v", found, err)
	}
}

// serve starts a server of the files below dir.
func serve(t *testing.T, dir string) (url string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	cmd := exec.Command("debuginfod", "-F", "-d", ":memory:", "-p", fmt.Sprint(port), dir)
	cmd.Env = append(os.Environ(), "DEBUGINFOD_URLS=")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	t.Cleanup(stop)
	return fmt.Sprintf("http://127.0.0.1:%d", port), stop
}

// wait returns the debug file of id as soon as the server offers it.
func wait(t *testing.T, c *Client, id dso.BuildID) string {
	t.Helper()
	var path string
	var err error
	for range 200 {
		os.RemoveAll(c.Dir) // it knows that the server lacked the file
		if path, err = again(c, c.servers[0].url).Find(id, dso.DebugFile); err == nil {
			return path
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("the server does not serve it: %v", err)
	return ""
}

// A server that never ends costs neither the disk nor time.
func TestEndlessServer(t *testing.T) {
	_, id := own(t)
	var sent atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		block := make([]byte, 1<<16)
		if strings.HasSuffix(r.URL.Path, dso.DebugFile) {
			copy(block, "\x7fELF")
		}
		for r.Context().Err() == nil {
			n, err := w.Write(block)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	}))
	defer srv.Close()
	c := client(t, srv.URL)
	const buffers = 16 << 20 // the size of the sockets' buffers
	for _, what := range []struct {
		name string
		max  int64
		want error
	}{{dso.CodeFile, buffers, dso.ErrNotELF}, {dso.DebugFile, 2 * buffers, errTooLarge}} {
		sent.Store(0)
		c.MaxSize = 1 << 20
		if path, err := c.Find(id, what.name); path != "" || !errors.Is(err, what.want) {
			t.Errorf("%s: %q, %v; want %v", what.name, path, err, what.want)
		}
		if n := sent.Load(); n > what.max {
			t.Errorf("%s: the server sent %d bytes", what.name, n)
		}
	}
	if left, _ := filepath.Glob(c.Dir + "/*/*"); left != nil {
		t.Errorf("files left: %q", left)
	}
}

// Partial files of a killed gperf are removed, but not the files that another gperf is receiving.
func TestRemovePartials(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/abcd", 0o700); err != nil {
		t.Fatal(err)
	}
	file := func(name string) *os.File {
		f, err := os.Create(dir + "/abcd/" + name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	dead, alive, kept := file("debuginfo.partial-1"), file("debuginfo.partial-2"), file("debuginfo")
	if err := syscall.Flock(int(alive.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	removePartials(dir)
	for f, want := range map[*os.File]bool{dead: false, alive: true, kept: true} {
		if _, err := os.Stat(f.Name()); (err == nil) != want {
			t.Errorf("%s: %v", f.Name(), err)
		}
	}
}

func TestCheck(t *testing.T) {
	for urls, ok := range map[string]bool{"": true, "https://a.example http://localhost:8002/": true,
		"file:///srv/ids": true, "ima:enforcing https://a.example": true, "abc": false, "https://": false,
		"ftp://a.example": false, "https://a.example b": false} {
		if err := Check(urls); (err == nil) != ok {
			t.Errorf("%q: %v", urls, err)
		}
	}
}
