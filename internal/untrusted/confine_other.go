//go:build !linux

package untrusted

// CanConfine returns false.
func CanConfine() bool { return false }

// Confine does nothing: recordings are of Linux, and this system has no programs of theirs.
func Confine(_, _ []string) error { return nil }
