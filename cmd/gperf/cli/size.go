package cli

import "gperf/internal/text"

// Size is the value of a flag: a number of bytes in B, K, M or G.
type Size int64

// String returns "", so that help shows no default.
func (*Size) String() string { return "" }

// Type is the word for the value in help.
func (*Size) Type() string { return "size" }

// Set parses the flag.
func (s *Size) Set(value string) error {
	n, err := text.ParseSize(value)
	*s = Size(n)
	return err
}
