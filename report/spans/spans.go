// Package spans summarizes the durations of spans by thread and system call, draws their histograms, and nests them
// by time.
//
// A span is a sample of a tracepoint with the field duration, in ns; the tree also needs the field
// start, in ns. A sample with the fields of a bucket represents the spans of a histogram that last about as long.
package spans

import (
	"errors"
	"strings"

	"gperf/format"
	"gperf/format/fields"
	"gperf/format/tracepoint"
	"gperf/internal/session"
	"gperf/report/key"
)

// errNone: the recording contains no spans.
var errNone = errors.New("the recording has no spans: record them with -e span:syscalls")

// Keep selects samples; nil selects all.
type Keep func(*session.Sample) bool

// AllSpans reports whether all events of a file are spans.
func AllSpans(f *format.File) bool { return eachIs(f, func(*tracepoint.Format) bool { return true }) }

// Summarizes reports whether all events of a file are spans of system calls or histograms.
func Summarizes(f *format.File) bool {
	return eachIs(f, func(t *tracepoint.Format) bool { return bucketFields(t) != nil || key.HasSyscalls(t) })
}

// eachIs reports whether a file has spans and nothing else, which are all so.
func eachIs(f *format.File, is func(*tracepoint.Format) bool) bool {
	found := false
	for i := range f.Attrs {
		switch t := f.Tracepoint(i); {
		case strings.HasPrefix(f.EventName(i), "dummy"):
		case t == nil || t.System != "span" || bucketFields(t) == nil && t.Field("duration") == nil || !is(t):
			return false
		default:
			found = true
		}
	}
	return found
}

// spanEvent holds the fields of an event's spans. The last four may be nil.
type spanEvent struct {
	name      string
	duration  *tracepoint.Field   // nil for histograms
	bucket    []*tracepoint.Field // the buckets of a histogram, nil for other spans
	start, id *tracepoint.Field
	ret       *tracepoint.Field
	goroutine *tracepoint.Field // nil: spans are of threads
}

// span is a span as it was recorded, or a bucket of a histogram. Times are in ns.
type span struct {
	event           *spanEvent
	start, duration uint64
	id              int64  // of the system call, if event contains the field
	goroutine       uint64 // its number, 0 for spans of threads
	failed          bool
	bucket          *bucket // nil for a single span
}

// bucket is the spans of a histogram that last about as long.
type bucket struct{ count, failed, total, min, max uint64 }

// all returns the spans as a bucket.
func (p *span) all() bucket {
	if p.bucket != nil {
		return *p.bucket
	}
	b := bucket{count: 1, total: p.duration, min: p.duration, max: p.duration}
	if p.failed {
		b.failed = 1
	}
	return b
}

// bucketFields returns the fields of the samples of a histogram, nil if t is none.
func bucketFields(t *tracepoint.Format) (l []*tracepoint.Field) {
	for _, name := range []string{"count", "failed", "total", "min", "max", "below"} {
		f := t.Field(name)
		if f == nil || t.System != "span" {
			return nil
		}
		l = append(l, f)
	}
	return l[:5]
}

// decoder reads the spans of a recording.
type decoder struct {
	events []*spanEvent // by event, nil for others
	env    tracepoint.Env
	names  fields.SyscallTable
}

// errNoStarts: histograms lack the times of spans.
var errNoStarts = errors.New("the recording has only histograms of spans, which have no order: record without hist, " +
	"as -e span:syscalls")

// newDecoder returns the decoder of a recording's spans; the error is errNone.
func newDecoder(f *format.File) (*decoder, error) {
	d := &decoder{events: make([]*spanEvent, len(f.Attrs)), names: fields.SyscallsOf(f.String(format.FeatureArch))}
	found := false
	for i := range d.events {
		t := f.Tracepoint(i)
		if t == nil {
			continue
		}
		e := &spanEvent{name: t.Name, duration: t.Field("duration"), bucket: bucketFields(t), start: t.Field("start"),
			ret: t.Field("ret")}
		if t.System == "span" {
			e.goroutine = t.Field("goroutine")
		}
		if key.HasSyscalls(t) {
			e.id = t.Field("id")
		}
		if e.duration != nil || e.bucket != nil {
			d.events[i], found = e, true
		}
	}
	if !found {
		return nil, errNone
	}
	d.env = f.Tracing.Env()
	return d, nil
}

// newKeys returns the decoder of a recording's spans and their keys; the error is errNone or a *key.KeyError.
func newKeys(s *session.Session, opts key.Options) (*decoder, *key.Keys, error) {
	d, err := newDecoder(s.File)
	if err != nil {
		return nil, nil, err
	}
	keys, err := key.New(s.File, s.Symbols, opts)
	return d, keys, err
}

// decode returns the span of a sample, and whether it is one.
func (d *decoder) decode(s *session.Sample) (p span, ok bool) {
	if p.event = d.events[s.Event]; p.event == nil {
		return p, false
	}
	if p.event.bucket != nil {
		p.bucket, ok = d.decodeBucket(s.Raw, p.event.bucket)
	} else {
		p.duration, ok = p.event.duration.Uint(s.Raw, d.env.Order)
	}
	if !ok {
		return p, false
	}
	if p.event.start != nil {
		p.start, ok = p.event.start.Uint(s.Raw, d.env.Order)
	}
	if p.event.id != nil {
		id, _ := p.event.id.Uint(s.Raw, d.env.Order)
		p.id = int64(id)
	}
	if p.event.goroutine != nil {
		p.goroutine, _ = p.event.goroutine.Uint(s.Raw, d.env.Order)
	}
	if p.event.ret != nil {
		ret, _ := p.event.ret.Uint(s.Raw, d.env.Order)
		p.failed = isError(int64(ret))
	}
	return p, ok
}

// decodeBucket returns the bucket of a sample's raw data, and whether it contains any spans.
func (d *decoder) decodeBucket(raw []byte, fields []*tracepoint.Field) (*bucket, bool) {
	b := new(bucket)
	for i, to := range []*uint64{&b.count, &b.failed, &b.total, &b.min, &b.max} {
		var ok bool
		if *to, ok = fields[i].Uint(raw, d.env.Order); !ok {
			return nil, false
		}
	}
	return b, b.count > 0
}

// isError reports whether a system call's result is an error number (include/linux/err.h).
func isError(ret int64) bool { return ret < 0 && ret >= -4095 }

// name returns the name of the span's system call or event.
func (d *decoder) name(p *span) string {
	if p.event.id != nil {
		return d.names.Name(p.id)
	}
	return p.event.name
}

// walk calls use for each span.
func (d *decoder) walk(s *session.Session, keep Keep, use func(*session.Sample, *span)) (format.Skipped, error) {
	return s.Walk(session.WalkOptions{Names: true}, func(b *session.Batch) error {
		for i := range b.Samples {
			one := &b.Samples[i]
			if keep != nil && !keep(one) {
				continue
			}
			if p, ok := d.decode(one); ok {
				use(one, &p)
			}
		}
		b.Release()
		return nil
	})
}
