package session

import (
	"bytes"

	"gperf/format"
)

// A sample taken with attr.defer_callchain has no user frames yet: its chain ends
// in a mark and a cookie. They come later, before the thread returns to user
// space, in a PERF_RECORD_CALLCHAIN_DEFERRED with that cookie. Until then the
// sample is held back, and so comes as late as perf shows it
// (evlist__deliver_deferred_callchain of tools/perf/util/session.c).

// held is a sample that waits for its user frames.
type held struct {
	raw    format.Raw
	tid    int32
	cookie uint64
}

// maxHeld is how many samples may wait; the kernel makes the record for one before
// the thread is sampled in user space again.
const maxHeld = 4096

// cookieOf returns the cookie of a chain whose user frames come later.
func cookieOf(a *format.Attr, chain format.Words) (uint64, bool) {
	n := chain.Len()
	if a.Flags&format.FlagDeferCallchain == 0 || n < 2 || chain.At(n-2) != format.ContextUserDeferred {
		return 0, false
	}
	return chain.At(n - 1), true
}

// hold keeps a copy of the sample, whose bytes are valid only during its batch.
func (h *History) hold(raw format.Raw, tid int32, cookie uint64) {
	raw.Data = bytes.Clone(raw.Data)
	h.held = append(h.held, held{raw, tid, cookie})
}

// deferred delivers to b the thread's samples that were held, with the frames of
// the record where the cookie is theirs.
func (h *History) deferred(f *format.File, r *format.CallchainDeferred, b *Batch, keep func(*Sample) bool) {
	waiting := h.held[:0]
	for _, w := range h.held {
		switch {
		case w.tid != r.ID.TID:
			waiting = append(waiting, w)
		case w.cookie == r.Cookie:
			h.release(f, w, r.Callchain, b, keep)
		default:
			h.release(f, w, format.Words{}, b, keep)
		}
	}
	clear(h.held[len(waiting):])
	h.held = waiting
}

// release delivers a held sample, its cookie replaced by user frames if there are
// any.
func (h *History) release(f *format.File, w held, user format.Words, b *Batch, keep func(*Sample) bool) {
	b.Samples = append(b.Samples, Sample{})
	s := &b.Samples[len(b.Samples)-1]
	f.Sample(w.raw, &s.Sample) // as it could be when it was held
	if user.Len() > 0 {
		kernel := s.Callchain.Slice(0, s.Callchain.Len()-1)
		s.Callchain = format.NewWords(append(bytes.Clone(kernel.Bytes()), user.Bytes()...), f.Order)
	}
	h.deliver(f, b, keep)
}

// flush delivers held samples, the oldest first, until no more than n wait. As
// perf does, it shows the cookie in the place of the user frames.
func (h *History) flush(f *format.File, n int, b *Batch, keep func(*Sample) bool) {
	for len(h.held) > n {
		w, first := h.held[0], len(b.Samples)
		h.held = h.held[1:]
		h.release(f, w, format.Words{}, b, keep)
		for i := range b.Samples[first:] {
			s := &b.Samples[first+i]
			if len(s.User) == 0 {
				continue // of a damaged chain nothing is left
			}
			cookie := h.newFrame(nil, w.cookie, false)
			cookie.label = "(cookie)"
			s.User = append(s.User[:len(s.User)-1:len(s.User)-1], cookie)
		}
	}
}
