package session

import (
	"hash/maphash"
	"runtime"
	"sync"

	"gperf/format"
)

// ahead is what goroutines do for a batch before the walk, which handles the records one after the other: they decode
// its samples, and cut and hash their callchains. Batches are decoded in any order, and walked in the order of time.
type ahead struct {
	done    sync.WaitGroup
	decoded []Sample // of the batch's sample records, in order, in the memory of Batch.Samples
	failed  []failed
	next    int // index of the next one to take
}

// failed is a sample record that could not be decoded, by its index in decoded.
type failed struct {
	index int
	err   error
}

// canDecodeAhead reports whether each sample record of a recording is one sample of the walk, if any.
func canDecodeAhead(f *format.File) bool {
	for i := range f.Attrs {
		if a := &f.Attrs[i]; a.SampleType&format.SampleRead != 0 || a.Flags&format.FlagDeferCallchain != 0 {
			return false
		}
	}
	return !f.Pipe // where attrs may follow
}

// decoders starts goroutines that decode the batches that it returns a function for. The function returns at
// once. stop ends the goroutines.
func decoders(f *format.File) (decode func(*Batch), stop func()) {
	work := make(chan *Batch, 2*runtime.GOMAXPROCS(0))
	for range max(1, min(runtime.GOMAXPROCS(0)-1, maxDecoders)) {
		go func() {
			for b := range work {
				b.decode(f)
				b.ahead.done.Done()
			}
		}()
	}
	return func(b *Batch) {
		b.ahead.done.Add(1)
		work <- b
	}, func() { close(work) }
}

// maxDecoders goroutines decode more than the walk can use.
const maxDecoders = 4

// decode decodes the samples of the batch.
func (b *Batch) decode(f *format.File) {
	for i := range b.raws {
		if b.raws[i].Type != format.TypeSample {
			continue
		}
		s := b.add()
		if err := f.Sample(b.raws[i], &s.Sample); err != nil {
			b.ahead.failed = append(b.ahead.failed, failed{len(b.Samples) - 1, err})
			continue
		}
		s.parts.cut(s.Callchain)
	}
	b.ahead.decoded, b.Samples = b.Samples, b.Samples[:0]
}

// take appends the next decoded sample, or one that could not be decoded, with the error. It moves the sample to the
// place of those that the walk removed.
func (b *Batch) take() error {
	k := b.ahead.next
	b.ahead.next++
	n := len(b.Samples)
	b.Samples = b.Samples[:n+1]
	if n != k {
		b.Samples[n] = b.ahead.decoded[k]
	}
	if l := b.ahead.failed; len(l) > 0 && l[0].index == k {
		b.ahead.failed = l[1:]
		return l[0].err
	}
	return nil
}

func (a *ahead) release() {
	clear(a.decoded)
	a.decoded, a.failed, a.next = nil, nil, 0
}

// parts are the first parts of a callchain between its context marks.
type parts struct {
	list  [2]part
	n     int
	whole bool // the callchain has no other parts, nor other marks
}

// part is a part of a callchain, with the frames from start to end.
type part struct {
	mode       uint64 // the mark before it, or ContextUser
	start, end int
	hash       uint64
}

func (p *parts) cut(chain format.Words) {
	mode, n := format.ContextUser, chain.Len()
	for i := 0; i < n; {
		if ip := chain.At(i); ip >= format.ContextMax {
			if !isContext(ip) {
				return
			}
			mode = ip
			i++
			continue
		}
		if p.n == len(p.list) {
			return
		}
		end := chain.Mark(i + 1)
		p.list[p.n] = part{mode, i, end, hashOf(chain.Slice(i, end))}
		p.n++
		i = end
	}
	p.whole = true
}

func hashOf(part format.Words) uint64 { return maphash.Bytes(chainSeed, part.Bytes()) }

var chainSeed = maphash.MakeSeed()
