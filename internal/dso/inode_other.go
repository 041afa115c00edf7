//go:build !linux

package dso

import "io/fs"

// isAt reports whether the file at path has the inode: on other systems than Linux nothing can be recorded.
func (i *Inode) isAt(string) bool { return false }

// numberOf returns 0: no process maps files that gperf could look for.
func numberOf(fs.FileInfo) uint64 { return 0 }
