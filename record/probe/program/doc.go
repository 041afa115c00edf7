// Package program answers: where in a program or library can a probe be? It finds files as the
// shell and the dynamic linker do, and in them functions, source lines and USDT probes.
package program
