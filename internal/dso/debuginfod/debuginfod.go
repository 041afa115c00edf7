// Package debuginfod asks debuginfod servers for programs and their debug information by build ID, and keeps the
// files where elfutils keeps them, so that both use each other's files.
//
// It speaks the protocol of debuginfod(8), and heeds the environment and the
// cache of debuginfod-find(1).
package debuginfod

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"gperf/internal/dso"
)

// Errors of asking servers; test for them with errors.Is.
var (
	errNotThere = errors.New("not found on any server")
	errTooLarge = errors.New("too large")
)

// ServerError says why the client stopped using a server.
type ServerError struct {
	URL string
	Err error
}

func (e *ServerError) Error() string { return fmt.Sprintf("server %s: %v", e.URL, e.Err) }

func (e *ServerError) Unwrap() error { return e.Err }

// noAnswer is the error of a server that was too slow for this long.
type noAnswer time.Duration

func (e noAnswer) Error() string { return fmt.Sprintf("no answer within %v", time.Duration(e)) }

// Progress is the state of a Client's downloads.
type Progress struct {
	Files       int   // that are being asked for at this moment
	Bytes, Size int64 // received, and expected as far as servers send sizes
}

// Client downloads from servers. It is safe for concurrent use.
type Client struct {
	// Dir is the cache.
	Dir string
	// Timeout is how long a server may take to send 100 KB, or the complete file. A
	// slower server is not used again.
	Timeout time.Duration
	// MaxSize is the maximum size of a file in bytes.
	MaxSize int64
	// Progress, if set, is called when downloads progress. The calls do not overlap.
	Progress func(Progress)

	http    http.Client
	slots   chan struct{} // one for each file that is asked for at a time
	cleaned sync.Once

	mu      sync.Mutex
	servers []*server
	files   map[string]*file // by path in the cache
	now     Progress
}

// server is a server, and the error after which it is not used any more.
type server struct {
	url  string
	dead *ServerError
}

// file is a file that was asked for.
type file struct {
	once sync.Once
	err  error
}

// elfutils' defaults (debuginfod-client.c).
const (
	defaultTimeout = 90 * time.Second
	defaultMissFor = 10 * time.Minute
)

// defaultMaxSize is larger than the debug information of nearly all programs.
const defaultMaxSize = 2 << 30

// parallel is how many files are asked for at a time.
const parallel = 8

// New returns a client of the servers in a list in the form of DEBUGINFOD_URLS, nil if it names none.
// DEBUGINFOD_CACHE_PATH, XDG_CACHE_HOME, DEBUGINFOD_TIMEOUT (in seconds) and DEBUGINFOD_MAXSIZE (in bytes) are
// heeded.
func New(urls string) *Client {
	c := &Client{Dir: CacheDir(), Timeout: defaultTimeout, MaxSize: defaultMaxSize,
		slots: make(chan struct{}, parallel), files: map[string]*file{}}
	for url := range strings.FieldsSeq(urls) {
		// sets how to check signatures, which the client does not support for files
		if !strings.HasPrefix(url, "ima:") {
			c.servers = append(c.servers, &server{url: strings.TrimSuffix(url, "/")})
		}
	}
	if len(c.servers) == 0 {
		return nil
	}
	if s, err := strconv.Atoi(os.Getenv("DEBUGINFOD_TIMEOUT")); err == nil && s > 0 {
		c.Timeout = time.Duration(s) * time.Second
	}
	if n, err := strconv.ParseInt(os.Getenv("DEBUGINFOD_MAXSIZE"), 10, 64); err == nil && n > 0 {
		c.MaxSize = n
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.RegisterProtocol("file", http.NewFileTransport(http.Dir("/")))
	c.http.Transport = transport
	return c
}

// Check returns an error for the first of the servers that is no URL of a debuginfod server or a directory.
func Check(urls string) error {
	for url := range strings.FieldsSeq(urls) {
		scheme, rest, ok := strings.Cut(url, "://")
		if known := scheme == "http" || scheme == "https" || scheme == "file"; !strings.HasPrefix(url, "ima:") &&
			(!ok || !known || rest == "") {
			return fmt.Errorf("%q is not a URL: use https://HOST, http://HOST or file:///DIRECTORY", url)
		}
	}
	return nil
}

// CacheDir returns the directory of elfutils' cache.
func CacheDir() string {
	if dir := os.Getenv("DEBUGINFOD_CACHE_PATH"); dir != "" {
		return dir
	}
	if home, err := os.UserHomeDir(); err == nil {
		if old := filepath.Join(home, ".debuginfod_client_cache"); isDir(old) {
			return old
		}
	}
	if dir, err := os.UserCacheDir(); err == nil {
		return filepath.Join(dir, "debuginfod_client")
	}
	return ""
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// Find returns the path of the file for a build ID, from the cache or a server. what is dso.DebugFile or
// dso.CodeFile. Each is asked for once.
func (c *Client) Find(id dso.BuildID, what string) (path string, err error) {
	if c.Dir == "" {
		return "", errors.New("debuginfod: no home directory for the cache: set DEBUGINFOD_CACHE_PATH")
	}
	path = filepath.Join(c.Dir, id.String(), what)
	c.mu.Lock()
	f := c.files[path]
	if f == nil {
		f = new(file)
		c.files[path] = f
	}
	c.mu.Unlock()
	f.once.Do(func() {
		if f.err = c.cached(path); f.err == errUnknown {
			f.err = c.fetch(id, what, path)
		}
	})
	if f.err != nil {
		return "", fmt.Errorf("debuginfod: %s of build id %s: %w", what, id, f.err)
	}
	return path, nil
}

// Dead returns the servers that are not asked any more.
func (c *Client) Dead() (l []*ServerError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.servers {
		if s.dead != nil {
			l = append(l, s.dead)
		}
	}
	return l
}

// update changes the progress and passes it to Progress.
func (c *Client) update(change func(*Progress)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.now)
	if c.Progress != nil {
		c.Progress(c.now)
	}
}
