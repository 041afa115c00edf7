package session

import (
	"bytes"
	"slices"

	"gperf/format"
)

// A sample taken with attr.defer_callchain is still without user frames: the chain ends in a mark and a cookie. The
// frames follow, before the thread returns to user space, in a PERF_RECORD_CALLCHAIN_DEFERRED with that cookie. The
// walk holds the sample back until then, and so passes it on as late as perf prints it
// (evlist__deliver_deferred_callchain of tools/perf/util/session.c).

// held is a sample that waits for user frames.
type held struct {
	raw    format.Raw
	tid    int32
	cookie uint64
}

// maxHeld limits the waiting samples. The kernel writes the record of one before
// the thread is sampled in user space again.
const maxHeld = 4096

// cookieOf returns the cookie of a chain whose user frames follow later.
func cookieOf(a *format.Attr, chain format.Words) (uint64, bool) {
	n := chain.Len()
	if a.Flags&format.FlagDeferCallchain == 0 || n < 2 || chain.At(n-2) != format.ContextUserDeferred {
		return 0, false
	}
	return chain.At(n - 1), true
}

// hold keeps a copy of the sample, because the bytes are valid only during the batch.
func (w *walk) hold(raw format.Raw, tid int32, cookie uint64) {
	raw.Data = bytes.Clone(raw.Data)
	w.held = append(w.held, held{raw, tid, cookie})
}

// deferred delivers the thread's held samples. Samples with the record's cookie get the record's frames, other
// samples get no user frames.
func (w *walk) deferred(r *format.CallchainDeferred) {
	waiting := w.held[:0]
	for _, h := range w.held {
		switch {
		case h.tid != r.ID.TID:
			waiting = append(waiting, h)
		case h.cookie == r.Cookie:
			w.release(h, r.Callchain)
		default:
			w.release(h, format.Words{})
		}
	}
	clear(w.held[len(waiting):])
	w.held = waiting
}

// release delivers a held sample. User frames, if there are any, replace the cookie.
func (w *walk) release(h held, user format.Words) {
	s := w.batch.add()
	w.file.Sample(h.raw, &s.Sample) // without an error, as before hold
	if user.Len() > 0 {
		kernel := s.Callchain.Slice(0, s.Callchain.Len()-1)
		s.Callchain = format.NewWords(append(bytes.Clone(kernel.Bytes()), user.Bytes()...), w.file.Order)
	}
	w.deliver()
}

// flush delivers held samples, the oldest first, until at most n wait. As in perf, the cookies stay in place of the
// user frames.
func (w *walk) flush(n int) {
	for len(w.held) > n {
		h, first := w.held[0], len(w.batch.Samples)
		w.held = w.held[1:]
		w.release(h, format.Words{})
		for i := range w.batch.Samples[first:] {
			s := &w.batch.Samples[first+i]
			n := s.User.Len()
			if n == 0 {
				continue // a damaged chain contains no frames
			}
			cookie := w.frames.add(nil, h.cookie, false, false)
			cookie.label = "(cookie)"
			s.User = w.frames.newPart(append(slices.Clip(s.User.IDs[:n-1]), int32(cookie.ID)))
		}
	}
}
