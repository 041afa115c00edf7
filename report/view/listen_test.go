package view

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The address is on loopback with a long token, and the port is closed at the end.
func TestServe(t *testing.T) {
	site, err := Listen(":0")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(site.URL(), "http://127.0.0.1:") || len(site.Token) < 26 || site.Hosts == nil {
		t.Errorf("%s, hosts %v", site.URL(), site.Hosts)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- site.Serve(ctx, http.NotFoundHandler()) }()
	if answer, err := http.Get(site.URL()); err != nil || answer.StatusCode != http.StatusNotFound {
		t.Errorf("%v, %v", answer, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", site.Addr().String()); err == nil {
		c.Close()
		t.Error("the port is open")
	}
}

// Connections that send nothing, half of a request or a header without an end are closed, and others are answered.
func TestHostileConnections(t *testing.T) {
	defer func(d time.Duration) { requestTime = d }(requestTime)
	requestTime = time.Second
	site, err := Listen(":0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go site.Serve(ctx, http.NotFoundHandler())
	header := "GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 2*maxHeader)
	var open []net.Conn
	for i := range 2 * maxConnections {
		c, err := net.Dial("tcp", site.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		open = append(open, c)
		go c.Write([]byte([...]string{"", "GET / HT", header}[i%3])) // until the other end closes
	}
	client := http.Client{Timeout: time.Minute}
	if answer, err := client.Get(site.URL()); err != nil || answer.StatusCode != http.StatusNotFound {
		t.Errorf("a request beside them: %v, %v", answer, err)
	}
	for i, c := range open {
		c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("connection %d stays open", i)
		}
	}
}

func TestListenErrors(t *testing.T) {
	for _, addr := range []string{"nohost", "127.0.0.1:99999"} {
		if _, err := Listen(addr); err == nil || !strings.Contains(err.Error(), "--http "+addr) {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

// Watch reports that a file grew, and then that its path names another one.
func TestWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perf.data")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(path, "a")
	fd, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer fd.Close()
	changes := make(chan Change, 9)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	go func() {
		Watch(ctx, fd, path, func(c Change) { changes <- c })
		close(changes)
	}()
	grow, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer grow.Close()
	for seen := false; !seen; { // Watch may not have read the file's size when it grows first
		if _, err := grow.WriteString("b"); err != nil {
			t.Fatal(err)
		}
		select {
		case c := <-changes:
			if seen = true; c != Grew {
				t.Errorf("first change: %d", c)
			}
		case <-time.After(2 * often):
		}
	}
	write(path+".new", "abc")
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	c := <-changes
	for c == Grew { // the file grew more than once
		c = <-changes
	}
	if c != Replaced {
		t.Errorf("last change: %d", c)
	}
	if c, more := <-changes; more {
		t.Errorf("another change: %d", c)
	}
}
