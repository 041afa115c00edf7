package record

import (
	"context"
	"iter"
)

// work is a long task of a part of the recorder, in steps. The recorder empties the rings between two steps, so that
// they do not fill meanwhile. A step that fails is the last one.
type work = iter.Seq[error]

// nothing is work without steps.
func nothing(func(error) bool) {}

// step is work of one step.
func step(f func() error) work { return func(yield func(error) bool) { yield(f()) } }

// once is work after which the rings need not be emptied.
func once(f func() error) work {
	return func(yield func(error) bool) {
		if err := f(); err != nil {
			yield(err)
		}
	}
}

// sequence is one work after the other.
func sequence(all ...work) work {
	return func(yield func(error) bool) {
		for _, w := range all {
			for err := range w {
				if !yield(err) || err != nil {
					return
				}
			}
		}
	}
}

// run does work without emptying the rings, until ctx is done.
func run(ctx context.Context, w work) error {
	for err := range w {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil
}

// do does work, and empties the rings between the steps.
func (r *recorder) do(w work) error {
	for err := range w {
		if err == nil {
			_, err = r.drain()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
