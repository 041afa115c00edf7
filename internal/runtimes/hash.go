package runtimes

// mix adds values to a hash, as BPF does: mix in bpf/runtime.h.
func mix(h uint64, values ...uint64) uint64 {
	for _, v := range values {
		h = (h ^ v) * 0x9e3779b97f4a7c15
		h ^= h >> 32
	}
	return h
}

// checkedText is how many bytes of a text are part of a check.
//
//bpf:define checkedText TEXT
const checkedText = 192

// textHash adds a text of n bytes to a hash, as BPF does: add_text in bpf/runtime.h.
func (r *reader) textHash(h, at, n uint64) uint64 {
	n = min(n, checkedText)
	h = mix(h, n)
	if n == 0 {
		return h
	}
	b := append(r.bytes(at, int(n)), make([]byte, 8)...)
	for i := uint64(0); i < n; i += 8 {
		h = mix(h, le.Uint64(b[i:]))
	}
	return h
}

// checkOf returns the check of a function: keep_check in bpf/runtime.h.
func checkOf(h uint64, values ...uint64) uint32 { return uint32(mix(h, values...)) | 1 }
