package untrusted

import (
	"io/fs"
	"os"
	"strconv"
)

// IsOthers reports whether a file belongs neither to root nor to the user of this process, nor to the user who runs it
// with sudo.
func IsOthers(st fs.FileInfo) bool {
	uid, known := OwnerOf(st)
	return known && uid != 0 && uid != uint32(os.Geteuid()) && strconv.Itoa(int(uid)) != os.Getenv("SUDO_UID")
}
