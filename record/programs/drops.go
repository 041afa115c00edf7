package programs

import (
	"errors"
	"fmt"

	"gperf/bpf"
	"gperf/record/event"
)

// ErrNoDroppers means that no BPF program is loaded that could drop packets.
var ErrNoDroppers = errors.New("no BPF program of its type is loaded")

// DroppersError is a notice, or an error: the packets that some BPF programs drop are not recorded.
type DroppersError struct {
	Event string
	N, Of int   // number of these programs, and of all
	Err   error // of one of them
}

func (e *DroppersError) Error() string {
	return fmt.Sprintf("%s: cannot record the drops of %d of %d programs: %v", e.Event, e.N, e.Of, e.Err)
}
func (e *DroppersError) Unwrap() error { return e.Err }

// Droppers returns the number of loaded programs that could drop packets of the event.
func Droppers(ev *event.Event) (int, error) { return bpf.Droppers(dropperOf(ev)) }

func dropperOf(ev *event.Event) bpf.Dropper {
	if ev.Raw.Drops.XDP {
		return bpf.XDP
	}
	return bpf.TC
}

// attachDrops attaches programs to the return of those that drop packets.
func (a *attachments) attachDrops(ev *event.Event, t *bpf.RawTracepoint) error {
	watched, left, err := (&bpf.Drops{RawTracepoint: *t, Of: dropperOf(ev)}).Attach(a.bpf)
	if err == nil && len(left) > 0 {
		why := &DroppersError{ev.Name, len(left), watched + len(left), left[0]}
		if watched > 0 || ev.Raw.Drops.Optional {
			a.opts.Notice(why)
			return nil
		}
		return why
	}
	if err == nil && watched == 0 {
		err = ErrNoDroppers
	}
	if err != nil && !ev.Raw.Drops.Optional {
		return &SamplerError{ev.Name, err}
	}
	return nil
}
