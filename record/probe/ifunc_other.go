//go:build !amd64

package probe

import "errors"

// callResolvers is for amd64 alone.
func (f *file) callResolvers(map[uint64]uint64) error {
	return errors.New("on this architecture only a process that runs can be asked")
}
