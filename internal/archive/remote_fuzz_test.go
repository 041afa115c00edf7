package archive

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"gperf/internal/testutil/inputs"
)

// answerEnd separates the answers in the input of a fuzz target.
var answerEnd = []byte("\x00\n")

// partial is a server's answer with a range of contents.
func partial(contents []byte, from, to, size int64) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 206 Partial Content\r\nETag: \"x\"\r\nContent-Length: %d\r\n"+
		"Content-Range: bytes %d-%d/%d\r\n\r\n%s", to-from, from, to-1, size, contents[from:to])
}

// FuzzRemote: whatever a server answers, a file has as many bytes as it says, or an error.
func FuzzRemote(f *testing.F) {
	end := int64(len(remoteContents))
	whole := []byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde")
	for _, seed := range [][]byte{
		partial(remoteContents, end-Block, end, end),
		bytes.Join([][]byte{partial(remoteContents, end-Block, end, end), partial(remoteContents, 0, Block, end),
			partial(remoteContents, Block, 2*Block, end)}, answerEnd),
		bytes.Join([][]byte{partial(remoteContents, end-Block, end, end), whole}, answerEnd),
		whole,
		[]byte("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nabc"),
		[]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nabc"),
		[]byte("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-4/5\r\n\r\nabcde"),
		[]byte("HTTP/1.1 206 Partial Content\r\n" +
			"Content-Range: bytes 9223372036854775800-9223372036854775806/9223372036854775807\r\n\r\nabcdefg"),
		[]byte("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 5-4/5\r\n\r\n"),
		[]byte("HTTP/1.1 416 Range Not Satisfiable\r\n\r\n"),
		[]byte("HTTP/1.1 302 Found\r\nLocation: http://other/\r\n\r\n"),
		[]byte("HTTP/1.1 404 Not Found\r\n\r\n"),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		server := inputs.Answers(bytes.Split(data, answerEnd))
		client := &http.Client{Transport: &server, CheckRedirect: sameHost}
		file, err := OpenRemote(context.Background(), "http://host/x.zip", RemoteOptions{Client: client})
		if err != nil {
			return
		}
		defer file.Close()
		size := file.Size()
		for _, off := range []int64{0, size / 2, size - 100, size - 1, size} {
			p := make([]byte, 100)
			n, err := file.ReadAt(p, off)
			if n < 0 || n > len(p) || off >= 0 && int64(n) > max(size-off, 0) {
				t.Fatalf("%d bytes at %d of %d", n, off, size)
			}
			if n < len(p) && err == nil {
				t.Fatalf("%d bytes at %d of %d without an error", n, off, size)
			}
			if err == io.EOF && off >= 0 && off+int64(n) < size {
				t.Fatalf("the file ends at %d of %d", off+int64(n), size)
			}
		}
		if kept := int64(len(file.blocks)) * Block; kept > maxKept+2*maxRange {
			t.Fatalf("%d bytes are kept", kept)
		}
	})
}
