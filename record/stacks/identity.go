package stacks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/internal/dso"
)

// A build ID is a claim of its file: every user can write a file with another program's build ID and other unwind
// information. So gperf identifies a file whose records contain a build ID by device and inode, too. Records
// contain either build ID or inode: gperf reads the inodes from /proc when it passes the mappings of a process to
// BPF, which costs a system call for each. Files with equal tables share one in BPF, such as the files of
// containers that run one image.
//
// The inodes of a process that ended before are unknown: the process gets the file with the same build ID. If
// there are several with different tables, the process gets the file at the same path in gperf's own root
// directory, and otherwise none: frame pointers are followed.

// inodeOf returns the device and inode of an opened file; zero for an image that is no file.
func inodeOf(info fs.FileInfo) (id fileID) {
	if info == nil {
		return id
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		id = fileID{maj: unix.Major(st.Dev), min: unix.Minor(st.Dev), ino: st.Ino}
	}
	return id
}

// statInode returns the device and inode of the file at a path. It does not wait for the server of a file system.
func statInode(path string) (fileID, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &st); err != nil {
		return fileID{}, err
	}
	return fileID{maj: st.Dev_major, min: st.Dev_minor, ino: st.Ino}, nil
}

// mappedInode returns the device and inode of the file that a process maps. It fails with EPERM without
// CAP_CHECKPOINT_RESTORE.
func mappedInode(pid int32, m *mapping) (fileID, error) {
	return statInode(m.path(pid))
}

// path returns the path of the file that a process maps. It requires CAP_CHECKPOINT_RESTORE.
func (m *mapping) path(pid int32) string {
	return fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, m.start, m.end)
}

// identify stores the inode of the file that an image was read from: through a process, if it is that one's memory.
func (f *mappedFile) identify(im *dso.Image) {
	if f.id.IsZero() || f.inode != (fileID{}) {
		return
	}
	if f.inode = inodeOf(im.Info); f.inode == (fileID{}) {
		f.inode, _ = mappedInode(f.pid, &f.at)
	}
}

// identify finds out which files a process maps, where records only contain build IDs. A name in a record identifies no
// file: every user may change the root directory in a user namespace, and map another file under the name.
func (p *tracker) identify(proc *process) {
	for r := range proc.space.maps.All() {
		if m := &r.Value; !m.identified {
			p.identifyMapping(proc.pid, m)
		}
	}
}

func (p *tracker) identifyMapping(pid int32, m *mapping) {
	if m.file.id.IsZero() || m.file.jit != nil || m.file.vm != nil {
		m.renew(p, pid)
		return
	}
	k := fileKey{buildID: string(m.file.id.Bytes())}
	first := p.files[k]
	if first != nil && first.state == filePending {
		return // the file's builder stores the inode
	}
	id, err := mappedInode(pid, m)
	if err != nil { // without the right, all processes are the user's own
		m.identified = errors.Is(err, fs.ErrPermission)
		return
	}
	m.identified = true
	k.id = id
	switch known := p.files[k]; {
	case known != nil:
		m.file = known
	case first != nil && first.inode == id:
		m.file = first
	case !m.isOf(pid):
		return
	case first != nil && first.inode == fileID{}:
		first.inode, first.name = id, m.name
		m.file = first
	default:
		m.file = p.add(k, &mappedFile{name: m.name, id: m.file.id, inode: id})
	}
	m.file.locate(pid, *m)
}

// ctime is when an inode was changed last. The zero value is unknown.
type ctime struct {
	sec int64
	ns  uint32
}

func ctimeOf(info fs.FileInfo) (c ctime) {
	if info == nil {
		return c
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		c = ctime{int64(st.Ctim.Sec), uint32(st.Ctim.Nsec)}
	}
	return c
}

// changedAt returns when a file was changed, as a process maps it, or, if the process has ended, as it is now.
func (f *mappedFile) changedAt(pid int32, m *mapping) (c ctime, ended bool) {
	for _, path := range []string{m.path(pid), f.name} {
		var st unix.Statx_t
		const flags, mask = unix.AT_STATX_DONT_SYNC, unix.STATX_INO | unix.STATX_CTIME
		err := unix.Statx(unix.AT_FDCWD, path, flags, mask, &st)
		if err == nil && st.Ino == f.file.ino {
			return ctime{st.Ctime.Sec, st.Ctime.Nsec}, ended
		}
		ended = !errors.Is(err, fs.ErrPermission) // without the right, all processes are the user's own
	}
	return c, ended
}

// noteWritten stores when a file without a build ID was changed, before its table is made.
func (f *mappedFile) noteWritten() {
	if f.file != (fileID{}) && f.written == (ctime{}) {
		f.written, _ = f.changedAt(f.pid, &f.at)
	}
}

// renew gives the mappings of files without a build ID other files if they were written since their tables were
// requested: the inodes are the same.
func (s *addrSpace) renew(p *tracker, pid int32) {
	for r := range s.maps.All() {
		if m := &r.Value; !m.identified && m.file.id.IsZero() {
			m.renew(p, pid)
		}
	}
}

// errWritten is why a process that has ended has no table of a file.
var errWritten = fmt.Errorf("%w: it was written again", dso.ErrNoFile)

// renew is addrSpace.renew for one mapping. Processes that map what a file contained before have ended, as nobody may
// write to a running program: for one that has ended, too, it is not known what it contained.
func (m *mapping) renew(p *tracker, pid int32) {
	m.identified = true
	old := m.file
	if old.file == (fileID{}) || old.written == (ctime{}) {
		return
	}
	now, ended := old.changedAt(pid, m)
	switch {
	case now == (ctime{}) || now == old.written:
		return
	case ended:
		m.file = &mappedFile{name: old.name, file: old.file, state: fileGone, refused: errWritten}
		return
	}
	k := fileKey{id: old.file}
	f := p.files[k]
	if f == nil || f.written != now {
		if f != nil { // prune removes its table
			p.generated++
			p.files[fileKey{id: old.file, gen: p.generated}] = f
		}
		f = p.add(k, &mappedFile{name: old.name, file: old.file, written: now})
	}
	m.file = f
	f.locate(pid, *m)
}

// isOf reports whether a process maps a file of the mapping's name: the name of memory to which the process copied
// the file's code differs.
func (m *mapping) isOf(pid int32) bool {
	name, err := os.Readlink(m.path(pid))
	return err == nil && baseName(name) == baseName(m.name)
}

func baseName(path string) string { return filepath.Base(dso.TrimDeleted(path)) }

// claimant returns the file of a mapping whose build ID several files claim, until it is identified.
func (p *tracker) claimant(first *mappedFile, m *format.Mmap) *mappedFile {
	k := fileKey{buildID: string(m.BuildID)}
	if id, err := statInode(m.Filename); err == nil {
		k.id = id
		if f := p.files[k]; f != nil {
			return f
		}
		if first.inode == id {
			return first
		}
	}
	k.id, k.name = fileID{}, m.Filename
	if f := p.files[k]; f != nil {
		return f
	}
	f := newMappedFile(m)
	f.state = fileFP
	return p.add(k, f)
}

// twin returns a loaded file with the same build ID and an equal table, nil if there is none. It marks all files with
// the build ID as contested if a table is different.
func (t *tables) twin(f *mappedFile) (twin *mappedFile) {
	if f.id.IsZero() {
		return nil
	}
	for _, g := range t.procs.tracker.files {
		switch {
		case g == f || g.id != f.id || g.state != fileReady || g.table == nil:
		case !g.sameTable(f):
			t.contest(f)
		case g.loaded:
			twin = g
		}
	}
	return twin
}

func (f *mappedFile) sameTable(g *mappedFile) bool {
	a, b := f.table, g.table
	return f.entry == g.entry && a.Base == b.Base && slices.Equal(a.Rules, b.Rules) && slices.Equal(a.Pages, b.Pages) &&
		slices.Equal(a.Rows, b.Rows)
}

// contest marks all files with the build ID of f.
func (t *tables) contest(f *mappedFile) {
	for _, g := range t.procs.tracker.files {
		if g.id == f.id && !g.contested {
			g.contested = true
			t.contested = append(t.contested, g.name)
		}
	}
	t.builder.keeper.drop(f.id)
}
