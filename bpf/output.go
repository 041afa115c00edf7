package bpf

import (
	"encoding/binary"
	"fmt"
	"unsafe"
)

// End is the reason why a walk ended.
type End uint32

//bpf:enum End END_ end
const (
	EndNone        End = iota // still walking
	EndEntry                  // at an entry point: the stack is complete
	EndNoUser                 // no user stack: a kernel thread, a process that is exiting
	EndCompat                 // a 32-bit task
	EndNoProcess              // the process was unknown
	EndNoMapping              // an address was in no known mapping
	EndNoTable                // a mapping's table was not loaded yet
	EndNoRule                 // no row covered an address
	EndUnsupported            // a row did, but the programs cannot follow the row's rule
	EndUnreadable             // stack memory could not be read
	EndFP                     // frame pointers, without CFI, led nowhere
	EndZero                   // a return address or frame pointer was 0, not at an entry point
	EndDepth                  // after MaxFrames
	EndInternal
	NumEnds = int(EndInternal) + 1
)

var endNames = [NumEnds]string{"nothing", "entry", "no user stack", "32-bit", "unknown process",
	"no mapping", "no table",
	"no rule", "unsupported rule", "unreadable stack", "frame pointers", "return address 0", "too deep", "internal"}

func (e End) String() string {
	if int(e) < len(endNames) {
		return endNames[e]
	}
	return fmt.Sprintf("end %d", uint32(e))
}

// NumRegs is the number of registers before a copy, by DWARF number, the ip last.
const NumRegs = len(unwindCopyHead{}.Regs)

// CopyAhead is the size of the data before a copy: NumRegs registers, the address whose table or
// mapping was missing, and the address of the copy's first byte.
const CopyAhead = int(unsafe.Sizeof(unwindCopyHead{}))

// Head is the beginning of the programs' output: PERF_SAMPLE_RAW's data.
type Head struct {
	End  End
	TGID uint32 // process id in the initial PID namespace, as for SetProcess
	Exec uint32 // changes when the process calls exec
	// Frames is the number of words that follow: the ip and the return addresses of the callers.
	Frames uint32
	// Stack is the number of bytes of stack that follow after CopyAhead bytes.
	// Frames is then 0.
	Stack uint32
	// Interpreted is the number of interpreted frames after Frames: two words each, for
	// runtimes.Stack.
	Interpreted uint32
	Generation  uint32 // changes when the process unloads functions, because it may reuse their memory
	Copy        bool   // a copy follows, even if no stack could be read
}

// HeadSize is the size of a Head in the record: the data after it is aligned to 8 bytes if
// the Head begins 4 bytes after an aligned position, as in a ring.
const HeadSize = int(unsafe.Sizeof(unwindHead{}))

// ParseHead reads a Head, and checks that the data it describes is complete.
func ParseHead(b []byte) (h Head, ok bool) {
	if len(b) < HeadSize {
		return h, false
	}
	le := binary.LittleEndian
	h = Head{End: End(le.Uint32(b)), TGID: le.Uint32(b[4:]), Exec: le.Uint32(b[8:]), Frames: le.Uint32(b[12:]),
		Stack: le.Uint32(b[16:]), Interpreted: le.Uint32(b[20:]), Generation: le.Uint32(b[24:])}
	n := uint64(h.Frames)*8 + uint64(h.Interpreted)*16
	if h.Copy = h.Frames == 0 && h.End != EndNoUser; h.Copy {
		n = uint64(CopyAhead) + uint64(h.Stack)
	}
	return h, int(h.End) < NumEnds && n <= uint64(len(b)-HeadSize)
}
