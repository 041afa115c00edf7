package format

import "fmt"

// Error is a defect of a perf.data file, and its offset.
type Error struct {
	Off int64 // in the file; -1 when the error has no place
	Msg string
	Err error // may be nil
}

func (e *Error) Error() string {
	s := e.Msg
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Off < 0 {
		return s
	}
	return fmt.Sprintf("at offset %#x: %s", e.Off, s)
}

func (e *Error) Unwrap() error { return e.Err }

func errorf(off int64, err error, msg string, args ...any) *Error {
	return &Error{Off: off, Msg: fmt.Sprintf(msg, args...), Err: err}
}
