// Uses the CPU for some ms in work, with a large frame, called by main; with -DDEEP with none, called by mid, which has
// as large a frame. The unwind table of the first program leads past mid in the second: to main, as if all were right.
#ifdef __x86_64__

#ifdef DEEP
#define MAKE ".byte 0x0f, 0x1f, 0x40, 0\n" // nop
#define DROP MAKE
#define enter mid
#else
#define MAKE "sub $0x40, %rsp\n.cfi_adjust_cfa_offset 0x40\n"
#define DROP "add $0x40, %rsp\n.cfi_adjust_cfa_offset -0x40\n"
#define enter work
#endif

asm(".text\n"
    ".type work, @function\n"
    "work: .cfi_startproc\n" MAKE
    "mov $30000000, %ecx\n"
    "1: dec %ecx\n"
    "jnz 1b\n" DROP
    "ret\n"
    ".cfi_endproc\n"
    ".size work, . - work\n"
    ".type mid, @function\n"
    "mid: .cfi_startproc\n"
    "sub $0x38, %rsp\n.cfi_adjust_cfa_offset 0x38\n"
    "call work\n"
    "add $0x38, %rsp\n.cfi_adjust_cfa_offset -0x38\n"
    "ret\n"
    ".cfi_endproc\n"
    ".size mid, . - mid\n");

void work(void);
void mid(void);

int main(void)
{
	enter();
	return 0;
}

#else

int main(void) { return 0; }

#endif
