package record

import "golang.org/x/sys/unix"

// capable reports whether this process has a capability.
func capable(capability int) bool {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&h, &data[0])
	return err == nil && data[capability/32].Effective>>(capability%32)&1 != 0
}
