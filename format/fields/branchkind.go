// For the CPUs that record it.

package fields

// BranchKinds are the kinds of branches (enum PERF_BR_* of include/uapi/linux/perf_event.h), "" if the CPU does not say
// it: first the kinds of the first field, then the kinds of the second one.
var BranchKinds = [...]string{"", "COND", "UNCOND", "IND", "CALL", "IND_CALL", "RET", "SYSCALL", "SYSRET",
	"COND_CALL", "COND_RET", "ERET", "IRQ", "SERROR", "NO_TX", "",
	"FAULT_ALGN", "FAULT_DATA", "FAULT_INST", "ARCH_1", "ARCH_2", "ARCH_3", "ARCH_4", "ARCH_5"}

// Conditional is the index of conditional branches in Names.
const Conditional = 1

// extended is PERF_BR_EXTEND_ABI: the kind is in the second field.
const extended = 15

// BranchKind returns the index in Names of a branch with these flags (the bit fields of struct perf_branch_entry, the
// first lowest), 0 if the kind is unknown.
func BranchKind(flags uint64) int {
	kind := int(flags >> 20 & 15)
	if kind != extended {
		return kind
	}
	if kind = extended + 1 + int(flags>>26&15); kind < len(BranchKinds) {
		return kind
	}
	return 0
}
