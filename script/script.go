// Package script prints a block for every sample, byte for byte as `perf script`
// does.
//
// internal/session finds the thread and DSO of an address, symbolize its name, and
// format/tracepoint prints a tracepoint's data. Package report aggregates samples,
// also into folded stacks.
package script

import (
	"io"
	"runtime"
	"slices"
	"sync"

	"gperf/format"
	"gperf/internal/session"
)

// Print writes the text of the session's samples to w. The result counts the skipped
// parts of the file. The error comes from w or from reading.
func Print(w io.Writer, s *session.Session, opts Options) (format.Skipped, error) {
	f := s.File
	fields, err := opts.Fields.resolve(f, !opts.NoChain)
	if err != nil {
		return format.Skipped{}, err
	}
	for i, shown := range fields {
		if shown&FieldDSOff != 0 && s.Symbols.KernelProblem() != nil {
			fields[i] |= fieldKernelOff
		}
	}
	newPrinter := func() *printer { return newPrinter(s, fields, &opts) }
	widths, bases := dataWidths{fields: fields}, timeBases{newPrinter()}
	o := startOutput(w, opts.Events, runtime.GOMAXPROCS(0), newPrinter)
	skipped, err := s.Walk(opts.walk(f, fields), func(b *session.Batch) error {
		if !opts.Where.All() {
			b.Keep(func(s *session.Sample) bool { return opts.Where.Matches(s.Leaf) })
		}
		if opts.Events != nil {
			for i := range b.Samples {
				opts.Events[b.Samples[i].Event].Samples++
			}
		}
		return o.put(b, lineState{widths.before(b), bases.before(b)})
	})
	if werr := o.finish(); werr != nil {
		err = werr
	}
	s.Misses = opts.Where.Misses()
	return skipped, err
}

// walk returns the requirements of the fields of each event, and the records to print.
func (o *Options) walk(f *format.File, fields []Field) session.WalkOptions {
	w := session.WalkOptions{AsPerf: true, Records: o.Records,
		AsWritten: slices.Contains(o.Records, format.TypeFinishedRound)}
	for i, shown := range fields {
		a := &f.Attrs[i]
		w.Names = w.Names || shown&FieldSym != 0
		w.Branches = w.Branches || shown&branchFields != 0
		w.Data = w.Data || (shown&FieldAddr != 0 && isPageFault(a)) || isBranchTrace(a)
	}
	return w
}

// output formats batches in several goroutines and writes their texts in the
// order in which the batches came:
//
//	put ──┬─▶ work ─▶ format (n of them) ─▶ job.texts
//	      └─▶ line ─▶ write, for the first in line
type output struct {
	work, line chan *job
	written    chan error
	failed     chan struct{} // closed when writing failed
	workers    sync.WaitGroup
	texts      sync.Pool
}

type job struct {
	batch  *session.Batch
	before lineState
	texts  chan piece // closed after the last
}

// piece is text for the output of one event, or of all.
type piece struct {
	text  *[]byte
	event int
}

// maxText is the length from which a batch's text is handed on in pieces, in
// bytes. Few batches are as long; a single hostile sample can have more.
const maxText = 4 << 20

func startOutput(w io.Writer, events []EventText, n int, newPrinter func() *printer) *output {
	o := &output{
		work: make(chan *job, 2*n), line: make(chan *job, 2*n),
		written: make(chan error, 1), failed: make(chan struct{}),
		texts: sync.Pool{New: func() any { return new([]byte) }},
	}
	for range n {
		o.workers.Add(1)
		go func() {
			defer o.workers.Done()
			p := newPrinter()
			for j := range o.work {
				o.format(p, j)
			}
		}()
	}
	go func() { o.written <- o.write(w, events) }()
	return o
}

func (o *output) format(p *printer, j *job) {
	b := o.texts.Get().(*[]byte)
	send := func(text []byte, event int) []byte {
		*b = text
		j.texts <- piece{b, event}
		b = o.texts.Get().(*[]byte)
		return (*b)[:0]
	}
	p.line = j.before
	send(p.appendBatch((*b)[:0], j.batch, send))
	o.texts.Put(b)
	close(j.texts)
	j.batch.Release()
}

func (o *output) write(w io.Writer, events []EventText) (err error) {
	for j := range o.line {
		for piece := range j.texts {
			to := w
			if events != nil && piece.event != noEvent {
				to = events[piece.event].Writer // not its Samples, which are still being counted
			}
			if err == nil {
				if _, err = to.Write(*piece.text); err != nil {
					close(o.failed)
				}
			}
			o.texts.Put(piece.text)
		}
	}
	return err
}

// put prints a batch after the given state of lines. After a failed write it returns
// the error, which ends the reading.
func (o *output) put(b *session.Batch, before lineState) error {
	select {
	case <-o.failed:
		return io.ErrClosedPipe
	default:
	}
	j := &job{batch: b, before: before, texts: make(chan piece, 1)}
	o.work <- j
	o.line <- j
	return nil
}

// finish waits until all is written, and returns the writer's error.
func (o *output) finish() error {
	close(o.work)
	close(o.line)
	o.workers.Wait()
	return <-o.written
}
