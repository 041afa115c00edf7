// This file serves the page on this machine, and opens it in the browser where there is a display.

package view

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"time"

	"golang.org/x/net/netutil"
)

// Site is a listener with the secret part of its address.
type Site struct {
	net.Listener
	Token string
	// Hosts lists the names by which browsers may address the site; nil: see view.Server.
	Hosts []string
}

// Listen listens on addr, HOST:PORT. Without a host, that is loopback; without a port, any free one.
func Listen(addr string) (*Site, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("--http %s: %w", addr, err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port))
	if err != nil {
		return nil, fmt.Errorf("--http %s: %w", addr, err)
	}
	s := &Site{Listener: l, Token: rand.Text()}
	if s.ip().IsLoopback() {
		s.Hosts = []string{"127.0.0.1", "::1", "localhost"}
	}
	return s, nil
}

func (s *Site) ip() net.IP { return s.Addr().(*net.TCPAddr).IP }

// URL returns the address for browsers.
func (s *Site) URL() string {
	addr := s.Addr().(*net.TCPAddr)
	host := addr.IP.String()
	if name, err := os.Hostname(); addr.IP.IsUnspecified() && err == nil {
		host = name
	}
	return fmt.Sprintf("http://%s/%s/", net.JoinHostPort(host, fmt.Sprint(addr.Port)), s.Token)
}

// Limits of connections: more of them wait, also of people who do not know the address.
const (
	maxConnections = 256
	maxHeader      = 64 << 10 // bytes
	idleTime       = time.Minute
)

// requestTime is how long a connection may take to send a request. Tests shorten it.
var requestTime = 10 * time.Second

// Serve answers requests until ctx is done. Then it closes the port and all connections.
func (s *Site) Serve(ctx context.Context, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: requestTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(netutil.LimitListener(s.Listener, maxConnections)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// browsers are the commands that open an address in the user's browser.
var browsers = map[string][]string{"darwin": {"open"}, "windows": {"rundll32", "url.dll,FileProtocolHandler"}}

// OpenBrowser opens an address in the user's browser, if there is a display.
func OpenBrowser(url string) error {
	command, shown := browsers[runtime.GOOS]
	if !shown {
		command, shown = []string{"xdg-open"}, os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
	}
	if !shown {
		return nil
	}
	c := exec.Command(command[0], append(command[1:len(command):len(command)], url)...)
	if err := c.Start(); err != nil {
		return fmt.Errorf("opening the browser: %w", err)
	}
	go c.Wait()
	return nil
}
