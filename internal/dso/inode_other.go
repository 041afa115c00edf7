//go:build !linux

package dso

// isAt reports whether the file at path has the inode: on other systems than Linux nothing can be recorded.
func (i *Inode) isAt(string) bool { return false }
