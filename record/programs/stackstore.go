package programs

import (
	"bytes"
	"encoding/binary"

	"gperf/bpf"
	"gperf/format"
	"gperf/record/stacks"
)

// stackStore is the distinct stacks that programs sent, each once. Other records of the programs refer to them by
// hash.
type stackStore struct {
	known map[uint64]bpf.Stack // by hash
	fresh []freshStack         // the stacks in known whose interpreted frames are not named yet
}

// freshStack is a stack that was read since the last call of interpret.
type freshStack struct {
	out  stacks.Output
	hash uint64
}

func newStackStore() stackStore { return stackStore{known: map[uint64]bpf.Stack{}} }

// take keeps a stack.
func (s *stackStore) take(o stacks.Output) {
	st, ok := bpf.ParseStack(o.Raw)
	if !ok {
		return
	}
	if len(st.Kernel) > 0 && binary.LittleEndian.Uint64(st.Kernel) == format.ContextKernel {
		st.Kernel = st.Kernel[8:] // a mark, in the callchains of samples
	}
	st.Kernel, st.User, st.Interpreted = bytes.Clone(st.Kernel), bytes.Clone(st.User), bytes.Clone(st.Interpreted)
	s.known[st.Hash] = st
	if len(st.User) > 0 {
		o.Raw = nil
		s.fresh = append(s.fresh, freshStack{o, st.Hash})
	}
}

// interpret puts the functions of interpreters into the fresh stacks.
func (s *stackStore) interpret(j *stacks.Merged) {
	for _, f := range s.fresh {
		st := s.known[f.hash]
		st.User, st.Interpreted = j.Interpret(f.out, &st), nil
		s.known[f.hash] = st
	}
	s.fresh = nil
}
