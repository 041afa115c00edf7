package stacks

import (
	"encoding/binary"
	"time"

	"gperf/bpf"
	"gperf/internal/procmem"
	"gperf/internal/runtimes"
)

// applies reports whether there may be functions to insert into a stack of a process.
func (n *interpreted) applies(pid int32, head *bpf.Head) bool {
	if n == nil || head.Interpreted > 0 {
		return n != nil
	}
	p := n.procs.tracker.byPID[pid]
	if p == nil || p.space.interpreter == nil {
		return false
	}
	_, native := p.space.interpreter.process.(runtimes.Native)
	return native
}

// bind returns a stack's words with the functions that the native frames run: in the place of generated code, or
// after the frame that runs them. n.list contains the values that BPF passed for the frames, in the order of the
// frames; generation is bpf.Head's.
func (n *interpreted) bind(p *process, native runtimes.Native, frames []byte, generation uint32, time uint64) []byte {
	n.words = n.words[:0]
	p.renewBound(native)
	passed := n.list
	for i := 0; i < len(frames); i += 8 {
		word := frames[i : i+8]
		f := runtimes.NativeFrame{IP: binary.LittleEndian.Uint64(word), Generation: generation}
		if i > 0 {
			f.IP-- // a return address
		}
		for len(passed) > 0 && int(passed[0].Native) <= i/8 {
			f.Has, f.Passed = int(passed[0].Native) == i/8, passed[0]
			passed = passed[1:]
		}
		f.Generated = p.space.generated(f.IP)
		if !f.Has && !f.Generated {
			n.words = append(n.words, word...)
			continue
		}
		b := n.bound(p, native, f)
		before := len(n.words)
		if !b.Replaces {
			n.words = append(n.words, word...)
		}
		for _, fn := range b.Functions {
			n.add(p, p.space.interpreter, fn, time)
		}
		if len(n.words) == before {
			n.words = append(n.words, word...) // none of the frame's functions is named
		}
	}
	return n.words
}

// walked returns the words of a stack that was walked in Go, with the functions that can be read from generated
// code alone: BPF passed none.
func (n *interpreted) walked(u *unresolvedSample, words []byte) []byte {
	if n == nil || u.space == nil || u.space.interpreter == nil {
		return words
	}
	p := n.procs.tracker.byPID[u.pid]
	native, ok := u.space.interpreter.process.(runtimes.Native)
	if !ok || p == nil || p.space != u.space {
		return words
	}
	u.space.interpreter.forgetUnread()
	n.list = n.list[:0]
	return n.bind(p, native, words, u.head.Generation, u.time)
}

// renewBound forgets the functions of native frames if some may be others now.
func (p *process) renewBound(native runtimes.Native) {
	in, now := p.space.interpreter, time.Now()
	if r, ok := native.(runtimes.Renewed); ok && now.After(in.renew) {
		stale, pause := r.Stale(procmem.Reader(p.pid))
		in.renew = now.Add(pause)
		if stale {
			clear(in.bound)
		}
	}
}

// bound returns the functions of a native frame, of which it remembers the latest.
func (n *interpreted) bound(p *process, native runtimes.Native, f runtimes.NativeFrame) runtimes.Bound {
	in := p.space.interpreter
	if b, ok := in.bound[f]; ok {
		return b
	}
	b, err := native.Bind(procmem.Reader(p.pid), f)
	for _, fn := range b.Others {
		n.at(p, in, fn)
	}
	b.Others = nil
	if err != nil {
		n.unread(err)
		n.count.Unnamed++
		b = runtimes.Bound{Partial: true}
	}
	if b.Partial {
		n.again(in)
	}
	if in.bound == nil || len(in.bound) >= maxCodes {
		in.bound = map[runtimes.NativeFrame]runtimes.Bound{}
	}
	in.bound[f] = b
	return b
}

// generated reports whether an address is in code without a file, or in the code of a virtual machine.
func (s *addrSpace) generated(ip uint64) bool {
	m := s.find(ip)
	return m != nil && (m.file.state == fileMade || m.file.vm != nil || m.file.jit != nil)
}
