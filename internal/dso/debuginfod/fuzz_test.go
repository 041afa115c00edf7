package debuginfod

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gperf/internal/dso"
	"gperf/internal/testutil/inputs"
)

var smallestID = bytes.Repeat([]byte{0xab}, 20)

// smallest is an ELF file that has nothing but the build ID smallestID.
func smallest() []byte {
	var b bytes.Buffer
	const headers = 64 + 56
	head := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64}
	copy(head.Ident[:], elf.ELFMAG)
	head.Ident[elf.EI_CLASS], head.Ident[elf.EI_DATA] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB)
	head.Ident[elf.EI_VERSION] = byte(elf.EV_CURRENT)
	note := elf.Prog64{Type: uint32(elf.PT_NOTE), Off: headers, Filesz: 36, Memsz: 36, Align: 4}
	for _, v := range []any{head, note, []uint32{4, 20, 3}, []byte("GNU\x00"), smallestID} { // 3: NT_GNU_BUILD_ID
		binary.Write(&b, binary.LittleEndian, v)
	}
	return b.Bytes()
}

// FuzzAnswer: whatever a server answers, the cache has the file of the build ID that was asked for, or nothing but a
// note that it is missing.
func FuzzAnswer(f *testing.F) {
	program := smallest()
	id := dso.NewBuildID(smallestID)
	for _, seed := range [][]byte{
		fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(program), program),
		fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(program)+1, program),
		fmt.Appendf(nil, "HTTP/1.1 200 OK\r\n\r\n%s", program[:len(program)/2]),
		[]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n\x7fELF"),
		[]byte("HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n\x7fELF"),
		[]byte("HTTP/1.1 200 OK\r\n\r\n<html>"),
		[]byte("HTTP/1.1 301 Moved\r\nLocation: http://other/\r\n\r\n"),
		[]byte("HTTP/1.1 404 Not Found\r\n\r\n"),
		[]byte("HTTP/1.1 500 Internal Server Error\r\n\r\n"),
		[]byte("no HTTP"),
	} {
		f.Add(seed)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		c := New("http://host")
		c.Dir, c.Timeout, c.MaxSize = filepath.Join(dir, fmt.Sprint(os.Getpid())), time.Minute, 1<<20
		c.http.Transport = &inputs.Answers{data}
		defer os.RemoveAll(c.Dir)
		path, err := c.Find(id, dso.DebugFile)
		if err == nil {
			if got, err := dso.BuildIDOf(path); err != nil || !got.Matches(id) {
				t.Fatalf("the file has build ID %s, %v; want %s", got, err, id)
			}
		}
		left, _ := filepath.Glob(filepath.Join(c.Dir, "*", "*"))
		for _, name := range left {
			if st, err := os.Stat(name); err != nil || name != path && st.Size() > 0 {
				t.Fatalf("%s is left, %v", name, err)
			}
		}
	})
}
