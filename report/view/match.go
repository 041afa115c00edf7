package view

import (
	"context"
	"net/http"
	"strconv"

	"gperf/internal/session"
	"gperf/report/key"
)

// maxFilter limits the length of a filter, in bytes.
const maxFilter = 1 << 12

// match answers with a bit for each sample of the table, in order, the lowest bit of a byte first: whether a filter
// selects the sample. The number of samples is in a header.
func (s *Server) match(w http.ResponseWriter, r *http.Request) {
	text := r.FormValue("filter")
	switch {
	case s.Sessions == nil:
		http.Error(w, "these recordings cannot be read again: gperf view --filter chooses their samples",
			http.StatusNotFound)
		return
	case len(text) > maxFilter:
		http.Error(w, "the filter is too long", http.StatusBadRequest)
		return
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	bits, n, err := matches(r.Context(), s.Sessions(), text)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Samples", strconv.Itoa(n))
	w.Write(bits)
}

// matches returns a bit for each sample of sessions that were not walked yet, and the number of samples. Recordings may
// lack a key that another one has.
func matches(ctx context.Context, list []*session.Session, text string) (bits []byte, n int, err error) {
	filters, impossible := make([]*key.Filter, len(list)), make([][]error, len(list))
	for i, s := range list {
		if filters[i], err = key.NewFilter(s.File, s.Symbols, text, s.Origin); err != nil {
			return nil, 0, err
		}
		impossible[i] = filters[i].Impossible()
	}
	if err := key.FirstImpossible(impossible...); err != nil {
		return nil, 0, err
	}
	for i, s := range list {
		f := filters[i]
		_, err := s.Walk(session.WalkOptions{Names: true}, func(b *session.Batch) error {
			for i := range b.Samples {
				if n%8 == 0 {
					bits = append(bits, 0)
				}
				if f.Match(&b.Samples[i]) {
					bits[n/8] |= 1 << (n % 8)
				}
				n++
			}
			b.Release()
			return ctx.Err() // the page may be gone
		})
		if err != nil {
			return nil, 0, err
		}
	}
	return bits, n, nil
}
