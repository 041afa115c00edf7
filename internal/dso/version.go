package dso

import (
	"crypto/sha256"
	"fmt"
)

// Version returns a digest of which file of this machine the image is, and of its version: it changes if the file
// is replaced or written. A build ID is not enough, because any user can write a file that claims the build ID of
// another file. Version returns nil if the image is no separate file, as in an archive. It requires the open image.
func (im *Image) Version() []byte {
	if im == nil || im.file == nil {
		return nil
	}
	st, err := im.file.Stat()
	if err != nil {
		return nil
	}
	at := versionOf(st, im.file.Name())
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", at, st.Size(), st.ModTime().UnixNano()))
	return sum[:]
}
