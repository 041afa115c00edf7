package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// remoteContents is a file of several blocks.
var remoteContents = func() []byte {
	b := make([]byte, 40*Block+1234)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(b)
	return b
}()

// remoteCounting serves contents, and counts the bytes of the responses.
func remoteCounting(t *testing.T) (address string, sent *atomic.Int64) {
	sent = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(&counted{w, sent}, r, "x.zip", time.Unix(1e9, 0), bytes.NewReader(remoteContents))
	}))
	t.Cleanup(s.Close)
	return s.URL + "/x.zip", sent
}

type counted struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c *counted) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return c.ResponseWriter.Write(b)
}

// TestRemoteReadAt: ranges anywhere are the file's, also those that several goroutines read at the same time.
func TestRemoteReadAt(t *testing.T) {
	address, _ := remoteCounting(t)
	f, err := OpenRemote(context.Background(), address, RemoteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Size() != int64(len(remoteContents)) || !f.Modified().Equal(time.Unix(1e9, 0)) {
		t.Errorf("%d bytes of %v, want %d of %v", f.Size(), f.Modified(), len(remoteContents), time.Unix(1e9, 0))
	}
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			for range 50 {
				off := r.Int64N(f.Size())
				p := make([]byte, r.IntN(3*Block))
				want := remoteContents[off:min(off+int64(len(p)), f.Size())]
				n, err := f.ReadAt(p, off)
				if n != len(want) || !bytes.Equal(p[:n], want) || (err == io.EOF) != (n < len(p)) {
					t.Errorf("ReadAt(%d bytes, %d) = %d, %v; want %d", len(p), off, n, err, len(want))
				}
			}
		})
	}
	wait.Wait()
	if n, err := f.ReadAt(make([]byte, 1), f.Size()); n != 0 || err != io.EOF {
		t.Errorf("after the end: %d, %v", n, err)
	}
}

// TestTransfer: a read fetches little more than the bytes read, and reads in a row fetch each byte once.
func TestTransfer(t *testing.T) {
	address, sent := remoteCounting(t)
	f, err := OpenRemote(context.Background(), address, RemoteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.ReadAt(make([]byte, 10), 5*Block+100)
	f.ReadAt(make([]byte, 10), 5*Block+500)
	if n := sent.Load(); n > 2*Block {
		t.Errorf("%d bytes for the end and two reads of 10 bytes, want at most %d", n, 2*Block)
	}
	sent.Store(0)
	if b, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size())); err != nil || !bytes.Equal(b, remoteContents) {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	if n := sent.Load(); n > f.Size() {
		t.Errorf("%d bytes for a file of %d", n, f.Size())
	}
}

// TestNoRanges: a small file of a server without ranges is copied, a large one refused.
func TestNoRanges(t *testing.T) {
	large := false
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if large {
			w.Header().Set("Content-Length", fmt.Sprint(MaxCopy+1))
			return
		}
		w.Write(remoteContents)
	}))
	defer s.Close()
	f, err := OpenRemote(context.Background(), s.URL, RemoteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1000)
	if _, err := f.ReadAt(b, 70_000); err != nil || !bytes.Equal(b, remoteContents[70_000:71_000]) {
		t.Errorf("the copy has other contents: %v", err)
	}
	large = true
	if _, err := OpenRemote(context.Background(), s.URL, RemoteOptions{}); !errors.Is(err, errNoRanges) {
		t.Errorf("a large file: %v, want %v", err, errNoRanges)
	}
}

// TestErrors: errors name the server, and arrive soon.
func TestErrors(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	elsewhere := strings.Replace(other.URL, "127.0.0.1", "localhost", 1)
	mux := http.NewServeMux()
	mux.Handle("/away", http.RedirectHandler(elsewhere+"/x.zip", http.StatusFound))
	mux.HandleFunc("/secret", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	hold := make(chan struct{})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Range", "bytes 0-999/1000")
		w.WriteHeader(http.StatusPartialContent)
		w.(http.Flusher).Flush()
		<-hold
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	defer close(hold)
	secure := httptest.NewTLSServer(mux)
	defer secure.Close()
	dead := httptest.NewServer(mux)
	dead.Close()
	for _, test := range []struct {
		name, address string
		is            error
		want          []string
	}{
		{"a dead server", dead.URL + "/x.zip", nil, []string{dead.URL, "connection refused"}},
		{"an unknown certificate", secure.URL + "/x.zip", nil, []string{secure.URL, "certificate"}},
		{"a redirect to another host", s.URL + "/away", ErrRedirect, []string{s.URL, "localhost"}},
		{"a refusal", s.URL + "/secret", errStatus, []string{s.URL, "403 Forbidden"}},
		{"a missing file", s.URL + "/none", errStatus, []string{"404 Not Found"}},
		{"a server that stops", s.URL + "/slow", errSlow, []string{s.URL, "50ms"}},
		{"no host", "http:///x", nil, []string{"http:///x"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := OpenRemote(context.Background(), test.address, RemoteOptions{Idle: 50 * time.Millisecond})
			if err == nil || test.is != nil && !errors.Is(err, test.is) {
				t.Fatalf("%v, want %v", err, test.is)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not contain %q", err, want)
				}
			}
		})
	}
}

// TestChanged: a file that changes while it is read is an error, not a mix of both.
func TestChanged(t *testing.T) {
	version := 1
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, version))
		http.ServeContent(w, r, "x.zip", time.Time{}, bytes.NewReader(remoteContents))
	}))
	defer s.Close()
	f, err := OpenRemote(context.Background(), s.URL, RemoteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	version = 2
	if _, err := f.ReadAt(make([]byte, 10), 0); !errors.Is(err, ErrChanged) {
		t.Errorf("%v, want %v", err, ErrChanged)
	}
}

// TestPassword: messages do not contain the password.
func TestPassword(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	_, err := OpenRemote(context.Background(), strings.Replace(s.URL, "//", "//me:hidden@", 1), RemoteOptions{})
	if err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("%v", err)
	}
}
