/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The data that user space gives the programs: the mappings of processes, and unwind tables. Package bpf defines
 * the same layouts.
 */
#ifndef DATA_H
#define DATA_H

#include "control.h"

/* Why a walk ended: package bpf's End. */
enum end {
	END_NONE,        /* still walking */
	END_ENTRY,       /* at an entry point: the stack is complete */
	END_NO_USER,     /* no user stack: a kernel thread, a process that is exiting */
	END_COMPAT,      /* a 32-bit task */
	END_NO_PROCESS,  /* the process is unknown */
	END_NO_MAPPING,  /* the address is in no known mapping */
	END_NO_TABLE,    /* the mapping's table is not loaded yet */
	END_NO_RULE,     /* no row covers the address */
	END_UNSUPPORTED, /* a row does, but no rule can express it */
	END_UNREADABLE,  /* stack memory cannot be read */
	END_FP,          /* frame pointers, without CFI, lead nowhere */
	END_ZERO,        /* a return address or frame pointer is 0, but not at a known entry point */
	END_DEPTH,       /* too many frames */
	END_INTERNAL,
};

/*
 * Each element of the array holds two rows, because the size of an element is a multiple of 8; an unwind.Row
 * contains Off in the lower 16 bits, Rule in the upper ones.
 */
struct row_pair {
	__u64 both;
};

struct page { /* unwind.Page */
	__u32 first, n;
};

struct rule { /* unwind.Rule */
	__u8 cfa, ra, fp, flags;
	__s32 cfa_off;
	__s16 cfa_off2, ra_off, fp_off;
	__u16 last; /* in struct known: the address is the last one of the row; else 0 */
};

struct table {
	__u64 base; /* unwind.Table.Base */
	__u32 pages, num_pages;
	__u32 rules, used; /* used is set when a walk uses the table */
	__u64 entry;       /* vaddr of the process's entry point */
	__u64 serial;      /* unique among recent tables */
};

/* Values of mapping.table that are no index into tables. */
enum {
	TABLE_PENDING = 0xffffffff, /* not loaded yet */
	TABLE_FP = 0xfffffffe,      /* no table: use frame pointers */
	TABLE_UPROBES = 0xfffffffd, /* the kernel's return trampoline of uretprobes */
	TABLE_MADE = 0xfffffffc,    /* code made at run time, in memory without a file */
	TABLE_HOTSPOT = 0xfffffff0, /* a code heap of HotSpot: bias is the index in code_heaps */
};

struct mapping {
	__u64 start, end;
	__u64 bias; /* ip - vaddr */
	__u32 table, zero;
};

struct process {
	__u32 exec;     /* exec count that the mappings belong to */
	__u32 first, n; /* mappings, by address */
	__u32 copies;   /* copies left to send for addresses outside all mappings */
	__u32 runtime;  /* index in runtimes; 0: none whose functions are named */
	__u32 stale;    /* a mapping was replaced since */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32); /* tgid */
	__type(value, struct process);
	__uint(max_entries, 1);
} processes SEC(".maps") PER_RECORDING;

struct code_heap { /* hotspot.Heap */
	__u64 low, high, segments, cache_low, cache_high, interp, interp_size, unloaded;
	__u8 shift, blob, used, size, complete, code, end, complete_bits, code_bits, zero[7];
};

/* runtimes.Kind. */
enum {
	RUNTIME_PYTHON = 1,
	RUNTIME_RUBY,
	RUNTIME_PHP,
	RUNTIME_PERL,
	RUNTIME_V8,
	RUNTIME_JAVA,
};

/*
 * The data that the walk needs about the runtime of a process: runtimes.Walk. body is a struct of the runtime's
 * kind.
 */
struct runtime {
	__u32 kind, zero;
	__u64 body[16];
};

/* CPython: offsets in objects, in bytes. Package internal/runtimes defines the same layout. */
struct python {
	__u64 head;                        /* address of the pointer to the newest interpreter's state */
	__u32 threads, next_interpreter;   /* in an interpreter's state */
	__u16 next_thread, thread_id, status, top; /* in a thread's state; top: the frame, or */
	__u16 top_frame;                   /* in the object that top points to */
	__u16 thread_size;
	__u16 back, code, instr, owner, copy_index, frame_size; /* in a frame */
	__u16 code_at, code_size;          /* the part of a code object that is read, and in it: */
	__u16 code_first_line, code_file, code_name, code_lines;
	__u16 code_instrs, code_copies;    /* in a code object */
	__u16 string_hash, string_data;    /* in a string; the length is before the hash */
	__u8 entry, instr_bits, instr_unit, zero;
};

/* Where a thread-local variable is: runtimes.threadVariable. */
enum { THREAD_FIXED = 1, THREAD_OFFSET, THREAD_MODULE, THREAD_DESCRIPTOR };

struct thread_variable {
	__u64 slot;       /* address of the value that the dynamic linker stored */
	__u64 offset;     /* in the thread's own data, or in the module's part of it */
	__u32 kind, zero; /* THREAD_FIXED: offset; THREAD_OFFSET: the slot contains the offset; THREAD_MODULE: the slot
			   * contains the number of the module; THREAD_DESCRIPTOR: the slot's second word contains
			   * the offset, or the address of the module's number and the offset */
};

/* CRuby. Package internal/runtimes defines the same layout. */
struct ruby {
	struct thread_variable context; /* the thread's execution context */
	__u64 frame_size;               /* of a frame, in bytes */
	__u64 short_strings;            /* the flags of a short string contain the length */
};

/* PHP: offsets in a function (zend_function), in bytes; the other objects are the same in all versions. */
struct php {
	__u64 head; /* address of the pointer to the current frame */
	__u16 function_size; /* the part of a function that is read, and in it: */
	__u16 count, code, file, lines; /* lines: the first and the last one */
	__u16 zero[3];
};

/* Perl. Package internal/runtimes defines the same layout. */
struct perl {
	struct thread_variable context; /* the thread's interpreter */
};

/* HotSpot: a distance in an interpreted frame, in bytes. */
struct java {
	__u32 bytecode; /* from the address of the bytecode to the frame pointer */
	__u32 zero;
};

/* V8: offsets in frames and objects, in bytes. Package internal/runtimes defines the same layout. */
struct v8 {
	__u64 builtins_start, builtins_end; /* vaddrs of builtins, which run interpreted functions */
	__s16 context, function, bytecode, offset; /* below the frame pointer */
	__u16 shared;                      /* in a JSFunction: the SharedFunctionInfo */
	__u16 data, script, literal;       /* in that */
	__u16 script_id;                   /* in a Script */
	__u16 bytecode_header;             /* the size of the header before the instructions in a BytecodeArray */
};

ARRAY(mappings, struct mapping) PER_RECORDING;
ARRAY(runtimes, struct runtime) PER_RECORDING;
ARRAY(code_heaps, struct code_heap) PER_RECORDING;
ARRAY(tables, struct table) PER_RECORDING;
ARRAY(pages, struct page) PER_RECORDING;
ARRAY(rows, struct row_pair) PER_RECORDING;
ARRAY(rules, struct rule) PER_RECORDING;

enum { CFA_NONE, CFA_RSP, CFA_RBP, CFA_DEREF_RSP, CFA_DEREF_RBP, CFA_PLT, CFA_REG, CFA_SIGNAL, CFA_UNSUPPORTED, CFA_GOROUTINE };
enum { RA_AT_CFA, RA_UNDEFINED, RA_REG, RA_AT_SP, RA_AT_FP, RA_GOROUTINE };
enum { FP_SAME, FP_AT_CFA, FP_AT_FP, FP_AT_SP, FP_UNDEFINED, FP_REG, FP_GOROUTINE };
enum { FLAG_SIGNAL = 1, FLAG_CONVENTION = 2, FLAG_FRAMED = 4, FLAG_INFERRED = 8 };

#endif
