package event

import (
	"fmt"
	"regexp"
	"runtime"

	"gperf/format/fields"
)

// SystemCallError means that words of -e name a system call, for which there is no event of this name.
type SystemCallError struct{ Spec, Name string }

func (e *SystemCallError) Error() string {
	return fmt.Sprintf("event %q: %s is a system call: use -e span:syscalls --filter 'id == %[2]s' for its calls, "+
		"or -e syscalls:sys_enter_%[2]s", e.Spec, e.Name)
}

// WrongUse reports that the command line caused the error.
func (e *SystemCallError) WrongUse() bool { return true }

// callWords matches the words that users may write for a system call: alone, or after the prefix of another event.
var callWords = regexp.MustCompile(
	`^(?:(?:span|kprobe|kretprobe|syscalls?|raw_syscalls|tracepoint|trace|span:syscalls)[:=])?` +
		`(?:__x64_|__arm64_|__se_)?(?:sys_|SyS_)?(?:enter_|exit_)?([a-z_0-9]+)$`)

// systemCall returns the error for words that name a system call, or err if they do not.
func systemCall(spec string, err error) error {
	m := callWords.FindStringSubmatch(spec)
	if m == nil || len(fields.SyscallsOf(machines[runtime.GOARCH]).Numbers(m[1])) == 0 {
		return err
	}
	return &SystemCallError{spec, m[1]}
}

// SyscallNames returns the names of this machine's system calls, of those of 64-bit programs.
func SyscallNames() (l []Value) {
	for n, name := range fields.SyscallsOf(machines[runtime.GOARCH]).All() {
		if n&fields.CompatSyscall == 0 {
			l = append(l, Value{Name: name, Number: n})
		}
	}
	return l
}

// machines gives the kernel's names of architectures (uname -m) by Go's.
var machines = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}
