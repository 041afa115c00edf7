//go:build !amd64

package probe

import "errors"

// callResolvers is implemented for amd64 only.
func (f *file) callResolvers(map[uint64]uint64) error {
	return errors.New("on this architecture the choice can only be read from a running process")
}
