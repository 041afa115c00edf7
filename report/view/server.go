package view

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gperf/internal/intern"
	"gperf/internal/session"
	"gperf/report/annotate"
	"gperf/report/table"
)

// Server serves the page of a table, which Show replaces while a recording is made.
type Server struct {
	// Token is the first part of all paths. Requests without it get 403.
	Token string
	// Hosts lists the names by which the server may be addressed, without port; nil: IP addresses, localhost and the
	// machine's own name. Others get 403: a page of another site could have a name that resolves to this machine.
	Hosts []string
	// Open returns a new session of the recording, to annotate its functions; nil if it cannot be read again.
	Open func() (*session.Session, error)
	// Sessions returns new sessions of the table's recordings, in order, to match their samples with a filter; nil if
	// they cannot be read again.
	Sessions func() []*session.Session
	// Sources maps source paths to files.
	Sources annotate.Sources
	// NoSource means that the text of source files is not shown.
	NoSource bool

	mu      sync.Mutex
	about   About
	table   *table.Table
	block   []byte
	files   []string
	notices []string
	changed chan struct{} // closed at the next change
	pprof   http.Handler  // of the table, nil until it is asked for

	reading sync.Mutex // recordings are read again by one request at a time
}

// Show makes the server serve this table.
func (s *Server) Show(t *table.Table, about About) error {
	var b bytes.Buffer
	if err := writeBlock(&b, t, about); err != nil {
		return err
	}
	files, _ := sourceFiles(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table, s.about, s.block, s.files, s.pprof = t, about, b.Bytes(), files, nil
	s.wake()
	return nil
}

// Notify shows a message on all open pages, for example that the recording's file was replaced.
func (s *Server) Notify(message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notices = append(s.notices, message)
	s.wake()
}

// wake ends the requests that wait for a change. The caller holds mu.
func (s *Server) wake() {
	if s.changed != nil {
		close(s.changed)
	}
	s.changed = make(chan struct{})
}

// ServeHTTP checks the host and token, and answers.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	token, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case !s.isHost(r.Host):
		http.Error(w, "unknown host: use the address that gperf view printed", http.StatusForbidden)
	case subtle.ConstantTimeCompare([]byte(token), []byte(s.Token)) != 1:
		http.Error(w, "wrong token: use the address that gperf view printed", http.StatusForbidden)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
	case r.URL.Path == "/"+s.Token:
		http.Redirect(w, r, "/"+s.Token+"/", http.StatusMovedPermanently)
	default:
		s.answer(w, r, rest)
	}
}

// isHost reports whether a request's Host header may name this server.
func (s *Server) isHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if s.Hosts != nil {
		return slices.Contains(s.Hosts, host)
	}
	own, err := os.Hostname()
	return host == "localhost" || net.ParseIP(host) != nil || err == nil && host == own
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, path string) {
	switch path {
	case "":
		s.mu.Lock()
		p := assemble(s.about.Title, "")
		s.mu.Unlock()
		w.Header().Set("Content-Security-Policy", p.policy+"; frame-ancestors 'none'")
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		io.WriteString(w, p.text)
	case "data":
		s.mu.Lock()
		block := s.block
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.Itoa(len(block)))
		w.Write(block)
	case "changes":
		s.changes(w, r)
	case "source":
		s.source(w, r)
	case "match":
		s.match(w, r)
	case "annotate":
		s.annotate(w, r)
	default:
		if name, ok := strings.CutPrefix(path, "pprof"); ok && (name == "" || name[0] == '/') {
			s.servePprof(w, r, name)
			return
		}
		http.NotFound(w, r)
	}
}

// longPoll is how long a request waits for a change.
const longPoll = 25 * time.Second

// changes answers with the version of the table, and all messages, once they are not those that the page has.
func (s *Server) changes(w http.ResponseWriter, r *http.Request) {
	version, _ := strconv.Atoi(r.FormValue("version"))
	notices, _ := strconv.Atoi(r.FormValue("notices"))
	timeout := time.After(longPoll)
	for waiting := true; ; {
		s.mu.Lock()
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed, now := s.changed, struct {
			Version int      `json:"version"`
			Live    bool     `json:"live"`
			Notices []string `json:"notices"`
		}{s.about.Version, s.about.Live, s.notices}
		s.mu.Unlock()
		if now.Version != version || len(now.Notices) != notices || !waiting {
			writeJSON(w, now)
			return
		}
		select {
		case <-changed:
		case <-timeout:
			waiting = false
		case <-r.Context().Done():
			return
		}
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

// source answers with the lines of a source file of the table, by its number there: no other file is readable.
func (s *Server) source(w http.ResponseWriter, r *http.Request) {
	i, err := strconv.Atoi(r.FormValue("file"))
	s.mu.Lock()
	list := s.files
	s.mu.Unlock()
	if err != nil || i < 1 || i >= len(list) {
		http.Error(w, "no such file in the recording", http.StatusNotFound)
		return
	}
	if s.NoSource {
		http.Error(w, list[i]+" is shown on other machines with gperf view --source only", http.StatusForbidden)
		return
	}
	lines, err := s.Sources.Lines(list[i], nil)
	if hidden := (*annotate.HiddenError)(nil); errors.As(err, &hidden) {
		http.Error(w, hidden.Error()+". "+hidden.Hint(), http.StatusForbidden)
		return
	}
	if err != nil {
		http.Error(w, list[i]+" is not on this machine", http.StatusNotFound)
		return
	}
	writeJSON(w, lines)
}

// sourceFiles returns the source files of a table, and their indexes by frame.
func sourceFiles(t *table.Table) (list []string, byFrame []int32) {
	list, byFrame = []string{""}, make([]int32, len(t.Frames))
	index := map[string]int32{"": 0}
	for i := range t.Frames {
		byFrame[i] = intern.Index(index, &list, t.Frames[i].File)
	}
	return list, byFrame
}

// annotate answers with the code of a function of the table, by its number, as text.
func (s *Server) annotate(w http.ResponseWriter, r *http.Request) {
	i, err := strconv.Atoi(r.FormValue("function"))
	s.mu.Lock()
	t := s.table
	s.mu.Unlock()
	switch {
	case s.Open == nil:
		http.Error(w, "a recording that is read from a pipe cannot be annotated: record to a file", http.StatusNotFound)
		return
	case err != nil || i < 0 || i >= len(t.Functions):
		http.Error(w, "no such function in the recording", http.StatusNotFound)
		return
	}
	text, err := s.codeOf(t, &t.Functions[i])
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Write(text)
}

// codeOf annotates a function of a table. It reads the recording again, one request after the other.
func (s *Server) codeOf(t *table.Table, f *table.Function) ([]byte, error) {
	place, err := annotate.ParsePlace(f.Name)
	if err != nil {
		return nil, err
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	again, err := s.Open()
	if err != nil {
		return nil, err
	}
	dsos := []string{t.DSOs[f.DSO].Name}
	if len(t.Recordings) > 1 { // in the recording that is read again, the file may be at another path
		dsos = append(dsos, t.DSOs[f.DSO].Short)
	}
	var text bytes.Buffer
	// The first reading reported damage.
	_, missing, err := annotate.Text(&text, again, annotate.Options{Place: place, DSOs: dsos,
		Sources: s.Sources, NoSource: s.NoSource})
	if err = errors.Join(append(missing, err)...); text.Len() == 0 && err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}
