package inputs

import (
	"bufio"
	"bytes"
	"errors"
	"net/http"
)

// Answers is a server whose answers are bytes of HTTP/1.1, one for each request: an http.RoundTripper. It refuses
// further requests.
type Answers [][]byte

var errNoAnswer = errors.New("connection reset")

// RoundTrip implements http.RoundTripper.
func (a *Answers) RoundTrip(req *http.Request) (*http.Response, error) {
	if len(*a) == 0 {
		return nil, errNoAnswer
	}
	next := (*a)[0]
	*a = (*a)[1:]
	return http.ReadResponse(bufio.NewReader(bytes.NewReader(next)), req)
}
