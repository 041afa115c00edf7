// Package debuginfod answers "what do servers have for a build ID?": it asks
// debuginfod servers for programs and their debug information, and keeps what
// they send where elfutils keeps it, so that both use each other's files.
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

	"gperf/symbolize/dso"
)

// Errors of asking servers; test for them with errors.Is.
var (
	ErrNotThere = errors.New("no server has it")
	ErrTooLarge = errors.New("too large")
)

// ServerError says why a server is not asked any more.
type ServerError struct {
	URL string
	Err error
}

func (e *ServerError) Error() string { return fmt.Sprintf("server %s: %v", e.URL, e.Err) }

func (e *ServerError) Unwrap() error { return e.Err }

// noAnswer is the error of a server that sent too little for so long.
type noAnswer time.Duration

func (e noAnswer) Error() string { return fmt.Sprintf("no answer within %v", time.Duration(e)) }

// Progress is what a Client is doing.
type Progress struct {
	Files       int   // that are being asked for at this moment
	Bytes, Size int64 // received, and expected as far as servers send sizes
}

// Client asks servers. It may be used from several goroutines.
type Client struct {
	// Dir is the cache.
	Dir string
	// Timeout is how long a server may take to send 100 KB, or all there is; one
	// that takes longer is not asked again.
	Timeout time.Duration
	// MaxSize is how many bytes a file may have.
	MaxSize int64
	// Progress, if set, is called when downloads progress. Its calls do not
	// overlap.
	Progress func(Progress)

	http    http.Client
	slots   chan struct{} // one for each file that is asked for at a time
	cleaned sync.Once

	mu      sync.Mutex
	servers []*server
	files   map[string]*file // by their paths in the cache
	now     Progress
}

// server is a server, and why it is not asked any more.
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

// defaultMaxSize is more than any debug information has.
const defaultMaxSize = 16 << 30

// parallel is how many files are asked for at a time.
const parallel = 8

// New returns a client of the servers in a list as DEBUGINFOD_URLS has it, nil if
// it names none. DEBUGINFOD_CACHE_PATH, XDG_CACHE_HOME, DEBUGINFOD_TIMEOUT (in
// seconds) and DEBUGINFOD_MAXSIZE (in bytes) are heeded.
func New(urls string) *Client {
	c := &Client{Dir: cacheDir(), Timeout: defaultTimeout, MaxSize: defaultMaxSize, slots: make(chan struct{}, parallel), files: map[string]*file{}}
	for url := range strings.FieldsSeq(urls) {
		if !strings.HasPrefix(url, "ima:") { // says how signatures are checked: of files there are none here
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

// cacheDir is where elfutils keeps files.
func cacheDir() string {
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

// Find returns the path of the file that servers or the cache have for a build ID:
// what is dso.DebugFile or dso.CodeFile. Each is asked for once.
func (c *Client) Find(id dso.BuildID, what string) (path string, err error) {
	if c.Dir == "" {
		return "", errors.New("debuginfod: there is no home directory for files; DEBUGINFOD_CACHE_PATH names another")
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

// tell changes the progress and passes it to Progress.
func (c *Client) tell(change func(*Progress)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.now)
	if c.Progress != nil {
		c.Progress(c.now)
	}
}
