/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The data that user space gives the programs: the mappings of processes, and unwind tables; see also shared.h.
 */
#ifndef DATA_H
#define DATA_H

#include "control.h"

/*
 * Each element of the array holds two rows, because the size of an element is a multiple of 8; an unwind.Row
 * contains Off in the lower 16 bits, Rule in the upper ones.
 */
struct row_pair {
	__u64 both;
};

struct table {
	__u64 base; /* unwind.Table.Base */
	__u32 pages, num_pages;
	__u32 rules, used; /* used is set when a walk uses the table */
	__u64 entry;       /* vaddr of the process's entry point */
	__u64 serial;      /* unique among recent tables */
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

/* file_key is a mapping of a file, by the file's inode at the time of its last change; zeros are the vdso. */
struct file_key {
	__u64 inode, off; /* off: of the mapping in the file, in bytes */
	__s64 changed;    /* ctime, in s and ns */
	__u32 changed_ns, dev;
};

struct file_table {
	__u64 bias; /* ip - vaddr - start of the mapping */
	__u32 table, zero;
};

/* The files with tables, for processes that are not in processes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct file_key);
	__type(value, struct file_table);
	__uint(max_entries, 1);
} files SEC(".maps") PER_RECORDING;

ARRAY(mappings, struct mapping) PER_RECORDING;
ARRAY(runtimes, struct runtime) PER_RECORDING;
ARRAY(code_heaps, struct code_heap) PER_RECORDING;
ARRAY(tables, struct table) PER_RECORDING;
ARRAY(pages, struct page) PER_RECORDING;
ARRAY(rows, struct row_pair) PER_RECORDING;
ARRAY(rules, struct rule) PER_RECORDING;

#endif
