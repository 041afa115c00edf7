//go:build !amd64

package program

import "errors"

// callResolvers is implemented for amd64 only.
func (ifuncs) callResolvers() error {
	return errors.New("on this architecture the choice can only be read from a running process")
}
