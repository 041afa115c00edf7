// Package runtimes finds interpreters in programs and libraries, describes to the BPF programs where an interpreter
// keeps the frames of its functions, finds out where these functions belong among the native frames of a stack, and
// reads the name, the file and the lines of a function from the memory of its process.
//
// All of this memory may be wrong: another program may pretend to be an interpreter, and an interpreter changes its
// memory while it is read. Lengths are limited. An object with unexpected content costs only the names that depend
// on it.
package runtimes
