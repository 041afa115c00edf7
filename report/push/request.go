package push

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"

	"gperf/internal/spool"
)

// request is an entry of the spool: this in JSON, a line feed, and the body. It contains no secrets.
type request struct {
	Method string            `json:"method,omitempty"`
	Path   string            `json:"path,omitempty"` // below the URL's
	Query  url.Values        `json:"query,omitempty"`
	Header map[string]string `json:"header,omitempty"`
	// Once: the server may have it from another recording; ask before sending it, and remember that it was sent.
	Once bool `json:"once,omitempty"`
}

// openedRequest is a request to send.
type openedRequest struct {
	request
	fd   *os.File
	at   int64 // of the body
	size int64 // of the body
}

// openRequest opens an entry. A damaged one is a *rejectedError.
func openRequest(path string) (*openedRequest, error) {
	fd, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r := &openedRequest{fd: fd}
	st, err := fd.Stat()
	if err == nil {
		err = r.readHead(st.Size())
	}
	if err != nil {
		fd.Close()
		return nil, &rejectedError{fmt.Errorf("read %s: %w", path, err)}
	}
	return r, nil
}

// maxHead is the maximum size of the head of an entry, in bytes.
const maxHead = 1 << 20

func (r *openedRequest) readHead(size int64) error {
	line, err := bufio.NewReader(io.LimitReader(r.fd, maxHead)).ReadBytes('\n')
	if err != nil {
		return err
	}
	r.at, r.size = int64(len(line)), size-int64(len(line))
	return json.Unmarshal(line, &r.request)
}

// body returns a reader of the body.
func (r *openedRequest) body() *io.SectionReader { return io.NewSectionReader(r.fd, r.at, r.size) }

func (r *openedRequest) Close() error { return r.fd.Close() }

// create begins an entry of the encoder's group. The caller writes the body.
func (e *encoder) create(name string, r *request) (*spool.File, error) {
	f, err := e.group.Create(e.ctx, name)
	if err != nil {
		return nil, err
	}
	head, err := json.Marshal(r)
	if err == nil {
		_, err = f.Write(append(head, '\n'))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// add adds an entry. The number is the name.
func (e *encoder) add(r *request, body []byte) error {
	f, err := e.create(fmt.Sprintf("%08d", e.batches), r)
	if err != nil {
		return err
	}
	if _, err := f.Write(body); err != nil {
		f.Close()
		return err
	}
	e.batches++
	return f.Close()
}
