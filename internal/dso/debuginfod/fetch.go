package debuginfod

import (
	"bufio"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"gperf/internal/dso"
)

// fetch asks the servers in turn for a file, and keeps it at path.
func (c *Client) fetch(id dso.BuildID, what, path string) error {
	c.slots <- struct{}{}
	c.update(func(p *Progress) { p.Files++ })
	var in, size int64
	defer func() {
		c.update(func(p *Progress) {
			p.Files--
			p.Bytes -= in
			p.Size -= size
		})
		<-c.slots
	}()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	c.cleaned.Do(func() {
		removePartials(c.Dir)
		c.clean()
	})
	var failed error
	for _, s := range c.servers {
		if dead := c.isDead(s); dead != nil {
			failed = dead
			continue
		}
		err := c.fetchFrom(s, id, what, path, func(more, of int64) {
			c.update(func(p *Progress) {
				p.Bytes += more
				p.Size += of - size
			})
			in, size = in+more, of
		})
		if err == nil {
			return nil
		}
		if !errors.Is(err, errNotThere) {
			failed = err
		}
	}
	if failed != nil {
		return failed
	}
	missing(path)
	return errNotThere
}

func (c *Client) isDead(s *server) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.dead == nil { // or it were an error that is nil
		return nil
	}
	return s.dead
}

// patience is how many bytes a server sends at least within the timeout.
const patience = 100 << 10

// fetchFrom asks one server. A server that does not answer is dead from then on.
func (c *Client) fetchFrom(s *server, id dso.BuildID, what, path string, report func(more, of int64)) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	watch := time.AfterFunc(c.Timeout, func() { cancel(noAnswer(c.Timeout)) })
	defer watch.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/buildid/%s/%s", s.url, id, what), nil)
	if err != nil {
		return c.bury(s, err)
	}
	req.Header.Set("User-Agent", "gperf")
	resp, err := c.http.Do(req)
	if err != nil {
		return c.bury(s, cause(ctx, err))
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return errNotThere
	case resp.StatusCode != http.StatusOK:
		return &ServerError{s.url, errors.New(resp.Status)}
	}
	most := min(c.MaxSize, dso.SpareSpace(filepath.Dir(path)))
	if resp.ContentLength > most {
		return &ServerError{s.url, fmt.Errorf("%w: %d bytes, at most %d (--debuginfod-max; %s)", errTooLarge,
			resp.ContentLength, most, dso.SpareText)}
	}
	body := &watched{r: resp.Body, left: patience, report: func(n int64) {
		report(n, max(resp.ContentLength, 0))
	}, again: func() { watch.Reset(c.Timeout) }}
	err = keep(io.LimitReader(body, most+1), most, id, path)
	if body.err != nil {
		return c.bury(s, cause(ctx, body.err))
	}
	if err != nil {
		return &ServerError{s.url, err}
	}
	return nil
}

// cause returns why a request ended: the timeout rather than the error that it caused.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil {
		return why
	}
	return err
}

// bury ends the use of a server.
func (c *Client) bury(s *server, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.dead == nil {
		s.dead = &ServerError{s.url, err}
	}
	return s.dead
}

// watched is a server's response whose speed is checked.
type watched struct {
	r      io.Reader
	left   int // bytes before the timeout restarts
	report func(n int64)
	again  func()
	err    error // other than io.EOF
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.r.Read(b)
	w.report(int64(n))
	if w.left -= n; w.left <= 0 {
		w.left = patience
		w.again()
	}
	if err != nil && err != io.EOF {
		w.err = err
	}
	return n, err
}

// keep writes the response to path, if it is the file of that build ID.
func keep(r io.Reader, most int64, id dso.BuildID, path string) error {
	r = bufio.NewReader(r)
	if head, _ := r.(*bufio.Reader).Peek(len(elf.ELFMAG)); string(head) != elf.ELFMAG {
		return dso.ErrNotELF // before anything is written
	}
	tmp, err := newPartial(path)
	if err != nil {
		return err
	}
	defer tmp.Close()
	n, err := io.Copy(tmp, r)
	if err != nil {
		return err
	}
	if n > most {
		return fmt.Errorf("%w: more than %d bytes (--debuginfod-max; %s)", errTooLarge, most, dso.SpareText)
	}
	im, err := dso.NewImage(tmp, n, path)
	if err != nil {
		return err
	}
	if got := im.BuildID(); !got.Matches(id) {
		return fmt.Errorf("%w: it is %s", dso.ErrMismatch, got)
	}
	if err := tmp.Chmod(0o400); err != nil {
		return err
	}
	return tmp.keep(path)
}
