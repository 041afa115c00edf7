package hotspot

// state is how to find the caller of an interrupted instruction.
type state uint8

const (
	unknown state = iota
	none          // the return address is at rsp
	pushed        // rbp is pushed, nothing else
	byFP          // rbp is the frame pointer
	live          // a complete frame, but the caller's rbp is not saved yet
	full
)

// subRSP reports whether an instruction allocates a frame: sub rsp, n.
func subRSP(b []byte) bool { return b[0] == 0x48 && (b[1] == 0x83 || b[1] == 0x81) && b[2] == 0xec }

// movRBPRSP reports whether an instruction is mov rbp, rsp.
func movRBPRSP(b []byte) bool {
	return b[0] == 0x48 && (b[1] == 0x8b && b[2] == 0xec || b[1] == 0x89 && b[2] == 0xe5)
}

// saveRBP reports whether an instruction stores rbp in the frame: mov [rsp + n], rbp.
func saveRBP(b []byte) bool {
	return b[0] == 0x48 && b[1] == 0x89 && (b[2] == 0x6c || b[2] == 0xac) && b[3] == 0x24
}

// poll reports whether an instruction reads the word that a safepoint changes: cmp rsp, [r15 + n] or mov r10, [r15
// + n]; mode is the ModRM byte without the register.
func poll(b []byte, mode byte) bool {
	return b[0] == 0x49 && b[1] == 0x3b && b[2] == mode|0x20 || b[0] == 0x4d && b[1] == 0x8b && b[2] == mode|0x10
}

// atEnd recognizes prologues and epilogues by the code around ip, which is at codeBefore.
func atEnd(code *[codeBytes]byte) state {
	const at = codeBefore
	before := func(n int) []byte { return code[at-n:] }
	popped := func(n int) bool { // add rsp, n and pop rbp end n bytes before ip
		b := before(n + 8)
		return b[7] == 0x5d &&
			(b[3] == 0x48 && b[4] == 0x83 && b[5] == 0xc4 || b[0] == 0x48 && b[1] == 0x81 && b[2] == 0xc4)
	}
	ip := before(0)
	switch {
	case ip[0] == 0xc3, ip[0] == 0xf3 && ip[1] == 0xc3, ip[0] == 0x55: // ret; push rbp
		return none
	case ip[0] == 0x5d: // pop rbp
		return pushed
	case ip[0] == 0xc9: // leave
		return byFP
	case code[at-1] == 0x55 && (subRSP(ip) || movRBPRSP(ip)):
		return pushed
	case code[at-4] == 0x55 && movRBPRSP(before(3)):
		return byFP
	case saveRBP(ip) && (subRSP(before(4)) || subRSP(before(7))):
		return live
	case popped(0), popped(7) && poll(before(7), 0x87), popped(4) && poll(before(4), 0x47):
		return none
	}
	return unknown
}

// inPrologue recognizes by the code before ip which part of a prologue was executed.
func inPrologue(code *[codeBytes]byte) state {
	for i := 4; i <= codeBefore-4; i++ {
		b := code[codeBefore-i:]
		push := code[codeBefore-i-1] == 0x55
		switch {
		case saveRBP(b), push && subRSP(b):
			return full
		case push && movRBPRSP(b):
			return byFP
		}
	}
	return unknown
}
