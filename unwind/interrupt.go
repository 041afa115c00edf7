package unwind

import "strings"

// interruptEntry says which functions of the kernel an entry from an interrupt is for. A function can be for both.
type interruptEntry uint8

const (
	ofDevices interruptEntry = 1 << iota // interrupts of devices and timers, of code in the kernel and of programs
	ofKernel                             // interrupts, exceptions and NMIs of code in the kernel
)

// interruptEntries are the functions with which the kernel enters interrupts: of x86-64, with FRED, and of arm64
// before Linux 5.14 and since. Names that end with _ are prefixes.
var interruptEntries = map[string]interruptEntry{
	"asm_sysvec_":                ofDevices | ofKernel,
	"asm_exc_":                   ofKernel,
	"asm_common_interrupt":       ofDevices | ofKernel,
	"asm_spurious_interrupt":     ofDevices | ofKernel,
	"end_repeat_nmi":             ofKernel,
	"asm_fred_entrypoint_kernel": ofKernel, // of all of them; it calls fred_extint for those of devices
	"fred_extint":                ofDevices,
	"el1_sync":                   ofKernel,
	"el1_irq":                    ofDevices | ofKernel,
	"el1_fiq":                    ofDevices | ofKernel,
	"el1_error":                  ofKernel,
	"el1h_64_sync":               ofKernel,
	"el1h_64_irq":                ofDevices | ofKernel,
	"el1h_64_fiq":                ofDevices | ofKernel,
	"el1h_64_error":              ofKernel,
	"el0_irq":                    ofDevices,
	"el0t_64_irq":                ofDevices,
	"el0t_64_fiq":                ofDevices,
	"el0t_32_irq":                ofDevices,
	"el0t_32_fiq":                ofDevices,
}

// entryOf returns the kinds of interrupts that a kernel function is an entry for: 0 if it is no entry.
func entryOf(function string) interruptEntry {
	if e := interruptEntries[function]; e != 0 {
		return e
	}
	for _, prefix := range []string{"asm_sysvec_", "asm_exc_"} {
		if strings.HasPrefix(function, prefix) {
			return interruptEntries[prefix]
		}
	}
	return 0
}

// BeginsInterrupt reports whether the kernel enters interrupts of devices or timers with a function.
func BeginsInterrupt(function string) bool { return entryOf(function)&ofDevices != 0 }

// InterruptsKernel reports whether a function of the kernel runs first after an interrupt, an exception or an NMI of
// code in the kernel. Its caller in a stack is the interrupted instruction.
func InterruptsKernel(function string) bool { return entryOf(function)&ofKernel != 0 }
