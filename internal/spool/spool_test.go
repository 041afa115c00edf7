package spool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func open(t *testing.T, dir string, limit int64) *Spool {
	t.Helper()
	s, err := Open(dir, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// add adds a group of entries with these contents.
func add(t *testing.T, s *Spool, id string, contents ...string) {
	t.Helper()
	if err := addGroup(context.Background(), s, id, contents...); err != nil {
		t.Fatal(err)
	}
}

func addGroup(ctx context.Context, s *Spool, id string, contents ...string) error {
	g, err := s.Begin(id)
	if err != nil {
		return err
	}
	for i, text := range contents {
		f, err := g.Create(ctx, fmt.Sprint(i))
		if err != nil {
			return err
		}
		if _, err := f.Write([]byte(text)); err != nil {
			return errors.Join(err, f.Close(), g.Discard())
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return g.Commit()
}

// next returns the next entry and the entry's contents.
func next(t *testing.T, s *Spool) (Entry, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	e, err := s.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(e.Path)
	if err != nil {
		t.Fatal(err)
	}
	return e, string(b)
}

// drain takes all entries and returns the contents.
func drain(t *testing.T, s *Spool) (l []string) {
	t.Helper()
	for n, _ := s.Len(); n > 0; n, _ = s.Len() {
		e, text := next(t, s)
		l = append(l, text)
		if err := s.Sent(e, false); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// Entries are sent in order, also after the spool is opened again, and groups are remembered.
func TestSpool(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 1000)
	add(t, s, "b", "one", "two")
	add(t, s, "a", "three")
	add(t, s, "none")
	e, text := next(t, s)
	if text != "one" {
		t.Errorf("the first entry is %q", text)
	}
	if err := s.Sent(e, true); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, 1000); !errors.Is(err, ErrInUse) {
		t.Errorf("opened twice: %v", err)
	}
	s.Close()
	s = open(t, dir, 1000)
	if n, bytes := s.Len(); n != 2 || bytes != 8 {
		t.Errorf("%d entries of %d bytes wait, want 2 of 8", n, bytes)
	}
	for name, known := range map[string]bool{"a": true, "b": true, "none": true, "0": true, "x": false} {
		if s.Known(name) != known {
			t.Errorf("%s is known: %v, want %v", name, !known, known)
		}
	}
	if got := drain(t, s); !slices.Equal(got, []string{"two", "three"}) {
		t.Errorf("the next entries are %q", got)
	}
	s.Close()
	s = open(t, dir, 1000)
	if !s.Known("a") || s.Queued("a") {
		t.Error("a group that was sent is forgotten, or sent again")
	}
}

// A line of the ledger that was not written completely is no name.
func TestTornLedger(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "done"), []byte("abc\ndef"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, 1000)
	add(t, s, "ghi")
	s.Close()
	s = open(t, dir, 1000)
	if !s.Known("abc") || s.Known("def") || !s.Known("ghi") || s.Known("defghi") {
		t.Errorf("the ledger has %v", s.done.names)
	}
}

// A full spool makes writers wait for room, refuses groups that never fit, and drops rejected entries first.
func TestLimit(t *testing.T) {
	s := open(t, t.TempDir(), 10)
	var large *TooLargeError
	if err := addGroup(context.Background(), s, "large", "12345678901"); !errors.As(err, &large) {
		t.Errorf("a group larger than the spool: %v", err)
	}
	add(t, s, "first", "123456")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := addGroup(ctx, s, "second", "1234567"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a group without room: %v", err)
	}
	added := make(chan error)
	go func() { added <- addGroup(context.Background(), s, "third", "1234567") }()
	e, _ := next(t, s)
	if err := s.Reject(e, errors.New("bad")); err != nil {
		t.Fatal(err)
	}
	if err := <-added; err != nil {
		t.Errorf("a group after room was made: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, rejectedDir, "*")); len(left) > 0 {
		t.Errorf("rejected entries are in the way: %v", left)
	}
	if got := drain(t, s); !slices.Equal(got, []string{"1234567"}) {
		t.Errorf("entries %q", got)
	}
	if s.bytes != 0 {
		t.Errorf("an empty spool has %d bytes", s.bytes)
	}
}

// Rejected entries are kept with the reason, and the following ones sent.
func TestReject(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 1000)
	add(t, s, "g", "bad", "good")
	e, _ := next(t, s)
	if err := s.Reject(e, errors.New("no such thing")); err != nil {
		t.Fatal(err)
	}
	if got := drain(t, s); !slices.Equal(got, []string{"good"}) {
		t.Errorf("entries %q", got)
	}
	why, err := os.ReadFile(filepath.Join(dir, rejectedDir, "g-0.txt"))
	if err != nil || string(why) != "no such thing\n" {
		t.Errorf("reason %q, %v", why, err)
	}
	s.Close()
	if s = open(t, dir, 1000); s.bytes != 3 || !s.Known("g") {
		t.Errorf("%d bytes of rejected entries, known: %v", s.bytes, s.Known("g"))
	}
}

// Sent can be called again after an error of the disk, wherever it failed.
func TestSentAgain(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 1000)
	add(t, s, "g", "one", "two")
	for _, text := range []string{"one", "two"} {
		e, _ := next(t, s)
		os.Remove(e.Path) // as if the call before failed after this
		s.done.fd.Close()
		if err := s.Sent(e, true); err == nil {
			t.Error("the ledger was written after its end")
		}
		var err error
		if s.done.fd, err = os.OpenFile(filepath.Join(dir, "done"), os.O_WRONLY|os.O_APPEND, 0); err != nil {
			t.Fatal(err)
		}
		if err := s.Sent(e, true); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if n, _ := s.Len(); n != 0 || !s.Known("g") || s.bytes != 0 {
		t.Errorf("%d entries, %d bytes", n, s.bytes)
	}
}

const children = "GPERF_TEST_SPOOL"

// TestMain makes the test program add and send groups until it is killed.
func TestMain(m *testing.M) {
	dir := os.Getenv(children)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := churn(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// churn adds group after group, each with three entries, and sends every entry by appending it to a file.
func churn(dir string) error {
	s, err := Open(filepath.Join(dir, "spool"), 1<<20)
	if err != nil {
		return err
	}
	sent, err := os.OpenFile(filepath.Join(dir, "sent"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for i := 0; i < 100_000; i++ {
		id := fmt.Sprintf("g%05d", i)
		if s.Known(id) {
			continue
		}
		if err := addGroup(context.Background(), s, id, id+".0\n", id+".1\n", id+".2\n"); err != nil {
			return err
		}
		for range 2 { // slower than they are added
			e, err := s.Next(context.Background())
			if err != nil {
				return err
			}
			b, err := os.ReadFile(e.Path)
			if err != nil {
				return err
			}
			if _, err := sent.Write(b); err != nil {
				return err
			}
			if err := s.Sent(e, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// size returns the size of a file, 0 if there is none.
func size(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return st.Size()
}

// A process that is killed at any moment loses no entry, and sends at most the one again that it was sending.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	const kills = 8
	for i := range kills {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), children+"="+dir)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		before := size(filepath.Join(dir, "sent"))
		for end := time.Now().Add(30 * time.Second); size(filepath.Join(dir, "sent")) < before+50; {
			if time.Sleep(time.Millisecond); time.Now().After(end) {
				t.Error("the process sends nothing")
				break
			}
		}
		time.Sleep(time.Duration(i) * 700 * time.Microsecond)
		cmd.Process.Kill()
		cmd.Wait()
		if stderr.Len() > 0 {
			t.Fatal(stderr.String())
		}
	}
	s := open(t, filepath.Join(dir, "spool"), 1<<20)
	b, err := os.ReadFile(filepath.Join(dir, "sent"))
	if err != nil {
		t.Fatal(err)
	}
	sent := strings.SplitAfter(string(b), "\n")
	sent = append(sent[:len(sent)-1], drain(t, s)...)
	repeated := 0
	var last string
	n := 0
	for _, text := range sent {
		if text == last {
			repeated++
			continue
		}
		last = text
		if want := fmt.Sprintf("g%05d.%d\n", n/3, n%3); text != want {
			t.Fatalf("entry %d is %q, want %q", n, text, want)
		}
		n++
	}
	if n < 4*kills || n%3 != 0 {
		t.Errorf("%d entries were sent", n)
	}
	if repeated > kills {
		t.Errorf("%d entries were sent twice, by %d processes that were killed", repeated, kills)
	}
	t.Logf("%d entries, %d of them twice", n, repeated)
}
