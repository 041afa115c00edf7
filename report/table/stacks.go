package table

import (
	"iter"

	"gperf/internal/intern"
	"gperf/internal/session"
	"gperf/report/key"
)

// Stack is the sum of samples that have the stack and all other members in common.
type Stack struct {
	Event Event
	Comm  string
	Group *key.Group
	session.StackKey
	Waker *Waker // nil: none is known, or it is no wait
	Sum   Sum
	Idle  bool
}

// Waker is the stack that ended a wait, which is shown as if the wait called it, after a frame that says so.
type Waker struct {
	Frame *session.Frame
	session.StackKey
}

// AddStacks adds the sums of the stacks of recordings, without single samples. r describes all recordings; its Start
// and Samples are set here. The table then contains an entry per sum, at r.First, with the number of samples in
// Columns.Samples. The values of groups and the command are the outermost callers of the stacks: Functions with Label.
func (l *Loader) AddStacks(r Recording, stacks iter.Seq[Stack]) {
	l.addNewStacks()
	t := &l.table
	r.Start = t.Len()
	t.Recordings = append(t.Recordings, r)
	l.nameStacks(func(yield func(session.StackKey) bool) {
		for s := range stacks {
			if !yield(s.StackKey) || s.Waker != nil && (!yield(s.Waker.StackKey) ||
				!yield(session.StackKey{Leaf: s.Waker.Frame})) {
				return
			}
		}
	})
	for s := range stacks {
		l.addStack(&s)
	}
	t.Recordings[len(t.Recordings)-1].Samples = t.Len() - r.Start
}

func (l *Loader) addStack(s *Stack) {
	t, recording := &l.table, int32(len(l.table.Recordings)-1)
	thread := Thread{Recording: recording, PID: -1, TID: -1, Comm: s.Comm, Recorded: s.Comm, Last: s.Comm,
		Process: s.Comm}
	flags := Flags(0)
	if s.Idle {
		flags = Idle
	}
	c := &t.Columns
	c.Time, c.Event = append(c.Time, t.Recordings[recording].First), append(c.Event, l.event(s.Event))
	c.Thread, c.CPU = append(c.Thread, intern.Index(l.threads, &t.Threads, thread)), append(c.CPU, -1)
	c.Stack, c.Weight = append(c.Stack, int32(len(t.Stacks))), append(c.Weight, s.Sum.Weight)
	c.Group, c.Flags = append(c.Group, l.group(s.Group)), append(c.Flags, flags)
	c.Samples = append(c.Samples, s.Sum.Samples)

	at := int32(0)
	for _, v := range s.Group.Values {
		at = l.node(at, l.label(v.Key+"="+v.Text))
	}
	at = l.node(at, l.label(s.Comm))
	at = l.node(at, l.tableFrames(s.StackKey)...)
	if s.Waker != nil {
		at = l.node(at, l.otherFrames[s.Waker.Frame]...)
		at = l.node(at, l.tableFrames(s.Waker.StackKey)...)
	}
	l.chains = append(l.chains, session.StackKey{}) // as many as stacks
	t.Stacks = append(t.Stacks, at)
}

// label returns a frame of a name that is no function's.
func (l *Loader) label(name string) int32 {
	at := Function{Name: name, DSO: l.dsoOf("", DSO{}), Label: true}
	return intern.Index(l.frames, &l.table.Frames, Frame{Function: intern.Index(l.functions, &l.table.Functions, at)})
}
