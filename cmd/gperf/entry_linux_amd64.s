// Entry point of the process if it is linked with -ldflags='-E main.entry', as the
// Makefile does. Go's runtime reserves more than half a gigabyte of addresses before
// any Go code runs; if a limit forbids this (ulimit -v), the runtime exits with a trace.

#include "textflag.h"

#define SYS_write 1
#define SYS_exit 60
#define SYS_prlimit64 302
#define RLIMIT_AS 9
#define minAddressSpace 0x60000000

TEXT ·entry(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	SUBQ $16, SP // struct rlimit64
	MOVQ $0, DI
	MOVQ $RLIMIT_AS, SI
	MOVQ $0, DX
	MOVQ SP, R10
	MOVQ $SYS_prlimit64, AX
	SYSCALL
	MOVQ 0(SP), R8
	ADDQ $16, SP
	CMPQ AX, $0
	JNE  start
	MOVQ $minAddressSpace, R9
	CMPQ R8, R9
	JCC  start // limit >= minimum; RLIM_INFINITY is the largest number
	MOVQ $2, DI
	LEAQ ·entryMessage(SB), SI
	MOVQ $89, DX
	MOVQ $SYS_write, AX
	SYSCALL
	MOVQ $1, DI
	MOVQ $SYS_exit, AX
	SYSCALL

start:
	JMP _rt0_amd64_linux(SB)

DATA ·entryMessage+0(SB)/8, $"gperf: a"
DATA ·entryMessage+8(SB)/8, $"t least "
DATA ·entryMessage+16(SB)/8, $"1.5 GiB "
DATA ·entryMessage+24(SB)/8, $"of addre"
DATA ·entryMessage+32(SB)/8, $"ss space"
DATA ·entryMessage+40(SB)/8, $" is need"
DATA ·entryMessage+48(SB)/8, $"ed: rais"
DATA ·entryMessage+56(SB)/8, $"e the li"
DATA ·entryMessage+64(SB)/8, $"mit (uli"
DATA ·entryMessage+72(SB)/8, $"mit -v 1"
DATA ·entryMessage+80(SB)/8, $"572864)."
DATA ·entryMessage+88(SB)/8, $"\n       "
GLOBL ·entryMessage(SB), RODATA|NOPTR, $96
