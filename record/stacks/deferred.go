package stacks

import (
	"encoding/binary"
	"time"

	"gperf/bpf"
)

// deferredSample is an unresolved sample that waits for an unwind table.
type deferredSample struct {
	unresolvedSample
	since  time.Time // zero before it is deferred
	walked bool
}

// stack returns the copy of the stack.
func (u *unresolvedSample) stack() []byte { return u.data[bpf.CopyAhead:][:u.head.Stack] }

// deferred is the samples that wait for unwind tables.
type deferred struct {
	byFile map[*mappedFile][]*deferredSample // by the file whose table they wait for
	queue  []*deferredSample                 // the first sample waited longest; later ones may be walked
	n      int                               // samples that are not walked
	bytes  int                               // of the samples' data
}

// maxDeferred limits the memory of deferred samples, in bytes.
const maxDeferred = 48 << 20

// maxWait is the maximum time that a sample is deferred: a file system may not answer.
const maxWait = 10 * time.Second

// hasRoom reports whether another sample may be deferred.
func (l *deferred) hasRoom() bool { return l.bytes < maxDeferred }

// add defers a sample until the table of file f is built, or the state of f changes otherwise.
func (l *deferred) add(d *deferredSample, f *mappedFile) {
	if l.byFile == nil {
		l.byFile = map[*mappedFile][]*deferredSample{}
	}
	l.byFile[f] = append(l.byFile[f], d)
	if !d.since.IsZero() {
		return
	}
	d.since = time.Now()
	d.space.refs++ // keeps the mappings unchanged
	l.queue = append(l.queue, d)
	l.n++
	l.bytes += len(d.data)
}

// remove removes a walked sample.
func (l *deferred) remove(d *deferredSample) {
	d.space.refs--
	d.walked = true
	l.n--
	l.bytes -= len(d.data)
	d.unresolvedSample = unresolvedSample{} // byFile and queue may still refer to d
	for len(l.queue) > 0 && l.queue[0].walked {
		l.queue[0], l.queue = nil, l.queue[1:]
	}
	if l.n == 0 {
		clear(l.byFile)
	}
}

// take returns the samples that wait for a file's table, for another walk.
func (l *deferred) take(f *mappedFile) []*deferredSample {
	list := l.byFile[f]
	delete(l.byFile, f)
	return list
}

// before reports whether samples were deferred before a time.
func (l *deferred) before(t time.Time) bool { return len(l.queue) > 0 && l.queue[0].since.Before(t) }

// walkOrDefer walks a stack. If a table is missing, it requests the table, and defers the sample
// if wait is true.
func (r *resolver) walkOrDefer(d *deferredSample, wait bool) {
	f := r.walk(d, wait)
	for f != nil {
		if r.tables.requestFile(f) {
			r.requestSeen(&d.unresolvedSample)
		}
		if !f.postponed {
			break
		}
		f = r.walk(d, wait)
	}
	switch {
	case f != nil:
		r.deferred.add(d, f)
	case !d.since.IsZero():
		space := d.space
		r.deferred.remove(d)
		r.procs.release(space)
	}
}

// retry walks the deferred stacks that wait for the tables of some files, and the stacks that waited too long.
func (r *resolver) retry(files []*mappedFile) {
	for _, f := range files {
		for _, d := range r.deferred.take(f) {
			if !d.walked {
				r.walkOrDefer(d, true)
			}
		}
	}
	for r.deferred.before(time.Now().Add(-maxWait)) {
		r.walkOrDefer(r.deferred.queue[0], false)
	}
}

// requestSeen requests the tables of all files to whose code a stack contains pointers: they are probably return
// addresses, and the walk would miss one table after the other.
func (r *resolver) requestSeen(u *unresolvedSample) {
	if r.tables.affords != nil { // only tables that a walk certainly needs
		return
	}
	for b := u.stack(); len(b) >= 8; b = b[8:] {
		r.tables.request(u.space, binary.LittleEndian.Uint64(b))
	}
}
