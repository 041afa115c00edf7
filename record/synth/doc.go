// Package synth describes the system before the recording: it makes the side-band records of the kernel and the
// running processes from /proc, the feature sections that describe the machine, and the copy of the kernel's code.
package synth
