package table

import (
	"iter"

	"gperf/internal/intern"
	"gperf/internal/session"
	"gperf/report/key"
)

// Stack is the sum of samples that have the stack and all other members in common.
type Stack struct {
	Event  Event
	Comm   string
	Group  *key.Group
	Frames iter.Seq[*session.Frame] // innermost first
	Sum    Sum
	Idle   bool
}

// AddStacks adds the sums of the stacks of recordings, without single samples. r describes all recordings; its Start
// and Samples are set here. The table then contains an entry per sum, at r.First, with the number of samples in
// Columns.Samples. The values of groups and the command are the outermost callers of the stacks: Functions with Label.
func (l *Loader) AddStacks(r Recording, stacks []Stack) {
	l.addNewStacks()
	t := &l.table
	r.Start, r.Samples = t.Len(), len(stacks)
	t.Recordings = append(t.Recordings, r)
	l.lookUp(func(yield func(*session.Frame) bool) {
		for _, s := range stacks {
			for f := range s.Frames {
				if !yield(f) {
					return
				}
			}
		}
	})
	for i := range stacks {
		l.addStack(&stacks[i])
	}
}

func (l *Loader) addStack(s *Stack) {
	t, recording := &l.table, int32(len(l.table.Recordings)-1)
	thread := Thread{Recording: recording, PID: -1, TID: -1, Comm: s.Comm, Process: s.Comm}
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
	var frames []int32
	for f := range s.Frames {
		frames = append(frames, l.otherFrames[f]...)
	}
	l.chains = append(l.chains, session.StackKey{}) // as many as stacks
	t.Stacks = append(t.Stacks, l.node(at, frames...))
}

// label returns a frame of a name that is no function's.
func (l *Loader) label(name string) int32 {
	at := Function{Name: name, DSO: l.dsoOf("", DSO{}), Label: true}
	return intern.Index(l.frames, &l.table.Frames, Frame{Function: intern.Index(l.functions, &l.table.Functions, at)})
}
