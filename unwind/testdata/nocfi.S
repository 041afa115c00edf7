/* Code without CFI: test labels are followed by the frame that infer must find there. */
	.text
	.globl _start
_start:
	call pushes
start_end:
	call aligned
	mov $60, %eax
	xor %edi, %edi
	syscall

	.p2align 4
	.type pushes, @function
pushes:
pushes_entry:
	push %rbx
	push %rbp
	sub $0x68, %rsp
pushes_body:
	xor %ebp, %ebp
	call thread
pushes_switch:
	lea table(%rip), %rdx
	notrack jmp *(%rdx,%rax,8)
	.p2align 3
case0:
	call leaf
	jmp 1f
case1:
	add $8, %rbx
1:	add $0x68, %rsp
	pop %rbp
pushes_popped:
	pop %rbx
	ret

	.p2align 4
	.type aligned, @function
aligned:
	push %rbp
	mov %rsp, %rbp
	and $-64, %rsp
	sub $128, %rsp
aligned_body:
	call *%rax
aligned_returned:
	leave
aligned_left:
	ret

	.p2align 4
	.type thread, @function
thread:
	mov $56, %eax
	syscall
	test %eax, %eax
	jnz 1f
	xor %ebp, %ebp
	pop %rdi
	call *%r9
thread_child:
	hlt
1:
thread_parent:
	ret

	.p2align 4
	.type clears, @function
clears:
	xor %ebp, %ebp
clears_body:
	test %eax, %eax
	jz 1f
	push %rax
clears_pushed:
	pop %rax
1:	ret

	.p2align 4
	.type clears_jumps, @function
clears_jumps:
	xor %ebp, %ebp
clears_jumps_body:
	jmp clears

	.p2align 4
	.type clears_switch, @function
clears_switch:
	xor %ebp, %ebp
clears_switch_body:
	jmp *(%rdx,%rax,8)

	.p2align 4
leaf:
	sub $8, %rsp
	call *fatal(%rip)
	ud2
	.p2align 4
referenced:
	push %r12
referenced_body:
	lea referenced(%rip), %rax
	pop %r12
	ret

	.p2align 4
	.type bad, @function
bad:
	push %rax
	test %eax, %eax
	jz bad
	pop %rax
	ret

	.data
fatal:	.quad 0
table:	.quad case0, case1
