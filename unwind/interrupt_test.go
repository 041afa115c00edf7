package unwind

import "testing"

func TestInterruptEntries(t *testing.T) {
	for _, tt := range []struct {
		function         string
		begins, ofKernel bool
	}{
		{"asm_sysvec_apic_timer_interrupt", true, true},
		{"asm_common_interrupt", true, true},
		{"asm_exc_page_fault", false, true},
		{"fred_extint", true, false},
		{"asm_fred_entrypoint_kernel", false, true},
		{"el1h_64_irq", true, true},
		{"el1h_64_sync", false, true},
		{"el0t_64_irq", true, false},
		{"sysvec_apic_timer_interrupt", false, false},
		{"schedule", false, false},
		{"", false, false},
	} {
		if begins, ofKernel := BeginsInterrupt(tt.function), InterruptsKernel(tt.function); begins != tt.begins ||
			ofKernel != tt.ofKernel {
			t.Errorf("%s: begins an interrupt %v, interrupts the kernel %v, want %v, %v", tt.function, begins, ofKernel,
				tt.begins, tt.ofKernel)
		}
	}
}
