// A File fetches the ranges that are read (RFC 9110, section 14), with some bytes after them, and keeps the latest.
//
// A server without ranges sends the complete file: a File then copies it to a temporary file, up to MaxCopy bytes.
// Nothing waits without end: the time of each request is limited, and so is the time without data.

package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Limits of the requests.
const (
	// Block is how many bytes a request fetches at least, unless the file ends before.
	Block = 64 << 10
	// maxRange is how many bytes a request of consecutive reads fetches.
	maxRange = 1 << 20
	// maxKept is how many bytes a File keeps.
	maxKept = 16 << 20
	// maxSize is the size of the largest file: its blocks, and those that follow, have offsets that fit.
	maxSize = 1 << 62
	// MaxCopy is the size of the largest file that is copied from a server without ranges, in bytes.
	MaxCopy = 256 << 20
)

// Limits of time.
const (
	dialTimeout   = 10 * time.Second // to connect
	answerTimeout = 30 * time.Second // from the request to the answer's header
	idleTimeout   = 30 * time.Second // in which the server sends nothing
	rangeTimeout  = 2 * time.Minute  // for one range, however slowly it arrives
)

// Errors of opening and reading; test for them with errors.Is.
var (
	errNoRanges = errors.New("the server sends complete files only")
	ErrChanged  = errors.New("the file was changed on the server while it was read")
	ErrRedirect = errors.New("redirected to another host")
	errStatus   = errors.New("refused by the server")
	errSlow     = errors.New("the server has stopped to send")
)

// IsURL reports whether a path is a file on an HTTP server.
func IsURL(path string) bool {
	return strings.HasPrefix(path, "http://") || strings.HasPrefix(path, "https://")
}

// RemoteOptions change how a file is fetched. The zero value is for users.
type RemoteOptions struct {
	Client *http.Client // nil: one with the limits of this package
	// Idle is the time in which the server may send nothing, 0 for the usual one.
	Idle time.Duration
	// Copying, if set, is called while a complete file is copied, with the number of bytes so far and of all, 0 if
	// that is unknown.
	Copying func(n, of int64)
}

// RemoteFile is a file on a server. It may be read by several goroutines.
type RemoteFile struct {
	opts     RemoteOptions
	url      string
	name     string // the URL without a password
	size     int64
	tag      string // If-Range's validator, "" if the server sends none
	modified time.Time
	copied   *tempFile // the complete file, nil if the server supports ranges

	mu     sync.Mutex
	blocks map[int64]*block // by number
	order  []int64          // numbers of blocks, the one that was read last at the end
	last   int64            // the block after the latest request
	count  int64            // how many blocks the next request of consecutive reads fetches
}

// block is Block bytes of the file, or the rest of it. ready is closed when b or err is set.
type block struct {
	ready chan struct{}
	b     []byte
	err   error
}

// OpenRemote asks the server for a file. The first request fetches the end of the file, which contains the
// directory of a zip file.
func OpenRemote(ctx context.Context, address string, opts RemoteOptions) (*RemoteFile, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("open %s: not the address of a file on a server", address)
	}
	if opts.Client == nil {
		opts.Client = newClient()
	}
	if opts.Idle == 0 {
		opts.Idle = idleTimeout
	}
	f := &RemoteFile{opts: opts, url: address, name: u.Redacted(), blocks: map[int64]*block{}, count: 1}
	if err := f.open(ctx); err != nil {
		return nil, fmt.Errorf("open %s: %w", f.name, err)
	}
	return f, nil
}

// newClient returns a client that waits for nothing without end, and follows redirects only on the same host: the user
// named the machine whose data is shown.
func newClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: dialTimeout}).DialContext
	t.TLSHandshakeTimeout, t.ResponseHeaderTimeout = dialTimeout, answerTimeout
	t.DisableCompression = true // ranges are of the file's own bytes
	return &http.Client{Transport: t, CheckRedirect: sameHost}
}

// sameHost is the CheckRedirect of a client that follows redirects on one host only.
func sameHost(to *http.Request, via []*http.Request) error {
	switch from := via[0].URL; {
	case to.URL.Hostname() != from.Hostname():
		return fmt.Errorf("%w: from %s to %s", ErrRedirect, from.Host, to.URL.Host)
	case from.Scheme == "https" && to.URL.Scheme != "https":
		return fmt.Errorf("%w: from https to %s", ErrRedirect, to.URL.Scheme)
	case len(via) >= 10:
		return errors.New("redirected 10 times")
	}
	return nil
}

// open sends the first request.
func (f *RemoteFile) open(ctx context.Context) error {
	res, err := f.request(ctx, "bytes=-"+strconv.Itoa(Block))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	f.modified, _ = http.ParseTime(res.Header.Get("Last-Modified"))
	if f.tag = res.Header.Get("ETag"); strings.HasPrefix(f.tag, "W/") {
		f.tag = ""
	}
	f.tag = cmp.Or(f.tag, res.Header.Get("Last-Modified"))
	switch res.StatusCode {
	case http.StatusPartialContent:
		return f.openRanges(res)
	case http.StatusOK:
		return f.copy(res)
	case http.StatusRequestedRangeNotSatisfiable: // an empty file
		return nil
	}
	return statusError(res)
}

func statusError(res *http.Response) error { return fmt.Errorf("%w: %s", errStatus, res.Status) }

// openRanges keeps the end of the file.
func (f *RemoteFile) openRanges(res *http.Response) error {
	from, to, size, ok := contentRange(res.Header.Get("Content-Range"))
	if !ok || to != size {
		return fmt.Errorf("the server answers with the range %q", res.Header.Get("Content-Range"))
	}
	f.size = size
	b := make([]byte, to-from)
	if err := f.readFull(res.Body, b); err != nil {
		return err
	}
	start := (from + Block - 1) / Block
	for n := start; n*Block < size; n++ {
		f.keep(n, b[n*Block-from:min((n+1)*Block, size)-from])
	}
	return nil
}

// contentRange parses "bytes FROM-LAST/SIZE". to is the byte after the last.
func contentRange(text string) (from, to, size int64, ok bool) {
	var last int64
	if n, err := fmt.Sscanf(text, "bytes %d-%d/%d", &from, &last, &size); n != 3 || err != nil {
		return 0, 0, 0, false
	}
	ok = from >= 0 && from <= last && last < size && size <= maxSize && last-from < maxRange+Block
	return from, last + 1, size, ok
}

// keep adds a block that was fetched, and drops those that were not read for the longest time.
func (f *RemoteFile) keep(n int64, b []byte) {
	k := &block{ready: make(chan struct{}), b: b}
	close(k.ready)
	f.blocks[n] = k
	f.use(n)
}

// use notes that a block is read now.
func (f *RemoteFile) use(n int64) {
	for i, known := range f.order {
		if known == n {
			f.order = append(f.order[:i], f.order[i+1:]...)
			break
		}
	}
	f.order = append(f.order, n)
	for len(f.order) > maxKept/Block {
		delete(f.blocks, f.order[0])
		f.order = f.order[1:]
	}
}

// copy copies the complete file, which the server sends.
func (f *RemoteFile) copy(res *http.Response) error {
	if res.ContentLength > MaxCopy {
		return fmt.Errorf("%w, and this one has %d MB: download it, or use a server with ranges", errNoRanges,
			res.ContentLength>>20)
	}
	file, err := newTempFile()
	if err != nil {
		return err
	}
	f.copied = file
	f.size, err = f.copyTo(file.File, res)
	if err == nil && res.ContentLength >= 0 && f.size < res.ContentLength {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		file.Close()
	}
	return err
}

func (f *RemoteFile) copyTo(file *os.File, res *http.Response) (n int64, err error) {
	b := make([]byte, Block)
	for {
		got, err := f.read(res.Body, b)
		if n += int64(got); n > MaxCopy {
			return n, fmt.Errorf("%w, and this one has more than %d MB: download it, or use a server with ranges",
				errNoRanges, MaxCopy>>20)
		}
		if _, err := file.Write(b[:got]); err != nil {
			return n, fmt.Errorf("copying the file: %w", err)
		}
		if f.opts.Copying != nil {
			f.opts.Copying(n, max(res.ContentLength, 0))
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// request sends a request for a range.
func (f *RemoteFile) request(ctx context.Context, ranges string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Range", ranges)
	if f.tag != "" {
		req.Header.Set("If-Range", f.tag)
	}
	res, err := f.opts.Client.Do(req)
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		return nil, failed.Err // the caller adds the address
	}
	return res, err
}

// read reads from an answer, and ends it if nothing arrives for a while.
func (f *RemoteFile) read(body io.ReadCloser, b []byte) (int, error) {
	slow := time.AfterFunc(f.opts.Idle, func() { body.Close() })
	n, err := body.Read(b)
	if !slow.Stop() && err != nil && err != io.EOF {
		err = fmt.Errorf("%w: nothing for %v", errSlow, f.opts.Idle)
	}
	return n, err
}

func (f *RemoteFile) readFull(body io.ReadCloser, b []byte) error {
	for len(b) > 0 {
		n, err := f.read(body, b)
		b = b[n:]
		if len(b) > 0 && err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if len(b) > 0 && err != nil {
			return err
		}
	}
	return nil
}

// Name returns the file's address without a password.
func (f *RemoteFile) Name() string { return f.name }

// Size returns the file's size in bytes.
func (f *RemoteFile) Size() int64 { return f.size }

// Modified returns when the file was written, zero if unknown.
func (f *RemoteFile) Modified() time.Time { return f.modified }

// Close releases the file.
func (f *RemoteFile) Close() error {
	if f.copied != nil {
		return f.copied.Close()
	}
	f.opts.Client.CloseIdleConnections()
	return nil
}

// ReadAt implements io.ReaderAt.
func (f *RemoteFile) ReadAt(p []byte, off int64) (n int, err error) {
	if f.copied != nil {
		return f.copied.ReadAt(p, off)
	}
	if off < 0 || off >= f.size {
		return 0, io.EOF
	}
	want := p[:min(int64(len(p)), f.size-off)]
	for n < len(want) {
		at := off + int64(n)
		b, err := f.block(at/Block, (off+int64(len(want))-1)/Block)
		if err != nil {
			return n, fmt.Errorf("read %s: %w", f.name, err)
		}
		n += copy(want[n:], b[at%Block:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// block returns a block. If it is missing, it is fetched with the missing ones up to last, and with more of them after
// reads of consecutive blocks.
func (f *RemoteFile) block(n, last int64) ([]byte, error) {
	f.mu.Lock()
	if k := f.blocks[n]; k != nil {
		f.use(n)
		f.mu.Unlock()
		<-k.ready
		return k.b, k.err
	}
	if n != f.last {
		f.count = 1
	}
	count := min(max(last-n+1, f.count), maxRange/Block, (f.size+Block-1)/Block-n)
	list := []*block{}
	for i := range count {
		if f.blocks[n+i] != nil {
			break
		}
		k := &block{ready: make(chan struct{})}
		f.blocks[n+i] = k
		f.use(n + i)
		list = append(list, k)
	}
	f.last, f.count = n+int64(len(list)), min(2*f.count, maxRange/Block)
	f.mu.Unlock()
	f.fetch(n, list)
	return list[0].b, list[0].err
}

// fetch fetches consecutive blocks from number n on.
func (f *RemoteFile) fetch(n int64, list []*block) {
	from, to := n*Block, min((n+int64(len(list)))*Block, f.size)
	b, err := f.fetchRange(from, to)
	for i, k := range list {
		if err == nil {
			k.b = b[int64(i)*Block : min(int64(i+1)*Block, to-from)]
		}
		k.err = err
		close(k.ready)
	}
	if err == nil {
		return
	}
	f.mu.Lock() // the next read tries again
	defer f.mu.Unlock()
	for i := range list {
		delete(f.blocks, n+int64(i))
	}
}

func (f *RemoteFile) fetchRange(from, to int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), rangeTimeout)
	defer cancel()
	res, err := f.request(ctx, fmt.Sprintf("bytes=%d-%d", from, to-1))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusPartialContent:
	case http.StatusOK, http.StatusRequestedRangeNotSatisfiable: // If-Range does not match, or the file is shorter
		return nil, ErrChanged
	default:
		return nil, statusError(res)
	}
	if start, end, size, ok := contentRange(res.Header.Get("Content-Range")); !ok || start != from || end != to ||
		size != f.size {
		return nil, ErrChanged
	}
	b := make([]byte, to-from)
	return b, f.readFull(res.Body, b)
}
