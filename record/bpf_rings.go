package record

import (
	"errors"
	"fmt"
)

// errBPFRings means that BPF programs cannot write to the rings.
var errBPFRings = errors.New("BPF programs need a ring per CPU that is read while it fills")

// errOverwrite also excludes copied stacks: too few would fit.
var (
	errOverwrite = fmt.Errorf("--overwrite: %w", errBPFRings)
	errPerThread = fmt.Errorf("--per-thread: %w", errBPFRings)
)

// ringsForBPF returns the reason why BPF programs cannot write to the rings, nil if they can.
func (o *plan) ringsForBPF() error {
	switch {
	case o.Overwrite:
		return errOverwrite
	case o.Target.perThread():
		return errPerThread
	}
	return nil
}
