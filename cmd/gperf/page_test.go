package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	bin "encoding/binary"
	"encoding/json"
	"io"
	"regexp"
	"testing"
)

// pageBlock is the element of a page of report/view that contains the samples.
var pageBlock = regexp.MustCompile(`<script type="text/plain" id="block">([^<]+)</script>`)

// pageBlockOf returns the block of samples of a page, or "" if the text is no page with a block.
func pageBlockOf(t testing.TB, page string) string {
	t.Helper()
	m := pageBlock.FindStringSubmatch(page)
	if m == nil {
		return ""
	}
	packed, err := base64.StdEncoding.DecodeString(m[1])
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	block, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(block)
}

// pageHeader is a part of the block's header, see report/view.
type pageHeader struct {
	Recordings []struct {
		Baseline       bool
		Start, Samples int
	}
	Events    []struct{ Name, Unit string }
	Keys      []string // of Groups
	Functions struct{ Name []string }
	Files     []string
	Columns   []struct {
		Name, Type            string
		Length, Offset, Bytes int
	}

	data []byte
}

// readPage returns the header of a page's block.
func readPage(t testing.TB, page string) *pageHeader {
	t.Helper()
	block := []byte(pageBlockOf(t, page))
	if len(block) < 8 {
		t.Fatalf("no block of samples in the page: %.300s", page)
	}
	size, h := int(bin.LittleEndian.Uint32(block[4:])), new(pageHeader)
	if err := json.Unmarshal(block[8:8+size], h); err != nil {
		t.Fatal(err)
	}
	h.data = block[8+size:]
	return h
}

// varints returns a column of unsigned numbers.
func (h *pageHeader) varints(t testing.TB, name string) (list []uint64) {
	t.Helper()
	for _, c := range h.Columns {
		if c.Name != name || c.Type != "varint" {
			continue
		}
		for data := h.data[c.Offset : c.Offset+c.Bytes]; len(data) > 0; {
			v, n := bin.Uvarint(data)
			list, data = append(list, v), data[n:]
		}
		return list
	}
	t.Fatalf("the page has no column %s of varints", name)
	return nil
}
