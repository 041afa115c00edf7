package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"gperf/format"
)

// When a CPU goes offline, the kernel removes its counters for good. Their files stay open,
// and the ring stays mapped. When the CPU is online again, gperf opens its events again and
// directs them to the same ring. The kernel gives them new ids, which the file's header does
// not list: the recorder replaces these by the ids of the removed counters, in a copy of the
// ring's data, because the ring's data pages are read-only.

// followCPUs makes the loop reopen the events of a CPU that comes online. The kernel reports
// CPUs by kobject uevents; if these are unavailable, CPUs are not followed.
func (r *recorder) followCPUs(ctx context.Context) {
	if !r.opts.Target.byCPU() || r.opts.Overwrite { // rings to be overwritten are mapped read-only
		return
	}
	events, err := openUevents()
	if err != nil {
		return
	}
	context.AfterFunc(ctx, func() { events.Close() })
	go func() {
		b := make([]byte, maxUevent)
		for {
			n, err := events.Read(b)
			if errors.Is(err, unix.ENOBUFS) {
				continue // some uevents were lost
			}
			if err != nil {
				return
			}
			if cpu, ok := parseOnline(b[:n]); ok {
				r.ask(ctx, func() (bool, error) { r.cameOnline(cpu); return false, nil })
			}
		}
	}()
}

// maxUevent is larger than any message of the kernel, in bytes.
const maxUevent = 1 << 14

// openUevents opens a socket that receives the kernel's uevents.
func openUevents() (*os.File, error) {
	const kernelGroup = 1
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelGroup}); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "uevents"), nil
}

// parseOnline returns the CPU of a uevent that reports a CPU online:
// "online@/devices/system/cpu/cpu1", a zero byte, and variables.
func parseOnline(uevent []byte) (cpu int, ok bool) {
	head, _, _ := bytes.Cut(uevent, []byte{0})
	number, ok := bytes.CutPrefix(head, []byte("online@/devices/system/cpu/cpu"))
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(string(number), 10, 16)
	return int(n), err == nil
}

// cameOnline reopens the events of a CPU. If that fails, the other CPUs are still recorded.
func (r *recorder) cameOnline(cpu int) {
	if err := r.reopen(cpu); err != nil {
		r.opts.notice(fmt.Errorf("CPU %d is online again, but cannot be recorded: %w", cpu, err))
	}
}

var errReopenCounts = errors.New("the counts in samples would begin at 0 again")

// reopen opens the events of a CPU in place of the counters that the kernel removed. It does
// nothing for a CPU without counters.
func (r *recorder) reopen(cpu int) error {
	at := slices.IndexFunc(r.rings, func(ring *Ring) bool { return ring.cpu == cpu })
	if at < 0 {
		return nil
	}
	ring := r.rings[at]
	fresh, err := r.openAgain(cpu)
	if err != nil {
		return err
	}
	watched := false
	for i := range r.counters {
		c := &r.counters[i]
		if c.cpu != cpu {
			continue
		}
		if err := r.replaceCounter(ring, c, fresh[c.event], r.attrs[c.event].IDs[r.idIndex(i)]); err != nil {
			return err
		}
		if watched {
			continue
		}
		if err := r.watchFD(c.fd, unix.EPOLLIN); err != nil {
			return err
		}
		watched = true
	}
	for _, n := range r.joiners {
		if n.cpu == cpu {
			return r.reopenOutput(n)
		}
	}
	return nil
}

// openAgain opens each event that has a counter on a CPU, and returns the new counters by
// event.
func (r *recorder) openAgain(cpu int) (map[int]counter, error) {
	old := r.counters
	defer func() { r.counters, r.final = old, false }()
	r.final = true
	fresh := map[int]counter{}
	for _, c := range old {
		if c.cpu != cpu {
			continue
		}
		err := errReopenCounts
		if r.attrs[c.event].SampleType&format.SampleRead == 0 {
			err = r.openEvent(c.event, []int{cpu}, []int{c.tid})
		}
		if err != nil {
			for _, c := range r.counters[len(old):] {
				unix.Close(c.fd)
			}
			return nil, err
		}
		fresh[c.event] = r.counters[len(r.counters)-1]
	}
	return fresh, nil
}

// replaceCounter makes a new counter write to the ring of the removed one, and carries over
// its id, its count of lost records and its state.
func (r *recorder) replaceCounter(ring *Ring, removed *counter, fresh counter, id uint64) error {
	a := &r.attrs[removed.event]
	if err := ring.attach(fresh.fd); err != nil {
		unix.Close(fresh.fd)
		return err
	}
	freshID, err := fresh.id()
	if err != nil {
		unix.Close(fresh.fd)
		return err
	}
	ring.renameID(a, freshID, id)
	lost := uint64(0)
	if a.ReadFormat&format.ReadLost != 0 {
		lost, _ = removed.lost(a, id, len(r.events)) // on an error this count stays incomplete
	}
	fresh.lostBefore, fresh.told, fresh.on = removed.lostBefore+lost, removed.told, removed.on
	if removed.fd == ring.fd {
		r.retired = append(r.retired, removed.fd)
	} else {
		unix.Close(removed.fd)
	}
	*removed = fresh
	if fresh.on {
		return r.enableOne(removed, true)
	}
	return nil
}

// reopenOutput opens the events again to which BPF programs write on a CPU.
func (r *recorder) reopenOutput(n *joiner) error {
	if r.dwarf != nil {
		if err := r.dwarf.output(n, &r.attrs[0]); err != nil {
			return err
		}
	}
	if r.emit == nil {
		return nil
	}
	for i := range r.emit.counters {
		removed := &r.emit.counters[i]
		if removed.cpu != n.cpu {
			continue
		}
		fresh, err := r.emit.output(r, n)
		if err != nil {
			return err
		}
		lost, _ := removed.lost(&r.attrs[removed.event], 0, len(r.events))
		fresh.lostBefore, fresh.told = removed.lostBefore+lost, removed.told
		unix.Close(removed.fd)
		*removed = fresh
	}
	return nil
}

// idNames replaces ids of counters in a copy of a ring by those in the file's header.
type idNames struct {
	mapped []byte            // the ring's data
	ids    map[uint64]uint64 // new ones, by the kernel's
	sample uint64            // position of the id in samples, in bytes from the header
	others uint64            // position of the id in other records, in bytes from their end
	done   uint64            // data is copied up to this position
}

// renameID replaces the id of one of the ring's counters, whose attr is a, in all records
// from then on. A file with one event needs no ids.
func (r *Ring) renameID(a *format.Attr, from, to uint64) {
	if a.SampleType&(format.SampleIdentifier|format.SampleID) == 0 {
		return
	}
	if r.ids == nil {
		r.ids = newIDNames(a)
		r.ids.mapped, r.ids.done = r.data, r.read
		r.data = make([]byte, len(r.data))
	}
	r.ids.ids[from] = to
}

// newIDNames finds the ids in records by an attr: if attrs differ, all have IDENTIFIER, else
// their fields are the same.
func newIDNames(a *format.Attr) *idNames {
	l := format.NewSampleLayout(a)
	return &idNames{ids: map[uint64]uint64{}, sample: format.HeaderSize + uint64(l.ID), others: uint64(l.IDFromEnd)}
}

// Positions of a second id in records of these types, in bytes from the header.
const (
	lostID     = 8
	throttleID = 8 + 8
)

// take copies the records up to head and replaces their ids.
func (n *idNames) take(r *Ring, head uint64) {
	if n.done == head {
		return
	}
	size := uint64(len(r.data))
	from, to := n.done&(size-1), head&(size-1)
	if from < to {
		copy(r.data[from:], n.mapped[from:to])
	} else {
		copy(r.data[from:], n.mapped[from:])
		copy(r.data, n.mapped[:to])
	}
	for pos := n.done; pos < head; {
		h := r.word(pos)
		size := h >> 48
		if size < 16 || size > head-pos {
			break // not a record: the file's reader reports it
		}
		switch format.Type(uint32(h)) {
		case format.TypeSample:
			n.rename(r, pos+n.sample)
			pos += size
			continue
		case format.TypeLost:
			n.rename(r, pos+lostID)
		case format.TypeThrottle, format.TypeUnthrottle:
			n.rename(r, pos+throttleID)
		}
		n.rename(r, pos+size-n.others)
		pos += size
	}
	n.done = head
}

func (n *idNames) rename(r *Ring, pos uint64) {
	if id, ok := n.ids[r.word(pos)]; ok {
		r.setWord(pos, id)
	}
}
