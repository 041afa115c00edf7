package archive

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"sync"
	"time"

	"gperf/internal/dso"
)

// Archive is an open archive. It is an fs.FS without directories, whose files are
// io.ReaderAt. It may be used from several goroutines.
type Archive struct {
	members map[string]*member
	names   []string // sorted
}

// Open reads the directory of the archive of size bytes in r, which must allow concurrent reads. The members are
// read when asked for.
func Open(r io.ReaderAt, size int64) (*Archive, error) {
	z, err := zip.NewReader(r, size)
	if errors.Is(err, zip.ErrFormat) {
		return nil, fmt.Errorf("%w: the directory at its end is missing: it may be truncated", ErrDamaged)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	a := &Archive{members: map[string]*member{}}
	var list []*member
	for _, f := range z.File {
		if f.Name != "" && f.Name[len(f.Name)-1] == '/' {
			continue // a directory, as other tools write them
		}
		if err := a.add(&f.FileHeader, f); err != nil {
			return nil, err
		}
		list = append(list, a.members[f.Name])
	}
	if err := a.readIndex(r, list); err != nil {
		return nil, err
	}
	if len(a.recording()) == 0 {
		return nil, ErrNoRecording
	}
	return a, nil
}

func (a *Archive) add(h *zip.FileHeader, f *zip.File) error {
	switch {
	case !fs.ValidPath(h.Name):
		return fmt.Errorf("%w: invalid file name %q", ErrDamaged, h.Name)
	case a.members[h.Name] != nil:
		return fmt.Errorf("%w: duplicate file %s", ErrDamaged, h.Name)
	case !h.Mode().IsRegular():
		return fmt.Errorf("%w: %s is not a regular file", ErrDamaged, h.Name)
	case h.UncompressedSize64 > 1<<62 || h.CompressedSize64 > 1<<62:
		return fmt.Errorf("%w: %s has %d bytes", ErrDamaged, h.Name, h.UncompressedSize64)
	}
	a.members[h.Name] = &member{file: f, size: int64(h.UncompressedSize64)}
	a.names = append(a.names, h.Name)
	return nil
}

// maxIndex limits the index, which takes about 8 bytes for 256 KiB.
const maxIndex = 64 << 20

// readIndex reads where the members' pieces lie. Without an index, which other tools may drop when they edit the
// archive, each member is read from the beginning.
func (a *Archive) readIndex(r io.ReaderAt, list []*member) error {
	slices.Sort(a.names)
	ix := a.members[index]
	if ix == nil {
		return nil
	}
	if ix.size > maxIndex {
		return fmt.Errorf("%w: an index of %d bytes", ErrDamaged, ix.size)
	}
	b, err := ix.all()
	if err != nil {
		return err
	}
	var sizes [][2]uint64
	list = slices.DeleteFunc(list, func(m *member) bool { return m == ix })
	for _, m := range list {
		sizes = append(sizes, [2]uint64{uint64(m.size), m.file.CompressedSize64})
	}
	all, err := parseIndex(b, sizes)
	if err != nil {
		return err
	}
	for i, m := range list {
		if m.file.Method != zip.Deflate {
			return fmt.Errorf("%w: %s is not deflated", ErrDamaged, m.file.Name)
		}
		m.pieces = all[i]
		m.raw = sync.OnceValues(func() (io.ReaderAt, error) { return m.open(r) })
	}
	return nil
}

// Locator returns the Locator of the archive's files.
func (a *Archive) Locator() *dso.Locator { return dso.InFiles(a) }

// Names returns the sorted names of the members. The caller must not change them.
func (a *Archive) Names() []string { return a.names }

// Part is a file of a recording.
type Part struct {
	io.ReaderAt
	Size    int64
	Changed time.Time // when it was written last
}

// Recording returns the parts of the recording: one file, or the files of the directory, data first.
func (a *Archive) Recording() (parts []Part) {
	for _, m := range a.recording() {
		parts = append(parts, Part{m, m.size, m.file.Modified})
	}
	return parts
}

func (a *Archive) recording() (l []*member) {
	if m := a.members[recording]; m != nil {
		return []*member{m}
	}
	for i := 0; ; i++ {
		m := a.members[partName(recording, true, i)]
		if m == nil {
			return l
		}
		l = append(l, m)
	}
}

// Open implements fs.FS.
func (a *Archive) Open(name string) (fs.File, error) {
	m := a.members[name]
	if m == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &file{io.NewSectionReader(m, 0, m.size), m}, nil
}

// Glob implements fs.GlobFS.
func (a *Archive) Glob(pattern string) (l []string, err error) {
	for _, name := range a.names {
		match, err := path.Match(pattern, name)
		if err != nil {
			return nil, err
		}
		if match {
			l = append(l, name)
		}
	}
	return l, nil
}

// file is an open member.
type file struct {
	*io.SectionReader
	m *member
}

func (f *file) Stat() (fs.FileInfo, error) { return f.m.file.FileInfo(), nil }
func (f *file) Close() error               { return nil }

// member is a file of the archive.
type member struct {
	file   *zip.File
	size   int64
	raw    func() (io.ReaderAt, error) // deflated; the first call reads the member's header
	pieces []piece                     // and the end; nil: not in pieces

	mu     sync.Mutex
	kept   [8]keptPiece // read last, the latest first
	memory []byte       // of a member that is not in pieces
	err    error
}

type keptPiece struct {
	i int
	b []byte
}

// ReadAt implements io.ReaderAt.
func (m *member) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 || off >= m.size {
		return 0, io.EOF
	}
	if m.pieces == nil {
		b, err := m.all()
		if err != nil {
			return 0, err
		}
		return m.end(copy(p, b[off:]), p)
	}
	p0 := p
	p = p[:min(int64(len(p)), m.size-off)]
	for n < len(p) {
		at := off + int64(n)
		i, skip := int(at/pieceSize), int(at%pieceSize)
		if size := m.pieceSize(i); skip == 0 && len(p)-n >= size {
			if err := m.inflate(p[n:n+size], i); err != nil {
				return n, err
			}
			n += size
			continue
		}
		b, err := m.piece(i)
		if err != nil {
			return n, err
		}
		n += copy(p[n:], b[skip:])
	}
	return m.end(n, p0)
}

// end returns the result of a ReadAt that read n bytes of p.
func (m *member) end(n int, p []byte) (int, error) {
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (m *member) pieceSize(i int) int { return int(min(pieceSize, m.size-int64(i)*pieceSize)) }

// open returns the deflated member in the archive r.
func (m *member) open(r io.ReaderAt) (io.ReaderAt, error) {
	off, err := m.file.DataOffset()
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, m.file.Name, err)
	}
	return io.NewSectionReader(r, off, int64(m.file.CompressedSize64)), nil
}

func (m *member) inflate(p []byte, i int) error {
	all, err := m.raw()
	if err != nil {
		return err
	}
	from, to := m.pieces[i].off, m.pieces[i+1].off
	raw := io.NewSectionReader(all, from, to-from)
	if err := inflate(p, raw, m.pieces[i].crc); err != nil {
		return fmt.Errorf("%s at offset %#x: %w", m.file.Name, int64(i)*pieceSize, err)
	}
	return nil
}

// piece returns the contents of piece i, and caches them.
func (m *member) piece(i int) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := slices.IndexFunc(m.kept[:], func(k keptPiece) bool { return k.i == i && k.b != nil })
	var k keptPiece
	if at >= 0 {
		k = m.kept[at]
	} else {
		at = len(m.kept) - 1
		k = keptPiece{i, make([]byte, m.pieceSize(i))}
		if err := m.inflate(k.b, i); err != nil {
			return nil, err
		}
	}
	copy(m.kept[1:], m.kept[:at])
	m.kept[0] = k
	return k.b, nil
}

// maxMemory limits members that are completely unpacked into memory, in bytes.
const maxMemory = 64 << 20

// all returns the contents of a member that is not in pieces.
func (m *member) all() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.memory != nil || m.err != nil {
		return m.memory, m.err
	}
	m.memory, m.err = m.unpack()
	return m.memory, m.err
}

func (m *member) unpack() ([]byte, error) {
	if m.size > maxMemory {
		return nil, fmt.Errorf("%s in the archive, of %d bytes: %w", m.file.Name, m.size, ErrRepacked)
	}
	r, err := m.file.Open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", m.file.Name, ErrDamaged, err)
	}
	defer r.Close()
	// Memory grows with the bytes read, not with the claimed size.
	b, err := io.ReadAll(io.LimitReader(r, m.size))
	if err == nil && int64(len(b)) < m.size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", m.file.Name, ErrDamaged, err)
	}
	return b, nil
}
