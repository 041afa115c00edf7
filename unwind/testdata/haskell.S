# Code as in programs of GHC: StgRun, whose CFI moves the caller's rsp away from the CFA, and code without CFI that runs
# in StgRun's frame. With -DLIBRARY, StgRun is in another file.
	.text
#ifndef LIBRARY
	.globl StgRun
	.type StgRun, @function
	.p2align 4
StgRun:
	.cfi_startproc
	sub $48, %rsp
	mov %rbp, 8(%rsp)
	sub $16384, %rsp
	.cfi_def_cfa rsp, 0
	.cfi_offset rbp, 16392
	.cfi_offset rip, 16432
	.cfi_escape 0x16, 7, 4, 0x77, 0xb8, 0x80, 0x01 # the caller's rsp is rsp + 16440
stgrun_frame:
	jmp *%rdi
	.cfi_endproc
	.size StgRun, . - StgRun
#endif
	.globl c
	.type c, @function
	.p2align 4
c:
	.cfi_startproc
	ret
	.cfi_endproc
	.size c, . - c
	.p2align 4
	.quad 0x8348 # an info table
plain:
	mov %rbx, (%rbp)
	call c@plt
plain_return:
	add $16, %rbp
	sub $8, %rsp
lowered:
	xor %eax, %eax
	call c@plt
lowered_return:
	add $8, %rsp
restored:
	mov stg_upd_frame_info@GOTPCREL(%rip), %rax
	jmp *%rax
	.fill 32, 1, 0x90
#ifndef LIBRARY
	.globl stg_upd_frame_info
stg_upd_frame_info:
	jmp *(%rbp)
#endif
	.section .note.GNU-stack, "", @progbits
