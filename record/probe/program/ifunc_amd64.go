package program

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// callResolvers calls the resolvers of a library to find the implementations that they choose: in a program that
// loaded and initialized the library, but is stopped before the first instruction of the program itself. It fills
// in vaddrs by resolver.
func (i ifuncs) callResolvers() error {
	if abiOf(i.file.Image) != native() || i.file.Type != elf.ET_DYN || i.file.Section(".interp") != nil &&
		i.file.Section(".dynsym") == nil {
		return errors.New("it is not a library that a program here can load")
	}
	program, err := exec.LookPath("true")
	if err != nil {
		return err
	}
	// All calls of ptrace must come from one thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command(program)
	cmd.Env = []string{"LD_PRELOAD=" + i.file.path}
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	t := tracee(cmd.Process.Pid)
	if _, err := t.wait(); err != nil { // the exec
		return err
	}
	if err := t.stopAtEntry(); err != nil {
		return fmt.Errorf("cannot start %s with %s loaded: %w", program, i.file.path, err)
	}
	maps, err := mappings(int(t))
	if err != nil {
		return err
	}
	bias, ok := biasOf(i.file.Image, maps, i.file.path)
	if !ok {
		return fmt.Errorf("%s does not load it", program)
	}
	var start syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(int(t), &start); err != nil {
		return err
	}
	var errs error
	for resolver := range i.at {
		ip, err := t.call(start, resolver+bias)
		if err != nil {
			errs = err
			continue
		}
		i.at[resolver] = ip - bias
	}
	return errs
}

// tracee is a process under ptrace, which is stopped by a breakpoint at the entry.
type tracee int

const int3 = 0xcc

// stopAtEntry runs the dynamic linker.
func (t tracee) stopAtEntry() error {
	entry, err := t.entry()
	if err != nil {
		return err
	}
	if _, err := syscall.PtracePokeText(int(t), uintptr(entry), []byte{int3}); err != nil {
		return err
	}
	return t.untilTrap()
}

// entry returns the program's entry point, from the auxiliary vector (AT_ENTRY).
func (t tracee) entry() (uint64, error) {
	const atEntry = 9
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", int(t)))
	for ; err == nil && len(b) >= 16; b = b[16:] {
		if binary.LittleEndian.Uint64(b) == atEntry {
			return binary.LittleEndian.Uint64(b[8:]), nil
		}
	}
	return 0, errors.Join(errors.New("no entry"), err)
}

// call calls a function without arguments, which returns to the breakpoint.
func (t tracee) call(start syscall.PtraceRegs, function uint64) (uint64, error) {
	regs := start
	breakpoint := start.Rip - 1
	const redZone = 128
	regs.Rsp = (start.Rsp-redZone)&^15 - 8 // as after a call
	regs.Rip, regs.Rax, regs.Orig_rax = function, 0, ^uint64(0)
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], breakpoint)
	if _, err := syscall.PtracePokeData(int(t), uintptr(regs.Rsp), b[:]); err != nil {
		return 0, err
	}
	if err := syscall.PtraceSetRegs(int(t), &regs); err != nil {
		return 0, err
	}
	if err := t.untilTrap(); err != nil {
		return 0, err
	}
	if err := syscall.PtraceGetRegs(int(t), &regs); err != nil {
		return 0, err
	}
	if regs.Rip != start.Rip {
		return 0, fmt.Errorf("the resolver stopped at %#x", regs.Rip)
	}
	return regs.Rax, nil
}

func (t tracee) untilTrap() error {
	if err := syscall.PtraceCont(int(t), 0); err != nil {
		return err
	}
	sig, err := t.wait()
	if err == nil && sig != syscall.SIGTRAP {
		err = fmt.Errorf("it got the signal %v", sig)
	}
	return err
}

// wait waits until the process stops.
func (t tracee) wait() (syscall.Signal, error) {
	var st syscall.WaitStatus
	for {
		_, err := syscall.Wait4(int(t), &st, 0, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return 0, err
		case !st.Stopped():
			return 0, errors.New("it has exited")
		}
		return st.StopSignal(), nil
	}
}
