package script

import (
	"strconv"

	"gperf/format"
	"gperf/format/fields"
	"gperf/internal/session"
)

// speculations says how a branch was speculated upon (enum PERF_BR_SPEC_* of include/uapi/linux/perf_event.h).
var speculations = [...]string{"-", "SPEC_WRONG_PATH", "NON_SPEC_CORRECT_PATH", "SPEC_CORRECT_PATH"}

// branchFlags are the bit fields of struct perf_branch_entry, the first lowest.
type branchFlags uint64

// take returns the next field, of n bits.
func (f *branchFlags) take(n int) uint64 {
	v := uint64(*f) & (1<<n - 1)
	*f >>= n
	return v
}

// appendFlags appends the flags of a branch: how it was predicted, whether in
// a transaction, whether that was aborted, its cycles, its kind, and how it was
// speculated upon (print_bstack_flags of tools/perf/builtin-script.c).
func appendFlags(b []byte, f branchFlags) []byte {
	kind := fields.BranchKind(uint64(f))
	missed, predicted, inTX, aborted := f.take(1), f.take(1), f.take(1), f.take(1)
	cycles, _, speculated, _, notTaken := f.take(16), f.take(4), f.take(2), f.take(4+3), f.take(1)
	b = append(b, '/')
	switch {
	case predicted != 0:
		b = append(b, 'P')
	case missed != 0 || notTaken != 0:
		b = append(b, 'M')
	default:
		b = append(b, '-')
	}
	if notTaken != 0 {
		b = append(b, 'N')
	}
	b = append(b, '/', "-X"[inTX], '/', "-A"[aborted], '/')
	b = append(strconv.AppendUint(b, cycles, 10), '/')
	b = append(b, fields.BranchKinds[kind]...)
	b = append(append(b, '/'), speculations[speculated]...)
	return append(b, ' ')
}

// appendBranches appends the branch stack: addresses, symbols, or addresses within
// files, as fields want them.
func (p *printer) appendBranches(b []byte, s *session.Sample, fields Field, a *format.Attr) []byte {
	stack := s.Branch(a)
	for i := range stack.Len() {
		from, to := s.Branches[2*i], s.Branches[2*i+1]
		switch {
		case fields&FieldBrstack != 0:
			b = append(b, ' ')
			b = appendBranchEnd(b, from, from.IP, fields)
			b = append(b, '/')
			b = appendBranchEnd(b, to, to.IP, fields)
		case fields&FieldBrstackSym != 0:
			b = appendBranchSymbol(b, from, fields)
			b = append(b, '/')
			b = appendBranchSymbol(b, to, fields)
		default:
			b = append(b, ' ')
			b = appendBranchEnd(b, from, branchOff(from), fields)
			b = append(b, '/')
			b = appendBranchEnd(b, to, branchOff(to), fields)
		}
		b = appendFlags(b, branchFlags(stack.Flags(i)))
	}
	return b
}

// branchOff is a branch's address within its file, or from the kernel's start.
func branchOff(f *session.Frame) uint64 {
	if f.Map != nil && f.Kernel {
		return f.IP - f.Map.Start
	}
	return f.MapOff()
}

func appendBranchEnd(b []byte, f *session.Frame, addr uint64, fields Field) []byte {
	b = append(b, "0x"...)
	b = strconv.AppendUint(b, addr, 16)
	if fields&FieldDSO != 0 {
		b = appendDSO(b, f, fields)
	}
	return b
}

func appendBranchSymbol(b []byte, f *session.Frame, fields Field) []byte {
	b = append(b, f.Symbol()...)
	if f.Sym() != nil {
		b = append(b, "+0x"...)
		b = strconv.AppendUint(b, f.Off(), 16)
	}
	if fields&FieldDSO != 0 {
		b = appendDSO(b, f, fields)
	}
	return b
}
