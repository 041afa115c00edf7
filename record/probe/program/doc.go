// Package program finds the places of probes in programs and libraries: it finds files as the shell and the dynamic
// linker do, and in them functions, source lines and USDT probes.
package program
