// Package stacks adds the callers in user space to samples: its BPF programs walk the user stacks. A ring then
// contains two records for each sample, which are merged into one (merge.go, merged.go).
//
// The recorder reads the side band as it drains the rings (sideband.go), follows processes and mappings
// (processes.go), and passes sampled processes to the BPF programs (register.go), together with the unwind tables
// of mapped files (file.go, tables.go), which are built in the background (build.go), or with the code heaps of
// Java virtual machines (hotspot.go). Stacks that a program could not walk, because a table was missing, are
// walked in Go (walk.go). The functions that interpreters run are put into the stacks (interpreted.go). Stacks
// that end early are counted by place (incomplete.go).
package stacks
