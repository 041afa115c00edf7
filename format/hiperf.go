package format

import "encoding/binary"

// HiperfStacks are the frames of hiperf's section of stacks. A frame has the number of its caller, so that stacks share
// their outer frames. Numbers belong to a process.
type HiperfStacks map[HiperfFrame]uint64

// HiperfFrame identifies a frame.
type HiperfFrame struct{ PID, Number uint32 }

// Bits of a frame and of a sample's reference to its stack.
const (
	ipBits     = 40
	numberBits = 23
	numbers    = 1<<numberBits - 1
	kernel     = 1 << 63
)

// Chain returns the ips of a stack, the innermost first, each as 8 bytes, little-endian. ref has the number of the
// innermost frame, and how many frames there are.
func (l HiperfStacks) Chain(pid uint32, ref uint64) (chain []byte) {
	number := uint32(ref & numbers)
	for n := min(ref>>numberBits, uint64(len(l))); n > 0; n-- {
		v, ok := l[HiperfFrame{pid, number}]
		if !ok {
			break
		}
		ip := v & (1<<ipBits - 1)
		if v&kernel != 0 {
			ip |= 0xffffff << ipBits
		}
		chain = binary.LittleEndian.AppendUint64(chain, ip)
		if number = uint32(v >> ipBits & numbers); number == 0 {
			break
		}
	}
	return chain
}
