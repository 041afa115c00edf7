package session

import (
	"hash/maphash"
	"runtime"
	"sync"
	"sync/atomic"

	"gperf/format"
)

// predecoded is the part of a batch's work that can precede the walk, which handles the records one after the
// other: decoding the samples, and cutting and hashing the callchains. Batches are decoded in any order, and walked
// in the order of time.
//
// Any idle goroutine decodes a batch: the reader if maxWaiting batches wait for the walk, a decoder goroutine if
// there are enough CPUs, or the walk itself. Nobody waits while there is a batch to decode.
type predecoded struct {
	unclaimed atomic.Uint64 // the batch's ticket until somebody decodes it, then 0
	done      sync.WaitGroup
	decoded   []Sample // of the batch's sample records, in order, in the memory of Batch.Samples
	failed    []failed
	next      int // index of the next one to take
}

// ticket identifies one use of a batch's memory.
type ticket struct {
	batch  *Batch
	number uint64
}

var tickets atomic.Uint64

// failed is a sample record that could not be decoded, by index in decoded.
type failed struct {
	index int
	err   error
}

// canPredecode reports whether each sample record of a recording is one sample of the walk, if any.
func canPredecode(f *format.File) bool {
	for i := range f.Attrs {
		if a := &f.Attrs[i]; a.SampleType&format.SampleRead != 0 || a.Flags&format.FlagDeferCallchain != 0 {
			return false
		}
	}
	return !f.Pipe // where attrs may follow
}

// decoders decode the batches of a walk.
type decoders struct {
	file    *format.File
	leaf    bool // WalkOptions.LeafOnly
	work    chan ticket
	running sync.WaitGroup
}

// newDecoders starts goroutines for the CPUs that the reader and the walk leave.
func newDecoders(f *format.File, leaf bool) *decoders {
	n := min(runtime.GOMAXPROCS(0)-2, maxDecoders)
	d := &decoders{file: f, leaf: leaf, work: make(chan ticket, maxWaiting)}
	for range n {
		d.running.Go(func() {
			for t := range d.work {
				d.decodeOnce(t.batch, t.number)
			}
		})
	}
	return d
}

// stop waits until the goroutines end, because the records that they read are in the file's memory.
func (d *decoders) stop() {
	close(d.work)
	d.running.Wait()
}

// maxDecoders goroutines decode more than the walk can use.
const maxDecoders = 4

// offer lets others decode the batch.
func (d *decoders) offer(b *Batch) {
	t := ticket{b, tickets.Add(1)}
	b.pre.done.Add(1)
	b.pre.unclaimed.Store(t.number)
	for {
		select {
		case d.work <- t:
			return
		default:
			d.help() // the walk decodes most batches itself
		}
	}
}

// help decodes the oldest batch that was offered, if it still waits. It returns false if there is none.
func (d *decoders) help() bool {
	select {
	case t := <-d.work:
		d.decodeOnce(t.batch, t.number)
		return true
	default:
		return false
	}
}

// decoded returns when the batch is decoded.
func (d *decoders) decoded(b *Batch) {
	if n := b.pre.unclaimed.Load(); n != 0 {
		d.decodeOnce(b, n)
	}
	b.pre.done.Wait()
}

// decodeOnce decodes a batch if the batch's number is still the ticket's.
func (d *decoders) decodeOnce(b *Batch, number uint64) {
	if b.pre.unclaimed.CompareAndSwap(number, 0) {
		d.decode(b)
		b.pre.done.Done()
	}
}

// decode decodes the samples of a batch.
func (d *decoders) decode(b *Batch) {
	for i := range b.raws {
		if b.raws[i].Type != format.TypeSample {
			continue
		}
		s := b.add()
		if err := d.file.Sample(b.raws[i], &s.Sample); err != nil {
			b.pre.failed = append(b.pre.failed, failed{len(b.Samples) - 1, err})
			continue
		}
		if !d.leaf {
			s.parts.cut(s.Callchain)
		}
	}
	b.pre.decoded, b.Samples = b.Samples, b.Samples[:0]
}

// take appends the next decoded sample, or one that could not be decoded, with the error. It moves the sample to the
// place of those that the walk removed.
func (b *Batch) take() error {
	k := b.pre.next
	b.pre.next++
	n := len(b.Samples)
	b.Samples = b.Samples[:n+1]
	if n != k {
		b.Samples[n] = b.pre.decoded[k]
	}
	if l := b.pre.failed; len(l) > 0 && l[0].index == k {
		b.pre.failed = l[1:]
		return l[0].err
	}
	return nil
}

func (p *predecoded) release() {
	p.decoded, p.failed, p.next = nil, nil, 0
}

// parts are the first parts of a callchain between context marks.
type parts struct {
	list  [2]part
	n     int
	whole bool // the callchain contains no other parts or marks
}

// part is a part of a callchain, with the frames from start to end.
type part struct {
	mode       uint64 // the mark before it, or ContextUser
	start, end int
	hash       uint64
}

func (p *parts) cut(chain format.Words) {
	p.whole = cut(chain, func(next part) bool {
		if p.n == len(p.list) {
			return false
		}
		p.list[p.n] = next
		p.n++
		return true
	})
}

// cut yields the parts of a callchain until yield returns false. It returns false then, and if the chain contains a
// mark that parts cannot hold.
func cut(chain format.Words, yield func(part) bool) bool {
	mode, n := format.ContextUser, chain.Len()
	for i := 0; i < n; {
		if ip := chain.At(i); ip >= format.ContextMax {
			if !isContext(ip) {
				return false
			}
			mode = ip
			i++
			continue
		}
		end := chain.Mark(i + 1)
		if !yield(part{mode, i, end, hashOf(chain.Slice(i, end))}) {
			return false
		}
		i = end
	}
	return true
}

func hashOf(part format.Words) uint64 { return maphash.Bytes(chainSeed, part.Bytes()) }

var chainSeed, chainSeed2 = maphash.MakeSeed(), maphash.MakeSeed()
