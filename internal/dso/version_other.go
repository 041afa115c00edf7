//go:build !linux

package dso

import "io/fs"

// versionOf returns the file's path.
func versionOf(_ fs.FileInfo, path string) string { return path }
