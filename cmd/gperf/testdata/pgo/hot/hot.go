// Package hot has a call that is worth inlining, and imports nothing, so that it compiles at once.
package hot

// Run calls mix n times.
func Run(n int) (sum uint64) {
	for i := range n {
		sum += mix(uint64(i), sum)
	}
	return sum
}

// mix is too large to be inlined without a profile.
func mix(a, b uint64) uint64 {
	for range 4 {
		a ^= b>>7 | b<<57
		b += a*31 + 11
		a = a<<13 | a>>51
		b ^= a>>3 + b<<9
		a += b*17 ^ a>>23
		b = b<<29 | b>>35
		a ^= b*13 + a<<5
		b -= a>>11 ^ b*7
		a = a*5 + b>>2
		b ^= a<<19 | a>>45
	}
	return a ^ b
}
